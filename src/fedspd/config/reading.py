"""Configuration: strict TOML into frozen dataclasses. What a key means stands in `sections`, once."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedspd.algorithms import METHODS
from fedspd.config.conditions import lacks
from fedspd.config.sections import DEFAULT_METHOD, SECTIONS, Config, Data, declared_keys
from fedspd.data.source import OWN_SOURCES
from fedspd.errors import InputError
from fedspd.reading import TABLES, nearest, overridden, parse_section, read_toml, shown

OWN_RECORDS: dict[str, Any] = {
    "metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0, "run.seed": None,
    "run.participants": None, "run.engine": "numpy", "problem.counts": "records",
}  # fmt: skip
"""Of somebody's own records nothing is computed that is not released with noise, unless somebody says so; no seed lets
anybody subtract it; everybody takes part, in double precision, and every record counts the same."""


def presets() -> list[str]:
    """Names of the configurations inside the package."""
    return sorted(path.name.removesuffix(".toml") for path in _preset_folder().iterdir() if path.name.endswith(".toml"))


def load(
    source: str | Path,
    overrides: Mapping[str, Any] | None = None,
    where_read: Mapping[str, Any] | None = None,
) -> Config:
    """Read a preset by name or a TOML file by path, then apply overrides such as {"run.seed": 1}.

    What a preset sets is a default: where the overrides ask for something that does not read it, it is left out. What
    a file or an override sets is meant, and refused where it is not read.

    Args:
        source: the preset or the file.
        overrides: settings to change, by "section.key"; None leaves one out.
        where_read: settings that are left out where they are not read, like those of a preset.
    """
    values = _read(source)
    given, is_preset = overrides or {}, str(source) in presets()
    meant = overridden({} if is_preset else values, given)
    left_out = dict.fromkeys(name for name, value in given.items() if value is None)
    usual = overridden(overridden(values if is_preset else {}, _of_records(meant)), where_read or {})
    usual = overridden(usual, left_out)
    return parse(_joined(_fitting(usual, meant), meant))


def _of_records(meant: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is usual where the records are somebody's own."""
    data = meant.get("data", {})
    return OWN_RECORDS if isinstance(data, Mapping) and data.get("name") in OWN_SOURCES else {}


def parse(values: Mapping[str, Any]) -> Config:
    """Check sections, keys, types, ranges, and that everything set is read."""
    if not isinstance(values, Mapping):
        raise InputError(f"a configuration must be a table of sections, got {shown(values)}; pass one.")
    config = _build(values)
    for section, keys in values.items():
        for key, value in keys.items():
            needed = lacks(config, f"{section}.{key}")
            if needed is not None:
                raise InputError(
                    f"{section}.{key} would have no effect, got {value!r}; it needs {needed}: leave it out, or see to "
                    "that."
                )
    return config


def changed(config: Config, overrides: Mapping[str, Any]) -> Config:
    """The configuration with some settings changed, by "section.key"; None leaves one out."""
    set_by_someone = {
        section: {key: value for key, value in keys.items() if key == "name" or value != _default(config, section, key)}
        for section, keys in config.to_dict().items()
    }
    return parse(overridden(set_by_someone, overrides))


def _default(config: Config, section: str, key: str) -> Any:
    return config.declared(section)[key].default


def _build(values: Mapping[str, Any]) -> Config:
    sections: dict[str, Any] = {
        name: SECTIONS[name].of(keys) if name in ("algorithm", "data") else parse_section(SECTIONS, name, keys)
        for name, keys in values.items()
    }
    return Config(**sections)


def _fitting(usual: Mapping[str, Any], meant: Mapping[str, Any]) -> dict[str, Any]:
    """What is usual, without what is not read beside what is meant."""
    fitting = {section: dict(table) for section, table in usual.items()}
    named = _joined(fitting, meant).get("algorithm", {})
    name = named.get("name", DEFAULT_METHOD) if isinstance(named, Mapping) else DEFAULT_METHOD
    known = {"name", *METHODS.find(name).keys} if isinstance(name, str) else set()
    fitting["algorithm"] = {key: value for key, value in fitting.get("algorithm", {}).items() if key in known}
    fitting["data"] = _of_source(fitting.get("data", {}), meant.get("data", {}))
    config = _build(_joined(fitting, meant))
    return {
        section: {key: value for key, value in table.items() if lacks(config, f"{section}.{key}") is None}
        for section, table in fitting.items()
    }


def _of_source(usual: Mapping[str, Any], meant: Any) -> dict[str, Any]:
    """The usual keys of [data] without those that belong to another source than the one that is meant."""
    name = meant.get("name") if isinstance(meant, Mapping) else None
    if name is None or name == usual.get("name"):
        return dict(usual)
    return {key: value for key, value in usual.items() if key in declared_keys(Data)}


def _joined(usual: Mapping[str, Any], meant: Mapping[str, Any]) -> dict[str, Any]:
    """Both, what is meant before what is usual."""
    joined: dict[str, Any] = dict(usual)
    for section, table in meant.items():
        both = isinstance(table, Mapping) and isinstance(joined.get(section), Mapping)
        joined[section] = {**joined[section], **table} if both else table
    return joined


def parse_overrides(texts: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What options stand for and what was set beside them, every setting once."""
    found = dict(options)
    given = dict.fromkeys(options, "an option of its own")
    for text in texts:
        name, value = parse_override(text)
        if name in given:
            raise InputError(
                f"expected every setting once, got {shown(name)} by {given[name]} and by --set {shown(text)}; "
                "leave one of them out."
            )
        found[name], given[name] = value, f"--set {shown(text)}"
    return found


def parse_override(text: str) -> tuple[str, Any]:
    """Split "section.key=value"; the value is read as TOML, and as a string where it is none.

    An empty one is None, which leaves a setting out that a preset or a file has.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"a setting must look like section.key=value, got {text!r}.")
    if not value.strip():
        return name.strip(), None
    try:
        found = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return name.strip(), value.strip()
    return name.strip(), found["value"] if found.keys() == {"value"} else value.strip()


def _read(source: str | Path) -> dict[str, Any]:
    if str(source) in presets():
        return tomllib.loads((_preset_folder() / f"{source}.toml").read_text())
    is_table = str(source).lower().removesuffix(".gz").endswith(TABLES)
    remedy = f"name it with --data {source} --schema SCHEMA.toml." if is_table else nearest(str(source), presets())
    return read_toml(source, "a TOML file or a preset", remedy)


def _preset_folder() -> Any:
    return files("fedspd") / "config" / "presets"
