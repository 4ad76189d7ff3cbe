"""Configurations: every setting with its meaning and limits (`sections`), read from strict TOML (`reading`)."""

from fedspd.config.describing import describe
from fedspd.config.reading import changed, load, parse, parse_override, parse_overrides, presets
from fedspd.config.sections import Config

__all__ = ["Config", "changed", "describe", "load", "parse", "parse_override", "parse_overrides", "presets"]
