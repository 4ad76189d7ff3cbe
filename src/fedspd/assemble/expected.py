"""What noise to expect: on each coordinate, and how much of it each column brings; from public numbers alone."""

from typing import Any, NamedTuple

from fedspd.assemble.records.deal import counted
from fedspd.assemble.records.encoding import noise_per_coordinate, schema_for
from fedspd.assemble.settled import settle
from fedspd.config import Config
from fedspd.data import Categorical, Cells, Numeric, Schema
from fedspd.data.features.columns import Column, Product
from fedspd.target import Classes

ANY_CLASSES = Classes("any", ("no", "yes"))


class Expected(NamedTuple):
    """What a plan says of noise, and the schema with the chosen encoding, where there is one."""

    told: dict[str, Any]
    schema: Schema | None = None


def expected_of(config: Config, cells: Cells) -> Expected:
    """What a run on these records is to expect; they are counted, and not looked at."""
    settled = settle(config, cells)
    return expected_noise(settled, cells.schema, counted(settled, cells.train))


def expected_noise(config: Config, schema: Schema | None, records: int) -> Expected:
    """Noise per coordinate, and for each column its encoding, its coordinates and its share of the noise's variance.

    Args:
        config: with the number of clients.
        schema: as it was declared; None: of some classes, by columns that nobody has described.
        records: on all clients.
    """
    if schema is None:
        return Expected({"noise_per_coordinate": noise_per_coordinate(config, records, ANY_CLASSES, 0)})
    chosen = schema_for(config, schema, records)
    coordinates = len(chosen.columns) + bool(config.data.bias)
    told = {
        "noise_per_coordinate": noise_per_coordinate(config, records, schema.target, len(schema.columns)),
        "coordinates": coordinates,
        "columns": [_told(part, coordinates) for part in chosen.parts],
    }
    return Expected(told, chosen)


def _told(part: Column | Product, coordinates: int) -> dict[str, Any]:
    own = len(part.features)
    return {
        "column": f"{part.first.name} × {part.second.name}" if isinstance(part, Product) else part.name,
        "encoding": _encoding(part),
        "coordinates": own,
        "share_of_noise": own / coordinates,
        "saved_by_half_as_many": own // 2 / coordinates,
    }


def _encoding(part: Column | Product) -> str:
    if isinstance(part, Product):
        return "product"
    return _of_levels(part) if isinstance(part, Categorical) else _of_numbers(part)


def _of_numbers(column: Numeric) -> str:
    if column.spline:
        return f"spline of {column.spline} functions"
    if column.pieces:
        return f"{column.pieces} {'logarithmic ' if column.log_bins else ''}bins"
    return "logarithm" if column.log else "number"


def _of_levels(column: Categorical) -> str:
    if column.ordinal:
        return f"number, by the order of {len(column.levels)} levels"
    kinds = len(column.features) + column.drop_first
    told = f"{len(column.levels)} levels" + (f" in {kinds} groups" if column.groups else "")
    return told + (", less the first" if column.drop_first else "")
