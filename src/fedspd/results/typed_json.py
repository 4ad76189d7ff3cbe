"""Values of JSON as frozen dataclasses, checked against the types of their fields: a file may be anybody's."""

import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

LARGEST = sys.float_info.max
MOST_BYTES = 64 << 20


def read_json(path: Path) -> Any:
    """The value in a file; a number that is not finite is refused, since `to_json` writes none."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)  # no device fills the memory
    if len(content) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
    return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)


def made(kind: type, values: Any) -> Any:
    """A dataclass, from what JSON made of it.

    Raises:
        ValueError: something is missing, unknown or of another kind, as in what another version wrote.
    """
    types = get_type_hints(kind)
    needed = {each.name for each in fields(kind) if each.default is MISSING}
    if not isinstance(values, Mapping):
        raise ValueError(f"expected an object, got {type(values).__name__}")
    odd = sorted((needed - values.keys()) | (values.keys() - types.keys()))
    odd += [name for name in types.keys() & values.keys() if not _fits(values[name], types[name])]
    if odd:
        raise ValueError(
            f"expected the fields of {kind.__name__}, got something missing, unknown or of another kind: "
            f"{', '.join(odd)}"
        )
    return kind(**{name: _typed(value, types[name]) for name, value in values.items()})


def _fits(value: Any, declared: Any) -> bool:
    """Whether a value can stand in a field of this type; dataclasses in a list are checked when they are made."""
    if isinstance(declared, UnionType):
        return any(_fits(value, one) for one in get_args(declared))
    parts, origin = get_args(declared), get_origin(declared)
    if origin is tuple:
        return isinstance(value, list) and (is_dataclass(parts[0]) or all(_fits(one, parts[0]) for one in value))
    if origin is Mapping:
        inner = parts[1]
        return isinstance(value, Mapping) and (is_dataclass(inner) or all(_fits(one, inner) for one in value.values()))
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if is_dataclass(declared):
        return isinstance(value, Mapping)
    if declared in (int, float):
        return type(value) in (int, declared) and abs(value) <= LARGEST
    return type(value) is declared


def _typed(value: Any, declared: Any) -> Any:
    """The value as the field holds it: lists as tuples, objects as dataclasses."""
    if isinstance(declared, UnionType):
        declared = next(one for one in get_args(declared) if (one is NoneType) == (value is None))
    parts, origin = get_args(declared), get_origin(declared)
    if origin is tuple:
        return tuple(_typed(one, parts[0]) for one in value)
    if origin is Mapping:
        return {name: _typed(one, parts[1]) for name, one in value.items()}
    return made(declared, value) if is_dataclass(declared) and isinstance(declared, type) else value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
