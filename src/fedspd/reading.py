"""TOML into frozen dataclasses, by what their fields declare: names, types, choices and ranges.

Whoever reads TOML declares each key once, as a field with `setting`. What does not fit is refused in a sentence that
says what was expected, what was got, and the nearest name where one is misspelled.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, field, fields
from math import inf
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from fedspd.errors import InputError

MOST_SHOWN = 120  # characters of a value
MOST_BYTES = 16 << 20  # of a file in TOML
SIZES = (1e-12, 1e12)
"""What float64 keeps digits beside: with larger and smaller numbers noise and sensitivities vanish in rounding."""
TABLES = (".csv", ".tsv", ".parquet")
NUMBERS = {"above": "above", "at_least": "at least", "at_most": "at most", "below": "below"}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", dict: "a table of keys"}
NUMERIC = {int: Integral, float: Real}  # NumPy's numbers too
LISTS = {float: "a list of numbers", str: "a list of strings", dict: "a list of tables"}


def setting(default: Any, doc: str, **rules: Any) -> Any:
    """A key, its meaning and its rules.

    These are `choices`, `above`, `at_least`, `at_most`, `below`, `infinite`, `needed` and `within`: a range of sizes
    beyond which nothing can be computed or waited for. Zero is not meant.
    """
    return field(default=default, metadata={"doc": doc, **rules})


def shown(value: Any) -> str:
    """A value as a sentence quotes it: no longer than a line."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**MOST_SHOWN else "a longer number"
    text = " ".join(text.split())
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def read_toml(path: str | Path, expected: str, remedy: str) -> dict[str, Any]:
    """The tables of a TOML file; what was expected and the remedy are for the sentence that refuses another file."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"expected {expected}, got {shown(path)}; {remedy}")
    if str(path).lower().removesuffix(".gz").endswith(TABLES):
        raise InputError(f"expected {expected}, got {str(path)!r}, by its name a table of records; {remedy}")
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)  # no device fills the memory
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"expected {expected}, got {str(path)!r} (not UTF-8 text); {remedy}") from None
    except (OSError, ValueError) as error:  # a name with a character 0 is no name
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise InputError(f"expected {expected}, got {str(path)!r} ({reason}); {remedy}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"expected {expected}, got {str(path)!r} (more than {MOST_BYTES >> 20} MiB); {remedy}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}; mend it at that place.") from None
    except ValueError:
        raise InputError(f"{path} is not valid TOML: a number has too many digits; mend it at that place.") from None
    except RecursionError:
        raise InputError(f"{path} is not valid TOML: it is nested too deeply; mend it.") from None


def overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Tables with some settings changed, by "section.key"; None leaves one out, and a section that it empties."""
    result = {section: dict(keys) if isinstance(keys, Mapping) else keys for section, keys in values.items()}
    if not isinstance(overrides, Mapping):
        raise InputError(f"settings must be a dictionary by 'section.key', got {shown(overrides)}; pass one.")
    for name, value in overrides.items():
        section, dot, key = str(name).partition(".")
        table = result.setdefault(section, {})
        if not dot or isinstance(table, list):
            raise InputError(f"a setting must be named section.key, got {name!r}; for example run.seed.")
        if not isinstance(table, dict):
            continue  # what is no table is refused where sections are parsed
        table[key] = value
        if value is None:
            del table[key]
        if not table:
            del result[section]
    return result


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


def typed(name: str, declared: Any, value: Any) -> Any:
    """The value as a field of this type holds it: whole numbers become numbers where those are meant, lists tuples."""
    given, value = value, _plain(value)
    kind = next(t for t in get_args(declared) if t is not NoneType) if isinstance(declared, UnionType) else declared
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be {LISTS[kind]}, got {shown(given)}.")
        return tuple(typed(f"each of {name}", kind, one) for one in value)
    if kind in NUMERIC and isinstance(value, NUMERIC[kind]) and not isinstance(value, bool):
        try:
            return kind(value)
        except OverflowError:  # of a whole number too long for a float: like any other number without end
            return inf if value > 0 else -inf
    if type(value) is not kind:
        raise InputError(f"{name} must be {WORDS[kind]}, got {shown(given)}.")
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a refusal: the known name that is most like this one, or all of them."""
    match = most_like(name, known)
    return f"did you mean {match!r}?" if match else f"known are {', '.join(known)}."


def meant(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a refusal that lists what is known: the one that is most like this name, or what to do."""
    match = most_like(name, known)
    return f"; did you mean {match!r}?" if match else otherwise


def most_like(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody may have meant, whatever its capitals, if there is one."""
    plain, asked = {each.casefold(): each for each in known}, str(name).casefold()
    within = [each for each in plain if asked and asked in each.split("-")]
    match = within or difflib.get_close_matches(asked, [*plain], n=1, cutoff=0.5)
    return plain[match[0]] if match else None


def _plain(value: Any) -> Any:
    """A value of NumPy's as Python has it, and a path as text."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _checked(name: str, key: Field[Any], value: Any) -> Any:
    value = typed(name, key.type, value)
    rules = key.metadata
    if "choices" in rules:
        for one in value if isinstance(value, tuple) else (value,):
            if one not in rules["choices"]:
                end = meant(one, rules["choices"], ".")
                raise InputError(f"{name} must be one of {', '.join(rules['choices'])}, got {shown(one)}{end}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = (
            -inf < value < inf
            and value > rules.get("above", -inf)
            and value >= rules.get("at_least", -inf)
            and value <= rules.get("at_most", inf)
            and ("below" not in rules or value < rules["below"])
        ) or (value == inf and "infinite" in rules)
        if not fits:
            wanted = [] if -inf < value < inf or "infinite" in rules else ["finite"]
            wanted += [f"{word} {rules[rule]:g}" for rule, word in NUMBERS.items() if rule in rules]
            unless = ", or inf" if "infinite" in rules and "at_most" in rules else ""
            raise InputError(f"{name} must be {' and '.join(wanted)}{unless}, got {value}.")
        least, most = rules.get("within", (0, inf))
        if 0 < abs(value) < inf and not least <= abs(value) <= most:
            ends = [f"at least {least:g}"] * (least > 0) + [f"at most {most:g}"] * (most < inf)
            raise InputError(f"{name} must be {' and '.join(ends)}, got {shown(value)}.")
    return value
