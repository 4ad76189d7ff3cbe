"""Configuration: strict TOML into frozen dataclasses. What a key means stands in `settings`, once."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from importlib.resources import files
from math import inf, isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from fedspd.config.sections import SECTIONS, Config
from fedspd.errors import InputError

NUMBERS = {"above": "above", "at_least": "at least", "at_most": "at most", "below": "below"}


def presets() -> list[str]:
    """Names of the configurations inside the package."""
    return sorted(path.name.removesuffix(".toml") for path in _preset_folder().iterdir() if path.name.endswith(".toml"))


def load(source: str | Path, overrides: Mapping[str, Any] | None = None, absent: Sequence[str] = ()) -> Config:
    """Read a preset by name or a TOML file by path, then apply overrides such as {"run.seed": 1}.

    Args:
        source: the preset or the file.
        overrides: settings to change, by "section.key".
        absent: settings to leave out though the source has them.
    """
    try:
        values = tomllib.loads(_read(source))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not valid TOML: {error}; mend it at that place.") from None
    for name, value in (overrides or {}).items():
        section, dot, key = name.partition(".")
        if not dot:
            raise InputError(f"a setting must be named section.key, got {name!r}; for example run.seed.")
        table = values.setdefault(section, {})
        if isinstance(table, dict):  # what is none is refused by parse
            table[key] = value
    for name in absent:
        section, _, key = name.partition(".")
        values.get(section, {}).pop(key, None)
    return parse(values)


def parse(values: Mapping[str, Any]) -> Config:
    """Check sections, keys, types and ranges."""
    sections = {}
    for name, keys in values.items():
        sections[name] = parse_section(SECTIONS, name, keys)
    return Config(**sections)


def parse_section(sections: Mapping[str, Any], name: str, keys: Any) -> Any:
    """One of the known sections, its keys, types and ranges checked."""
    if name not in sections:
        raise InputError(f"unknown section [{name}]; {_nearest(name, sections)}")
    if not isinstance(keys, Mapping):
        raise InputError(f"[{name}] must be a table of keys, got {keys!r}; write [{name}] on its own line.")
    known = {key.name: key for key in fields(sections[name])}
    for key in keys:
        if key not in known:
            raise InputError(f"unknown key {name}.{key}; {_nearest(key, known)}")
    checked = {key: _checked(f"{name}.{key}", known[key], value) for key, value in keys.items()}
    for key in known.values():
        if key.metadata.get("needed") and key.name not in checked:
            raise InputError(f"{name}.{key.name} is needed, got none; set it: {key.metadata['doc']}.")
    return sections[name](**checked)


def changed(config: Config, overrides: Mapping[str, Any]) -> Config:
    """The configuration with some settings changed, by "section.key"."""
    values = config.to_dict()
    for name, value in overrides.items():
        section, _, key = name.partition(".")
        values[section][key] = value
    return parse(values)


def parse_override(text: str) -> tuple[str, Any]:
    """Split "section.key=value"; the value is read as TOML, and as a string where it is none."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"a setting must look like section.key=value, got {text!r}.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def _read(source: str | Path) -> str:
    name, path = str(source), Path(source)
    if name in presets():
        return (_preset_folder() / f"{name}.toml").read_text()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(
            f"expected a TOML file or a preset, got {name!r} ({reason}); {_nearest(name, presets())}"
        ) from None


def _preset_folder() -> Any:
    return files("fedspd") / "config" / "presets"


def _nearest(name: str, known: Any) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {match[0]!r}?" if match else f"known are {', '.join(known)}."


def _checked(name: str, key: Field[Any], value: Any) -> Any:
    value = _typed(name, key.type, value)
    rules = key.metadata
    if "choices" in rules:
        for one in value if isinstance(value, tuple) else (value,):
            if one not in rules["choices"]:
                raise InputError(f"{name} must be one of {', '.join(rules['choices'])}, got {one!r}.")
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = (
            (isfinite(value) or (value == inf and "infinite" in rules))
            and value > rules.get("above", -inf)
            and value >= rules.get("at_least", -inf)
            and value <= rules.get("at_most", inf)
            and ("below" not in rules or value < rules["below"])
        )
        if not fits:
            wanted = [] if isfinite(value) or "infinite" in rules else ["finite"]
            wanted += [f"{word} {rules[rule]:g}" for rule, word in NUMBERS.items() if rule in rules]
            raise InputError(f"{name} must be {' and '.join(wanted)}, got {value}.")
    return value


def _typed(name: str, declared: Any, value: Any) -> Any:
    wanted = [t for t in get_args(declared) if t is not NoneType] if isinstance(declared, UnionType) else [declared]
    if float in wanted and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if get_origin(wanted[0]) is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            raise InputError(f"{name} must be a list of strings, got {value!r}.")
        return tuple(value)
    if type(value) not in wanted:
        raise InputError(f"{name} must be {_words(wanted[0])}, got {value!r}.")
    return value


def _words(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[kind]
