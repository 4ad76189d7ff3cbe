"""Where records come from: a source is a schema plus cells, by name.

Each brings its own settings, the keys of [data] that only it has.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fedspd.data.adult import AdultSettings, adult_schema, load
from fedspd.data.dataset import Table
from fedspd.data.schema import Schema


class Cells(NamedTuple):
    """Records encoded under their schema, not scaled yet; nothing was read from them to do so."""

    train: Table
    test: Table | None  # None: models are not measured
    schema: Schema


class Source(NamedTuple):
    """A way to get at records."""

    settings: type  # a frozen dataclass of its own settings
    read: Callable[[Any], Cells]


@lru_cache(maxsize=4)
def read_adult(settings: AdultSettings) -> Cells:
    """The embedded data set."""
    train, test = load(settings.columns, settings.log_capital)  # pyright: ignore[reportArgumentType]
    return Cells(train, test, adult_schema(settings.columns, settings.log_capital))  # pyright: ignore[reportArgumentType]


SOURCES: Mapping[str, Source] = {"adult": Source(AdultSettings, read_adult)}
