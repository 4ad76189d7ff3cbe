"""Records: where they come from, how they are scaled, and which client holds them.

This room reads files and draws partitions from a generator it is handed. It knows no other room but
`errors` and `reading`: neither losses nor noise, and nothing of what a record is used for.
"""

from fedspd.data.adult import AdultSettings, adult_schema, write_adult_csv
from fedspd.data.dataset import Category, Holdings, Shards, Table, assign
from fedspd.data.features.columns import Categorical, Numeric
from fedspd.data.features.pipeline import Declared, declare, hold_out, prepare, recipe_as_published
from fedspd.data.features.recipe import Recipe, check_bias, finish
from fedspd.data.features.scaling import clip_rows
from fedspd.data.flat import open_shards, write_shards
from fedspd.data.frames import frame_cells
from fedspd.data.holding.partition import KINDS, split
from fedspd.data.schema import Schema, check_confirmed, parse_schema, read_schema, schema_text
from fedspd.data.source import SOURCES, Source, read_adult
from fedspd.data.tabular import Cells, encode, read_table

__all__ = [
    "KINDS",
    "SOURCES",
    "AdultSettings",
    "Categorical",
    "Category",
    "Cells",
    "Declared",
    "Holdings",
    "Numeric",
    "Recipe",
    "Schema",
    "Shards",
    "Source",
    "Table",
    "adult_schema",
    "assign",
    "check_bias",
    "check_confirmed",
    "clip_rows",
    "declare",
    "encode",
    "finish",
    "frame_cells",
    "hold_out",
    "open_shards",
    "parse_schema",
    "prepare",
    "read_adult",
    "read_schema",
    "read_table",
    "recipe_as_published",
    "schema_text",
    "split",
    "write_adult_csv",
    "write_shards",
]
