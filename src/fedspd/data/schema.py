"""What is public about a table: its columns, their bounds and levels, and its target.

All sites and the server share one `schema.toml`. It is declared before any record is read and nothing in
it is computed from records, so features built under it cost no privacy. Where a draft was computed from records, it
says so (`confirmed = false`), and no run under it may call itself proved.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedspd.data.features.columns import Categorical, Column, Numeric, Product
from fedspd.data.names import check_names
from fedspd.errors import InputError
from fedspd.reading import nearest, read_toml, typed
from fedspd.target import Classes, Count, Number, Target


@dataclass(frozen=True)
class Schema:
    """The declared columns of a table in the order of their features, and its target."""

    inputs: tuple[Column, ...]
    target: Target
    products: tuple[Product, ...] = ()
    client: str | None = None  # the column that names the client of each record
    missing_markers: tuple[str, ...] = ()  # entries that stand for a missing value, beside the usual ones
    most_unreadable: float = 0.0  # share of a column's cells that may be no number where one is declared
    unconfirmed: tuple[str, ...] = ()  # columns whose bounds or levels were read from records
    person: str | None = None  # the column that says whom a record is about, where a person may have several

    def __post_init__(self) -> None:
        named = (*(column.name for column in self.inputs), self.target.column, *self.naming)
        check_names("column names, those of target, client and person included,", named, 2)
        if isinstance(self.target, Classes):
            check_names("classes", self.target.classes, at_least=2)
        texts = {column.name: column.levels for column in self.inputs if isinstance(column, Categorical)}
        texts |= {self.target.column: self.target.classes} if isinstance(self.target, Classes) else {}
        for name, levels in texts.items():
            if both := [level for level in levels if level in self.missing_markers]:
                raise InputError(
                    f"missing_markers must not hold what column {name!r} declares, got {both[0]!r} in both; every such "
                    "entry would be missing: leave it out of one of them."
                )
        check_names("features, such as column=level,", self.columns, at_least=1)
        if not 0 <= self.most_unreadable <= 1:
            raise InputError(f"most_unreadable must be a share from 0 to 1, got {self.most_unreadable:g}; change it.")

    @property
    def naming(self) -> tuple[str, ...]:
        """Columns that no model sees: they say whose a record is, and whom it is about."""
        return tuple(name for name in (self.client, self.person) if name is not None)

    @property
    def parts(self) -> tuple[Column | Product, ...]:
        """What becomes features, in their order."""
        return (*self.inputs, *self.products)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(name for part in self.parts for name in part.features)

    @cached_property
    def numeric(self) -> NDArray[np.bool_]:
        """Which features are numbers; the others belong to blocks."""
        return np.array([part.is_number for part in self.parts for _ in part.features])

    @cached_property
    def ranges(self) -> NDArray[np.float64]:
        """Lowest and highest value of each feature, one row each: 0 and 1 in a block."""
        widths = [len(part.features) for part in self.parts]
        return np.repeat(np.array([part.range for part in self.parts]), widths, axis=0)

    @property
    def categorical(self) -> int:
        """Number of blocks; the features of each add up to at most 1 in a record."""
        return sum(not part.is_number for part in self.parts)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of the content: two sites compare them to see that they hold the same schema."""
        content = json.dumps(_content(self), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def check_confirmed(schema: Schema) -> None:
    """Refuse to prove anything under bounds and levels that were read from records."""
    if schema.unconfirmed:
        raise InputError(
            f"a proved run needs bounds and levels that somebody has declared, got ones read from the records for "
            f"{', '.join(schema.unconfirmed[:5])}{' and others' if len(schema.unconfirmed) > 5 else ''}; replace them "
            "in the schema by what is publicly known and set confirmed = true."
        )


KEYS = ("client", "person", "missing_markers", "most_unreadable", "target", "columns", "products")
NUMERIC_KEYS = ("name", "bounds", "log", "bins", "log-bins", "spline", "linear", "zero", "missing", "confirmed")
CATEGORICAL_KEYS = ("name", "levels", "drop_first", "ordinal", "ordered", "groups", "missing", "confirmed")
LEVEL_FLAGS = ("drop_first", "ordinal", "ordered")
TARGET_KEYS = ("column", "classes", "bounds", "most", "typical", "confirmed")


def read_schema(path: str | Path) -> Schema:
    """Read a `schema.toml`; its keys and types are checked strictly."""
    return parse_schema(read_toml(path, "a schema in TOML, as UTF-8 text", "name another file, or save it as such."))


def text_schema(text: str) -> Schema:
    """What `schema_text` gave."""
    return parse_schema(tomllib.loads(text))


def parse_schema(values: Any) -> Schema:
    """A schema from the tables of its TOML."""
    _check_keys("the schema", values, KEYS, required=("target", "columns"))
    entries = typed("the columns, each under its own [[columns]],", tuple[dict, ...], values["columns"])
    columns = tuple(_column(entry) for entry in entries)
    target = _target(values["target"])
    named = [(column.name, entry) for column, entry in zip(columns, entries, strict=True)]
    confirmed = {
        name: typed(f"confirmed of column {name!r}", bool, entry.get("confirmed", True))
        for name, entry in [*named, (target.column, values["target"])]
    }
    client, person = (None if name not in values else typed(name, str, values[name]) for name in ("client", "person"))
    return Schema(
        columns,
        target,
        tuple(_product(entry, columns) for entry in _tables("products", values.get("products", ()))),
        client,
        typed("missing_markers", tuple[str, ...], values.get("missing_markers", ())),
        typed("most_unreadable", float, values.get("most_unreadable", 0.0)),
        tuple(name for name, known in confirmed.items() if not known),
        person,
    )


def schema_text(schema: Schema) -> str:
    """The schema as TOML; `read_schema` gives it back."""
    return tomli_w.dumps(_content(schema))


def _content(schema: Schema) -> dict[str, Any]:
    columns = [_numeric_content(one) if isinstance(one, Numeric) else _level_content(one) for one in schema.inputs]
    target: dict[str, Any] = {"column": schema.target.column} | _target_content(schema.target)
    for entry, name in ((target, target["column"]), *((entry, entry["name"]) for entry in columns)):
        entry |= {"confirmed": False} if name in schema.unconfirmed else {}
    naming = {"client": schema.client, "person": schema.person}
    general: dict[str, Any] = {key: name for key, name in naming.items() if name is not None}
    general |= {"missing_markers": [*schema.missing_markers]} if schema.missing_markers else {}
    general |= {"most_unreadable": schema.most_unreadable} if schema.most_unreadable else {}
    products = [{"columns": [product.first.name, product.second.name]} for product in schema.products]
    return {**general, "target": target, "columns": columns} | ({"products": products} if products else {})


def _target_content(target: Target) -> dict[str, Any]:
    if isinstance(target, Classes):
        return {"classes": [*target.classes]}
    if isinstance(target, Number):
        return {"bounds": [_plain(target.lower), _plain(target.upper)]}
    return {"most": _plain(target.most)} | ({"typical": _plain(target.typical)} if target.typical else {})


def _numeric_content(column: Numeric) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "bounds": [_plain(column.lower), _plain(column.upper)]}
    entry["missing"] = "bin" if column.missing is None else _plain(column.missing)
    ways = {"bins": column.bins, "log-bins": column.log_bins, "spline": column.spline}
    entry |= {name: value for name, value in ways.items() if value is not None}
    return entry | {name: True for name in ("log", "linear", "zero") if getattr(column, name)}


def _level_content(column: Categorical) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "levels": [*column.levels]}
    entry |= {name: True for name in LEVEL_FLAGS if getattr(column, name)}
    entry |= {"groups": {name: [*levels] for name, levels in column.groups}} if column.groups else {}
    return entry | ({} if column.missing is None else {"missing": column.missing})


def _plain(value: float) -> float:
    """Adding 0 makes -0.0 and whole numbers what they equal, so that equal schemas have one text and digest."""
    return float(value) + 0.0


def _target(entry: Any) -> Target:
    _check_keys("[target]", entry, TARGET_KEYS, required=("column",))
    kinds = [key for key in ("classes", "bounds", "most") if key in entry]
    if len(kinds) != 1:
        raise InputError(
            "[target] must have one of classes, bounds (of a number) and most (of a count), got "
            f"{' and '.join(kinds) or 'none'}; declare one of them."
        )
    column = typed("target.column", str, entry["column"])
    if "typical" in entry and "most" not in entry:
        raise InputError("target.typical belongs to a count, got it without most; leave it out.")
    if entry.get("typical") == 0:
        raise InputError("target.typical must be above 0, got 0; guess at the mean count, or leave it out.")
    if "classes" in entry:
        return Classes(column, typed("target.classes", tuple[str, ...], entry["classes"]))
    if "bounds" in entry:
        return Number(column, *_bounds("the target", entry["bounds"]))
    typical = typed("target.typical", float, entry.get("typical", 0.0))
    return Count(column, typed("target.most", float, entry["most"]), typical)


def _column(entry: Any) -> Column:
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
    lower, upper = _bounds(where, entry["bounds"])
    missing = entry.get("missing", lower)
    counts = {
        key: typed(f"{key} of {where}", int, entry[key]) for key in ("bins", "log-bins", "spline") if key in entry
    }
    flags = {key: typed(f"{key} of {where}", bool, entry.get(key, False)) for key in ("log", "linear", "zero")}
    return Numeric(
        entry["name"], lower, upper, None if missing == "bin" else typed(f"missing of {where}", float, missing),
        **flags, **{key.replace("-", "_"): count for key, count in counts.items()},
    )  # fmt: skip


def _categorical(where: str, entry: dict[str, Any]) -> Categorical:
    _check_keys(f"{where}, which is categorical,", entry, CATEGORICAL_KEYS)
    missing = typed(f"missing of {where}", str, entry["missing"]) if "missing" in entry else None
    flags = {key: typed(f"{key} of {where}", bool, entry.get(key, False)) for key in LEVEL_FLAGS}
    levels = typed(f"levels of {where}", tuple[str, ...], entry["levels"])
    groups = typed(f"groups of {where}", dict, entry.get("groups", {}))
    grouped = {name: typed(f"group {name!r} of {where}", tuple[str, ...], some) for name, some in groups.items()}
    return Categorical(entry["name"], levels, missing, groups=tuple(grouped.items()), **flags)


def _product(entry: Any, columns: tuple[Column, ...]) -> Product:
    _check_keys("[[products]]", entry, ("columns",), required=("columns",))
    names = typed("columns of a product", tuple[str, ...], entry["columns"])
    known = {column.name: column for column in columns}
    if len(names) != 2 or names[0] == names[1]:
        raise InputError(f"a product must be of two different columns, got {', '.join(names)}; name two.")
    for name in names:
        if name not in known:
            raise InputError(f"a product must be of declared columns, got {name!r}; {nearest(name, known)}")
    return Product(known[names[0]], known[names[1]])


def _bounds(where: str, value: Any) -> tuple[float, float]:
    bounds = typed(f"bounds of {where}", tuple[float, ...], value)
    if len(bounds) != 2:
        raise InputError(f"bounds of {where} must be two numbers, got {len(bounds)}; write [lower, upper].")
    return bounds[0], bounds[1]


def _tables(what: str, value: Any) -> tuple[dict[str, Any], ...]:
    return typed(f"the {what}, each under its own [[{what}]],", tuple[dict, ...], value)


def _check_keys(where: str, entry: Any, known: Iterable[str], required: tuple[str, ...] = ()) -> None:
    typed(where, dict, entry)
    for key in entry:
        if key not in known:
            raise InputError(f"{where} has an unknown key {key!r}; {nearest(key, known)}")
    for key in required:
        if key not in entry:
            raise InputError(f"{where} must have the key {key!r}, got none; add it.")
