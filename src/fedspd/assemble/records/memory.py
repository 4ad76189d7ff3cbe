"""Settings for records that a program holds: by default nothing is kept of them that carries no noise."""

from collections.abc import Mapping
from typing import Any

from fedspd import config as configuration
from fedspd.algorithms import METHODS
from fedspd.config import Config
from fedspd.config.sections import DEFAULT_METHOD
from fedspd.data import Cells
from fedspd.data.dataset import CLIENT
from fedspd.data.source import MEMORY
from fedspd.errors import InputError


def of_records(cells: Cells, overrides: Mapping[str, Any], where_read: Mapping[str, Any] | None = None) -> Config:
    """The preset of a method's guarantee, changed for records in memory, and then as the overrides say.

    Args:
        cells: the records; they may bring clients of their own.
        overrides: settings to change, by "section.key".
        where_read: settings that are left out where the method does not read them.
    """
    own = CLIENT in cells.train.attributes
    if not own and "partition.clients" not in overrides:
        raise InputError(
            "each record must have a client, got neither a column that names it nor a number of clients; name the "
            "column with client, or set partition.clients to deal the records at random."
        )
    name = overrides.get("algorithm.name", DEFAULT_METHOD)
    preset = "proved" if METHODS.find(name).guarantee == "proved" else "published"
    usual = ({"partition.kind": "own"} if own else {}) | dict(where_read or {})
    return configuration.load(preset, {"data.name": MEMORY, **overrides}, usual)
