"""A user's own table as a source: its files, its schema, whose record each is, and what models are measured on."""

import hashlib
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedspd.data.dataset import CLIENT, Table
from fedspd.data.features.scaling import LARGE
from fedspd.data.files.cells import Texts
from fedspd.data.files.reading import Columns, files_of, first_bytes
from fedspd.data.holding.persons import without
from fedspd.data.schema import Schema, read_schema
from fedspd.data.tabular import Cells, read_declared, table_of
from fedspd.errors import InputError
from fedspd.reading import setting

Stamps = tuple[tuple[str, int, int], ...]
"""Files, when they were last changed, and how long they are."""


@dataclass(frozen=True)
class TableSettings:
    """What may be set of a table of one's own."""

    file: str = setting(
        "", "CSV, also in gzip, or Parquet; a pattern such as sites/*.csv where each client has a file", needed=True
    )
    schema: str = setting("", "schema.toml: what is public about the table", needed=True)
    target: str | None = setting(None, "the column to predict; it must be the one that the schema declares")
    client: str | None = setting(
        None, "the column that names the client of each record; absent: the schema's, or the file where there are many"
    )
    person: str | None = setting(
        None, "the column that says whom a record is about; absent: the schema's; a person's records stay together"
    )
    test: str | None = setting(
        None, "a table that models are measured on, without noise: its records are not protected"
    )
    test_share: float | None = setting(
        None,
        "share of each client's records, or persons, to measure models on instead; these are not protected",
        above=0,
        below=1,
    )


def read_own(settings: TableSettings) -> Cells:
    """The records of a user's table."""
    if settings.test is not None and settings.test_share is not None:
        raise InputError(
            "models are measured on data.test or on data.test_share of the records, got both; leave one out."
        )
    if settings.test is not None and {*map(_real, files_of(settings.file))} & {*map(_real, files_of(settings.test))}:
        raise InputError(
            f"data.test must hold other records than those that are trained on, got {settings.test!r} for both; name "
            "another table, or set data.test_share."
        )
    found = _remembered(settings, own_schema(settings), _stamps(settings))
    if found.train.features.nbytes > LARGE:
        _remembered.cache_clear()
    return found


def own_content(settings: TableSettings) -> bytes:
    """A digest of all that a table's files hold, for whoever remembers what was computed from them."""
    return _content(Path(settings.schema), _stamps(settings))


@lru_cache(maxsize=4)
def _content(schema: Path, stamps: Stamps) -> bytes:
    total = hashlib.blake2b(schema.read_bytes(), digest_size=16)
    for path, _, size in stamps:
        first_bytes(Path(path))  # in a sentence, where it is no table
        with open(path, "rb") as file:
            total.update(f"{path} {size} ".encode() + hashlib.file_digest(file, "blake2b").digest())
    return total.digest()


def _stamps(settings: TableSettings) -> Stamps:
    """The files of a table with when they were last changed."""
    named = [*files_of(settings.file), *([] if settings.test is None else files_of(settings.test))]
    try:
        return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in named)
    except (OSError, ValueError):  # a value that is wrong: a zero in the name
        return ()  # what is wrong with a file is said by whoever opens it


def _real(path: Path) -> str:
    return os.path.realpath(path)


def own_schema(settings: TableSettings) -> Schema:
    """The schema of a table, with the columns of clients and persons where the settings name them."""
    schema = read_schema(settings.schema)
    if settings.target not in (None, schema.target.column):
        raise InputError(
            f"data.target must be the target that {settings.schema} declares, {schema.target.column!r}, got "
            f"{settings.target!r}; describe the table again with --target {settings.target}, or leave it out."
        )
    return replace(schema, client=settings.client or schema.client, person=settings.person or schema.person)


@lru_cache(maxsize=2)  # the runs of a study share one table, for as long as its files are what they were
def _remembered(settings: TableSettings, schema: Schema, stamps: Stamps) -> Cells:
    found = read_declared(settings.file, schema, *schema.naming)
    persons = None if schema.person is None else found.named(schema.person, "person")
    train, test = table_of(found, schema, _clients(found, schema), persons), None
    if settings.test is not None:
        test = table_of(read_declared(settings.test, schema), schema)
    elif settings.test_share is not None:
        train, test = _shared_out(train, settings.test_share)
    return Cells(train, test, schema)


def _clients(found: Columns, schema: Schema) -> Texts | None:
    if schema.client is None:
        return found.files if len(found.sources) > 1 else None
    return found.named(schema.client, "client")


def _shared_out(table: Table, share: float) -> tuple[Table, Table]:
    """The table without a share of each client's records, or persons, and that share: always the same ones."""
    return without(table, lambda firsts: _share_of(firsts, share))


def _share_of(table: Table, share: float) -> np.ndarray:
    order = np.random.default_rng(0).permutation(len(table))
    owners = table.attributes[CLIENT].codes[order] if CLIENT in table.attributes else np.zeros(len(table), int)
    by_owner = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners)
    place = np.arange(len(table)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # of a record among its client's
    held = order[by_owner[place < np.floor(share * np.repeat(sizes, sizes))]]
    if not held.size:
        raise InputError(
            f"data.test_share must leave some records to measure on, got {share:g} of clients with at most "
            f"{sizes.max()} records; raise it, or name a table with data.test."
        )
    return held
