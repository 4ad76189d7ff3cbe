"""A table of keys into a frozen dataclass, by what its fields declare: names, types, choices and ranges.

Whoever reads TOML declares each key once, as a field with `setting`. What does not fit is refused in a sentence that
says what was expected, what was got, and the nearest name where one is misspelled.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import Field, field, fields
from math import inf, isfinite
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from fedspd.errors import InputError

NUMBERS = {"above": "above", "at_least": "at least", "at_most": "at most", "below": "below"}


def setting(default: Any, doc: str, **rules: Any) -> Any:
    """A key, its meaning and its rules: `choices`, `above`, `at_least`, `at_most`, `below`, `infinite`, `needed`."""
    return field(default=default, metadata={"doc": doc, **rules})


def parse_section(sections: Mapping[str, Any], name: str, keys: Any) -> Any:
    """One of the known sections, its keys, types and ranges checked."""
    if name not in sections:
        raise InputError(f"unknown section [{name}]; {nearest(name, sections)}")
    if not isinstance(keys, Mapping):
        raise InputError(f"[{name}] must be a table of keys, got {keys!r}; write [{name}] on its own line.")
    known = {key.name: key for key in fields(sections[name])}
    for key in keys:
        if key not in known:
            raise InputError(f"unknown key {name}.{key}; {nearest(key, known)}")
    checked = {key: _checked(f"{name}.{key}", known[key], value) for key, value in keys.items()}
    for key in known.values():
        if key.metadata.get("needed") and key.name not in checked:
            raise InputError(f"{name}.{key.name} is needed, got none; set it: {key.metadata['doc']}.")
    return sections[name](**checked)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a refusal: the known name that is most like this one, or all of them."""
    match = difflib.get_close_matches(name, [*known], n=1, cutoff=0.5)
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
