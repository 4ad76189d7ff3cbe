"""Configuration: strict TOML into frozen dataclasses. What a key means stands in `settings`, once."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedspd.config.sections import SECTIONS, Config
from fedspd.errors import InputError
from fedspd.reading import nearest, parse_section


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
            f"expected a TOML file or a preset, got {name!r} ({reason}); {nearest(name, presets())}"
        ) from None


def _preset_folder() -> Any:
    return files("fedspd") / "config" / "presets"
