"""Checks of what goes into a page: right kinds, finite numbers, text that a file can hold."""

import math
from collections.abc import Iterable, Mapping, Set
from numbers import Integral, Real
from typing import Any, NoReturn

from fedspd.errors import InputError


def numbers(values: Any, what: str) -> tuple[float | None, ...]:
    """Floats; what is missing or not finite becomes None."""
    found: list[float | None] = []
    for value in listed(values, what):
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            refuse(what, "numbers", repr(value))
        try:
            found.append(float(value) if value is not None and math.isfinite(value) else None)
        except OverflowError:  # an integer beyond every float
            found.append(None)
    return tuple(found)


def finite(values: Any, what: str) -> tuple[float, ...]:
    """Floats without a gap."""
    found = numbers(values, what)
    if None in found:
        refuse(what, "finite", "a number that is not, or a gap")
    return tuple(value for value in found if value is not None)


def text(value: Any, what: str) -> str:
    """Text that can be written as UTF-8; names of files may hold what cannot."""
    if not isinstance(value, str):
        refuse(what, "text", repr(value))
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(what, "text that UTF-8 can hold", repr(value))
    return value


def texts(values: Any, what: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(text(value, what) for value in listed(values, what))


def listed(values: Any, what: str) -> tuple[Any, ...]:
    """Anything that has an order, arrays included."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping | Set):
        refuse(what, "a list", repr(values))
    return tuple(values)


def pairs(values: Any, what: str) -> tuple[tuple[Any, Any], ...]:
    """A list of pairs."""
    found = tuple(listed(value, what) for value in listed(values, what))
    for value in found:
        if len(value) != 2:
            refuse(what, "pairs", repr(value))
    return tuple((first, second) for first, second in found)


def parts(values: Any, kind: type, what: str) -> tuple[Any, ...]:
    """A list of things of one kind."""
    found = listed(values, what)
    for part in found:
        if not isinstance(part, kind):
            refuse(what, f"of the kind {kind.__name__}", repr(part))
    return found


def plain(value: Any, what: str) -> Any:
    """Nested mappings, lists and scalars as JSON gives them back."""
    match value:
        case None | bool():
            return value
        case str():
            return text(value, what)
        case Mapping():
            return {text(name, what): plain(item, what) for name, item in value.items()}
        case list() | tuple():
            return [plain(item, what) for item in value]
        case Integral():
            return int(value)
    return numbers([value], what)[0]


def put(frozen: Any, **values: Any) -> None:
    """Put checked values into a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def refuse(what: str, expected: str, got: str) -> NoReturn:
    """What was expected, what was got, and what to do about it."""
    shown = got if len(got) <= 200 else f"{got[:200]}…"
    raise InputError(f"{what} must be {expected}, got {shown}; correct it, or write page.json anew.")
