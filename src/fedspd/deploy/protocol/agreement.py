"""What terms lead to, as a short name: server and sites must derive the same method and the same plan."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.data import Schema
from fedspd.deploy.protocol.terms import digest_of, read_terms


@lru_cache(maxsize=4)  # calibrating noise may take a second, and every message of a run needs it
def agreed_on(terms: str, schema: Schema) -> Agreed[Any]:
    """Method and plan of a run, derived once."""
    return read_terms(terms).agreed(schema)


def agreement_of(agreed: Agreed[Any]) -> str:
    """A short name of method and plan as they were derived: two programs that differ in it must not meet in a run.

    Numbers count to eight digits, since another processor may round the last ones in another way.
    """
    return digest_of(_canonical(agreed))


def _canonical(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool | str | int | None):
        return repr(value)
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_canonical(item)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({','.join(map(_canonical, value))})"
    if is_dataclass(value):
        named = ((key.name, getattr(value, key.name)) for key in fields(value))
        return f"{type(value).__name__}({','.join(f'{name}={_canonical(item)}' for name, item in named)})"
    return f"{type(value).__name__}:{getattr(value, '__qualname__', '')}"
