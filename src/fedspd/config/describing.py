"""Every setting in words, as `fedspd settings` lists them."""

from dataclasses import Field, fields
from typing import Any

from fedspd.algorithms import METHODS
from fedspd.config.sections import DEFAULT_METHOD, SECTIONS, declared_keys
from fedspd.data import SOURCES


def describe() -> list[tuple[str, str, str]]:
    """Name, default and meaning of every setting; those of methods with the methods that have them."""
    rows = []
    for section, kind in SECTIONS.items():
        if section == "algorithm":
            rows += _of_methods()
        else:
            rows += [(f"{section}.{key.name}", _default(key), _meaning(key)) for key in declared_keys(kind).values()]
        if section == "data":
            rows += [
                (f"data.{key.name}", _default(key), f"{_meaning(key)}; of {name}")
                for name, source in SOURCES.items()
                for key in fields(source.settings)
            ]
    return rows


def _of_methods() -> list[tuple[str, str, str]]:
    having: dict[tuple[str, str, str], list[str]] = {}
    for name, method in METHODS.items():
        for key in fields(method.settings):
            having.setdefault((f"algorithm.{key.name}", _default(key), _meaning(key)), []).append(name)
    named = [
        ("algorithm.name", DEFAULT_METHOD, "the method, see fedspd methods; it decides which other keys there are")
    ]
    return named + [(name, value, f"{words}; of {', '.join(names)}") for (name, value, words), names in having.items()]


def _default(key: Field[Any]) -> str:
    return "" if key.default is None else str(key.default)


def _meaning(key: Field[Any]) -> str:
    choices = key.metadata.get("choices", ())
    return key.metadata["doc"] + (f" ({' | '.join(choices)})" if len(choices) > 1 else "")
