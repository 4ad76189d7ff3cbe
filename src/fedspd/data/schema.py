"""What is public about a table: its columns, their bounds and levels, and its classes.

All sites and the server share one `schema.toml`. It is declared before any record is read and nothing in
it is ever computed from records, so features built under it cost no privacy.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedspd.errors import InputError
from fedspd.reading import nearest, read_toml, typed

MISSING_ENTRIES = ("", "?")  # what a file holds where a value is missing


@dataclass(frozen=True)
class Numeric:
    """A column of numbers within declared bounds, and the public number that stands for a missing one."""

    name: str
    lower: float
    upper: float
    missing: float
    log: bool = False  # log(1 + value) is the feature

    def __post_init__(self) -> None:
        least = 0.0 if self.log else -np.inf
        if not (least <= self.lower < self.upper and 0 < self.range[1] - self.range[0] < np.inf):
            raise InputError(
                f"the bounds of column {self.name!r} must be two finite numbers, the lower one first"
                f"{' and at least 0 for a logarithm' if self.log else ''}, got {self.lower:g} and {self.upper:g}; "
                "declare the range its values may take."
            )
        if not self.lower <= self.missing <= self.upper:
            raise InputError(
                f"the missing value of column {self.name!r} must be within its bounds {self.lower:g} and "
                f"{self.upper:g}, got {self.missing:g}; move it or widen the bounds."
            )

    @property
    def features(self) -> tuple[str, ...]:
        """The one feature that this column becomes."""
        return (self.name,)

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest value of the feature: the bounds, or their logarithms."""
        lower, upper = (float(np.log1p(bound)) if self.log else bound for bound in (self.lower, self.upper))
        return lower, upper


@dataclass(frozen=True)
class Categorical:
    """A column of declared levels, and the level that stands for any other entry, if there is one."""

    name: str
    levels: tuple[str, ...]
    missing: str | None = None
    drop_first: bool = False  # the first level is the baseline and has no feature

    def __post_init__(self) -> None:
        _check_names(f"levels of column {self.name!r}", self.levels, at_least=2 if self.drop_first else 1)
        if self.missing is not None and self.missing not in self.levels:
            raise InputError(
                f"the missing level of column {self.name!r} must be one of its levels, got {self.missing!r}; "
                f"{nearest(self.missing, self.levels)}"
            )

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, 0 or 1, that this column becomes: one for each level but the baseline."""
        return tuple(f"{self.name}={level}" for level in self.levels[int(self.drop_first) :])


@dataclass(frozen=True)
class Schema:
    """The declared columns of a table in the order of their features, and the classes of its label."""

    inputs: tuple[Numeric | Categorical, ...]
    label: str  # name of the column that holds the class
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_names("column names, the label's included,", (*(column.name for column in self.inputs), self.label), 2)
        _check_names("classes", self.classes, at_least=2)
        _check_names("features, such as column=level,", self.columns, at_least=1)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(name for column in self.inputs for name in column.features)

    @cached_property
    def numeric(self) -> NDArray[np.bool_]:
        """Which features are numbers; the others are levels, 0 or 1."""
        return np.array([isinstance(column, Numeric) for column in self.inputs for _ in column.features])

    @cached_property
    def ranges(self) -> NDArray[np.float64]:
        """Lowest and highest value of each feature, one row each: 0 and 1 for a level."""
        pairs = (column.range if isinstance(column, Numeric) else (0.0, 1.0) for column in self.inputs)
        widths = [len(column.features) for column in self.inputs]
        return np.repeat(np.array([*pairs]), widths, axis=0)

    @property
    def categorical(self) -> int:
        """Number of blocks of levels; in each block a record has at most one 1."""
        return sum(isinstance(column, Categorical) for column in self.inputs)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of the content: two sites compare them to see that they hold the same schema."""
        content = json.dumps(_content(self), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_schema(path: str | Path) -> Schema:
    """Read a `schema.toml`; its keys and types are checked strictly."""
    values = read_toml(path, "a schema in TOML, as UTF-8 text", "name another file, or save it as such.")
    _check_keys("the schema", values, ("label", "columns"), required=("label", "columns"))
    label = values["label"]
    _check_keys("[label]", label, ("column", "classes"), required=("column", "classes"))
    columns = typed("the columns, each under its own [[columns]],", tuple[dict, ...], values["columns"])
    return Schema(
        tuple(_column(entry) for entry in columns),
        typed("label.column", str, label["column"]),
        typed("label.classes", tuple[str, ...], label["classes"]),
    )


def schema_text(schema: Schema) -> str:
    """The schema as TOML, with every default written out; `read_schema` gives it back."""
    return tomli_w.dumps(_content(schema))


def _content(schema: Schema) -> dict[str, Any]:
    columns = []
    for column in schema.inputs:
        if isinstance(column, Numeric):
            # Adding 0 makes -0.0 and whole numbers what they equal, so that equal schemas have one text and digest.
            lower, upper, missing = (float(value) + 0.0 for value in (column.lower, column.upper, column.missing))
            entry = {"bounds": [lower, upper], "log": column.log, "missing": missing}
        else:
            entry = {"levels": [*column.levels], "drop_first": column.drop_first}
            entry |= {} if column.missing is None else {"missing": column.missing}
        columns.append({"name": column.name, **entry})
    return {"label": {"column": schema.label, "classes": [*schema.classes]}, "columns": columns}


NUMERIC_KEYS = ("name", "bounds", "log", "missing")
CATEGORICAL_KEYS = ("name", "levels", "drop_first", "missing")


def _column(entry: Any) -> Numeric | Categorical:
    _check_keys("[[columns]]", entry, dict.fromkeys((*NUMERIC_KEYS, *CATEGORICAL_KEYS)), required=("name",))
    where = f"column {typed('the name of a column', str, entry['name'])!r}"
    if ("bounds" in entry) == ("levels" in entry):
        raise InputError(
            f"{where} must have either bounds, if it is numeric, or levels, if it is categorical, got "
            f"{'both' if 'bounds' in entry else 'neither'}; declare one of them."
        )
    return _numeric(where, entry) if "bounds" in entry else _categorical(where, entry)


def _numeric(where: str, entry: dict[str, Any]) -> Numeric:
    _check_keys(f"{where}, which is numeric,", entry, NUMERIC_KEYS)
    bounds = typed(f"bounds of {where}", tuple[float, ...], entry["bounds"])
    if len(bounds) != 2:
        raise InputError(f"bounds of {where} must be two numbers, got {len(bounds)}; write [lower, upper].")
    missing = typed(f"missing of {where}", float, entry.get("missing", bounds[0]))
    log = typed(f"log of {where}", bool, entry.get("log", False))
    return Numeric(entry["name"], bounds[0], bounds[1], missing, log)


def _categorical(where: str, entry: dict[str, Any]) -> Categorical:
    _check_keys(f"{where}, which is categorical,", entry, CATEGORICAL_KEYS)
    missing = typed(f"missing of {where}", str, entry["missing"]) if "missing" in entry else None
    drop_first = typed(f"drop_first of {where}", bool, entry.get("drop_first", False))
    levels = typed(f"levels of {where}", tuple[str, ...], entry["levels"])
    return Categorical(entry["name"], levels, missing, drop_first)


def _check_keys(where: str, entry: Any, known: Iterable[str], required: tuple[str, ...] = ()) -> None:
    typed(where, dict, entry)
    for key in entry:
        if key not in known:
            raise InputError(f"{where} has an unknown key {key!r}; {nearest(key, known)}")
    for key in required:
        if key not in entry:
            raise InputError(f"{where} must have the key {key!r}, got none; add it.")


def _check_names(what: str, names: tuple[str, ...], at_least: int) -> None:
    if len(names) < at_least:
        raise InputError(f"{what} must be at least {at_least}, got {len(names)}; add some.")
    for name in names:
        if name in MISSING_ENTRIES or name != name.strip():
            raise InputError(
                f"{what} must be text without spaces around it, neither empty nor '?', got {name!r}; change it."
            )
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"{what} must all be different, got {name!r} more than once; drop or rename one.")
