"""Records as arrays: `Table` before they are handed out to clients, `Shards` after."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from fedspd.data.holding.units import Units
from fedspd.errors import InputError
from fedspd.target import Classes, Count, Number, Target
from fedspd.typing import Unit

CLIENT = "client"
"""The attribute of a table that names the client of each record, where it has clients of its own."""


@dataclass(frozen=True, eq=False)
class Category:
    """A categorical column: one code per record, an index into `levels`."""

    codes: NDArray[np.integer]
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_codes("codes", self.codes, len(self.levels), "levels")

    @classmethod
    def of(cls, values: NDArray[np.str_]) -> Self:
        """Code a column of strings; its levels are the distinct strings in alphabetical order."""
        levels, codes = np.unique(values, return_inverse=True)
        return cls(codes, tuple(str(level) for level in levels))


@dataclass(frozen=True, eq=False)
class Table:
    """Records that are ready for a linear model, one row each.

    Args:
        labels: class index of each record; with no `classes`, a number to be predicted.
        attributes: categorical columns to hand out records by. They need not be among the features.
        target: what is predicted, with its public bounds; None: the classes.
        cells: what the features were encoded from, column by column; none once they are scaled.
        persons: whom each record is about, where a person may have several.
    """

    features: NDArray[np.float64]
    labels: np.ndarray
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    attributes: Mapping[str, Category] = field(default_factory=dict)
    target: Target | None = None
    cells: Mapping[str, np.ndarray] = field(default_factory=dict)
    persons: Category | None = None

    def __post_init__(self) -> None:
        _check_features(self.features, self.columns)
        _check_labels(self.labels, len(self), self.classes)
        _check_target(self.target, self.labels, self.classes)
        named = self.attributes if self.persons is None else {**self.attributes, "person": self.persons}
        for name, category in named.items():
            if category.codes.shape != (len(self),):
                raise InputError(
                    f"attribute {name!r} must have one entry for each of the {len(self)} records, "
                    f"got shape {category.codes.shape}; build it from the same rows as the features."
                )

    def __len__(self) -> int:
        return self.features.shape[0]

    @property
    def predicted(self) -> Target:
        """What is predicted."""
        return Classes("", self.classes) if self.target is None else self.target

    def rows(self, numbers: NDArray[np.integer]) -> Self:
        """Some of the records, in this order."""
        attributes = {name: replace(kind, codes=kind.codes[numbers]) for name, kind in self.attributes.items()}
        cells = {name: values[numbers] for name, values in self.cells.items()}
        persons = None if self.persons is None else replace(self.persons, codes=self.persons.codes[numbers])
        return replace(
            self, features=self.features[numbers], labels=self.labels[numbers], attributes=attributes, cells=cells,
            persons=persons,
        )  # fmt: skip

    def with_features(self, features: NDArray[np.float64], columns: tuple[str, ...] | None = None) -> Self:
        """The same records under other features; `columns` only where their names change."""
        return replace(self, features=features, columns=self.columns if columns is None else columns, cells={})


@dataclass(frozen=True, eq=False)
class Holdings:
    """How many records each client holds, a public fact, and whether every client counts the same or every record.

    Where a person is protected, persons are counted in the place of records.
    """

    sizes: NDArray[np.int64]
    counts: Literal["clients", "records"] = "clients"

    def __post_init__(self) -> None:
        refuse_empty(self.sizes, "give every client a record or leave it out")

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.sizes.size

    @property
    def records(self) -> int:
        """Number of records on all clients."""
        return int(self.sizes.sum())

    @cached_property
    def divisors(self) -> NDArray[np.float64]:
        """What each client divides the sum of its records' losses by: its size, or the mean size of all."""
        sizes = self.sizes.astype(np.float64)
        return sizes if self.counts == "clients" else np.full_like(sizes, sizes.mean())


@dataclass(frozen=True, eq=False)
class Shards:
    """One table whose rows are sorted by client: client i holds rows `offsets[i]` to `offsets[i+1]`.

    Unequal sizes need no padding, and a million clients share two arrays.

    Args:
        order: row that each record had in the table it came from; None where it came from no other table.
        counts: whether every client counts the same in what is minimized, or every record.
        units: whose rows are protected together; None: each row by itself.
    """

    features: NDArray[np.floating]
    labels: np.ndarray
    offsets: NDArray[np.int64]
    order: NDArray[np.int64] | None
    counts: Literal["clients", "records"] = "clients"
    units: Units | None = None

    def __post_init__(self) -> None:
        n = self.features.shape[0]
        places = (n,) if self.order is None else self.order.shape
        if self.labels.shape != (n,) or places != (n,):
            raise InputError(
                f"features, labels and order must have one row for each of the {n} records, got "
                f"{n}, {self.labels.shape} and {places}; build shards with `assign`."
            )
        if self.offsets.ndim != 1 or self.offsets.size < 2 or self.offsets[0] != 0 or self.offsets[-1] != n:
            raise InputError(
                f"offsets must run from 0 to the {n} records, got {self.offsets}; build shards with `assign`."
            )
        refuse_empty(np.diff(self.offsets), "give every client a record or leave it out")
        if self.order is not None:
            _check_order(self.order)

    @cached_property
    def holdings(self) -> Holdings:
        """How many records, or persons, each client holds."""
        return Holdings(self.rows if self.units is None else np.diff(self.units.offsets), self.counts)

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return "record" if self.units is None else self.units.kind

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number of rows on each client: no public fact where a person may have any number of them."""
        return np.diff(self.offsets)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.offsets.size - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of records, or persons, on each client."""
        return self.holdings.sizes

    @property
    def divisors(self) -> NDArray[np.float64]:
        """What each client divides the sum of its records' losses by."""
        return self.holdings.divisors

    def shard(self, client: int) -> tuple[NDArray[np.floating], np.ndarray]:
        """Features and labels of one client, as views."""
        if not 0 <= client < self.clients:
            raise IndexError(f"client must be from 0 to {self.clients - 1}, got {client}.")
        rows = slice(self.offsets[client], self.offsets[client + 1])
        return self.features[rows], self.labels[rows]


def assign(table: Table, owner: NDArray[np.integer], clients: int, unit: Unit = "record") -> Shards:
    """Hand each record to its owner: row r of the table goes to client `owner[r]`, beside others of its person."""
    if owner.shape != (len(table),):
        raise InputError(
            f"owner must name one client for each of the {len(table)} records, got shape {owner.shape}; "
            "build it from the same table."
        )
    _check_codes("owner", owner, clients, "clients")
    sizes = np.bincount(owner, minlength=clients)
    refuse_empty(sizes, "use fewer clients or another way of handing out the records")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if unit != "person":
        order, units = np.argsort(owner, kind="stable"), Units.clients(offsets) if unit == "client" else None
        return Shards(table.features.take(order, axis=0), table.labels[order], offsets, order, units=units)
    if table.persons is None:
        raise InputError(
            "privacy.unit = person needs a table that says whom each record is about, got one that does not; name the "
            "column with `person` in the schema or --person."
        )
    order = np.lexsort((table.persons.codes, owner))
    units = Units.of(owner[order], table.persons.codes[order], clients)
    return Shards(table.features.take(order, axis=0), table.labels[order], offsets, order, units=units)


def refuse_empty(sizes: NDArray[np.int64], remedy: str) -> None:
    """Raise if a client holds no record: it could neither compute a gradient nor draw a batch."""
    empty = np.flatnonzero(sizes <= 0)
    if empty.size:
        some = ", ".join(str(client) for client in empty[:5]) + (", ..." if empty.size > 5 else "")
        raise InputError(
            f"every client must hold at least one record, got none on {empty.size} of {sizes.size} clients "
            f"({some}); {remedy}."
        )


def _check_order(order: NDArray[np.int64]) -> None:
    named = np.zeros(len(order), bool)
    named[order[(order >= 0) & (order < len(order))]] = True
    if not named.all():
        raise InputError(
            f"order must name each of the {len(order)} records once, got {np.count_nonzero(named)} of them; "
            "build shards with `assign`."
        )


def _check_features(features: NDArray[np.float64], columns: tuple[str, ...]) -> None:
    if features.ndim != 2 or features.dtype != np.float64 or features.shape[0] == 0:
        raise InputError(
            "features must be a float64 matrix with one row per record and at least one row, "
            f"got {features.dtype} of shape {features.shape}; reshape or convert with .astype(float)."
        )
    if len(set(columns)) != features.shape[1] or len(columns) != features.shape[1]:
        raise InputError(
            f"columns must be a different name for each of the {features.shape[1]} feature columns, "
            f"got {len(columns)} names, {len(set(columns))} of them different; name each column once."
        )
    finite = np.isfinite(features)
    if not finite.all():
        row, column = np.unravel_index(np.argmin(finite), finite.shape)
        raise InputError(
            f"features must be finite, got {finite.size - np.count_nonzero(finite)} values that are not, the "
            f"first in row {row}, column {columns[column]!r}; impute missing values or drop those records."
        )


def _check_labels(labels: np.ndarray, records: int, classes: tuple[str, ...]) -> None:
    if labels.shape != (records,):
        raise InputError(
            f"labels must have one entry for each of the {records} records, got shape {labels.shape}; "
            "build them from the same rows as the features."
        )
    if classes:
        _check_codes("labels", labels, len(classes), "classes")
    elif not np.isfinite(labels).all():
        raise InputError(
            f"labels must be finite, got {np.count_nonzero(~np.isfinite(labels))} that are not, the first in "
            f"row {np.argmin(np.isfinite(labels))}; drop those records."
        )


def _check_target(target: Target | None, labels: np.ndarray, classes: tuple[str, ...]) -> None:
    if target is not None and target.classes != classes:
        raise InputError(
            f"classes must be those of the target, {', '.join(target.classes) or 'none'}, got "
            f"{', '.join(classes) or 'none'}; build the table from one target."
        )
    bounds = (-1.0, 1.0) if isinstance(target, Number) else (0.0, target.most) if isinstance(target, Count) else None
    if bounds is not None and not ((labels >= bounds[0]) & (labels <= bounds[1])).all():
        raise InputError(
            f"labels must be within {bounds[0]:g} and {bounds[1]:g}, got {labels.min():g} to {labels.max():g}; make "
            "them with the target's own `labels`."
        )


def _check_codes(name: str, codes: np.ndarray, count: int, things: str) -> None:
    if not np.issubdtype(codes.dtype, np.integer):
        raise InputError(f"{name} must be integers, got {codes.dtype}; convert with .astype(int).")
    outside = (codes < 0) | (codes >= count)
    if outside.any():
        row = int(np.argmax(outside))
        raise InputError(
            f"{name} must be from 0 to {count - 1} for {count} {things}, got {codes[row]} in row {row} "
            f"({np.count_nonzero(outside)} such rows); number the {things} from 0."
        )
