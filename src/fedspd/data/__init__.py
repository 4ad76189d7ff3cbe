"""Records: where they come from, how they are scaled, and which client holds them.

This room reads files and draws partitions from a generator it is handed. It knows no other room but
`errors`: neither losses nor noise, and nothing of what a record is used for.
"""

from fedspd.data.dataset import Category, Shards, Table, assign
from fedspd.data.flat import open_shards, write_shards
from fedspd.data.partition import KINDS, split
from fedspd.data.pipeline import Declared, declare, finish, hold_out, prepare
from fedspd.data.scaling import clip_rows

__all__ = [
    "KINDS",
    "Category",
    "Declared",
    "Shards",
    "Table",
    "assign",
    "clip_rows",
    "declare",
    "finish",
    "hold_out",
    "open_shards",
    "prepare",
    "split",
    "write_shards",
]
