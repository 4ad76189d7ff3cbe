"""Where records come from: a source is a schema plus cells, by name.

Each brings its own settings, the keys of [data] that only it has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fedspd.data import boxed
from fedspd.data.adult import AdultSettings, adult_schema, load
from fedspd.data.dataset import Table
from fedspd.data.files.cells import Numbers, Texts
from fedspd.data.files.reading import Columns
from fedspd.data.own import TableSettings, own_content, own_schema, read_own
from fedspd.data.schema import Schema, read_schema
from fedspd.data.tabular import Cells, table_of
from fedspd.errors import InputError

MEMORY = "memory"
"""The name of records that a program holds."""
OWN_SOURCES = "table", MEMORY
"""Sources of somebody's own records."""


class Source(NamedTuple):
    """A way to get at records."""

    settings: type  # a frozen dataclass of its own settings
    read: Callable[[Any], Cells]
    schema: Callable[[Any], Schema]  # without a look at the records
    content: Callable[[Any], bytes] = lambda settings: b""  # of files outside of the package, what tells them apart


@dataclass(frozen=True)
class NoSettings:
    """Of data sets that are as they are."""


@lru_cache(maxsize=4)
def read_adult(settings: AdultSettings) -> Cells:
    """The embedded data set."""
    train, test = load(settings.columns, settings.log_capital)  # pyright: ignore[reportArgumentType]
    return Cells(train, test, _adult_schema(settings))


@lru_cache(maxsize=4)
def read_from_box(name: str, settings: NoSettings) -> Cells:
    """One of the other data sets that come with the package."""
    found, schema = boxed.read_boxed(name), schema_in_box(name)

    def encoded(part: boxed.Columns) -> Table:
        columns = _columns(part)
        clients, persons = (None if name is None else columns.texts[name] for name in (schema.client, schema.person))
        return table_of(columns, schema, clients, persons)

    return Cells(encoded(found.train), encoded(found.test), schema)


def schema_in_box(name: str, settings: NoSettings | None = None) -> Schema:
    """What is public about one of them."""
    return read_schema(boxed.schema_path(name))


def refuse_memory(settings: NoSettings) -> NoReturn:
    """A configuration alone does not bring what a program holds."""
    raise InputError(
        "data.name = memory stands for records that a program holds, got a configuration alone; hand a data frame to "
        "fedspd.run, or name another data set."
    )


def _adult_schema(settings: AdultSettings) -> Schema:
    return adult_schema(settings.columns, settings.log_capital)  # pyright: ignore[reportArgumentType]


def _columns(part: boxed.Columns) -> Columns:
    """As if they were read from files."""
    numbers = {name: Numbers(values, 0, 0, ()) for name, values in part.items() if values.dtype.kind == "f"}
    return Columns(
        len(next(iter(part.values()))),
        numbers,
        {name: _texts(part[name]) for name in part if name not in numbers},
        (),
        (),
    )


def _texts(values: np.ndarray) -> Texts:
    levels, codes = np.unique(values, return_inverse=True)
    known = [level for level in levels.tolist() if level != boxed.MISSING]
    places = np.array([known.index(level) if level in known else -1 for level in levels.tolist()], np.int32)
    return Texts(places[codes], known, 0)


SOURCES: Mapping[str, Source] = {
    "adult": Source(AdultSettings, read_adult, _adult_schema),
    **{name: Source(NoSettings, partial(read_from_box, name), partial(schema_in_box, name)) for name in boxed.NAMES},
    "table": Source(TableSettings, read_own, own_schema, own_content),
    MEMORY: Source(NoSettings, refuse_memory, refuse_memory),
}
