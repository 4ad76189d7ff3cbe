"""The site's records as a run uses them: what is trained on, and what is held out to measure the model on."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedspd.assemble.records.held_out import seed_key
from fedspd.data import Schema, Shards, Table
from fedspd.data.holding.held_out import hold_out_by_key
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.computing.records import Records, units_of
from fedspd.privacy.ledger import Ledger
from fedspd.privacy.ledger.key import held_out_key
from fedspd.typing import Unit


class Held(NamedTuple):
    """Records that are never trained on."""

    table: Table
    weights: np.ndarray  # of each: those of a person add up to one


class Cut(NamedTuple):
    """A table in two: nobody is on both sides."""

    trained: Table
    held: Held | None = None
    digest: str = ""  # keyed: tells whether the same ones are held out, and nothing to whoever lacks the key

    @property
    def apart(self) -> Held:
        """What is held out, where the terms say that something is."""
        assert self.held is not None, "nobody counts without such terms"
        return self.held


@dataclass(frozen=True)
class Tables:
    """The table of a site's file, whole or in two."""

    path: Path
    schema: Schema
    records: Records

    def halves(self, terms: Terms, ledger: Ledger | None) -> Cut:
        """What the run trains on, which is everything unless its terms say otherwise, and what it holds out."""
        table, share = self.records.table(self.path, self.schema, terms.unit), terms.config.evaluation.held_out
        if share is None:
            return Cut(table)
        key = site_key(terms, ledger)
        return self.records.derived((share, key), table, lambda: cut(table, terms.unit, share, key))

    def fingerprint(self, terms: Terms, ledger: Ledger | None) -> str:
        """A short name of the file's content, and of which records are held out."""
        file, held = self.records.fingerprint(self.path, self.schema, terms.unit), self.halves(terms, ledger).digest
        return f"{file} {held}" if held else file


def site_key(terms: Terms, ledger: Ledger | None) -> bytes:
    """What decides who is held out: the key beside the site's ledger; a seed where nothing is protected."""
    return seed_key(terms.draws) if ledger is None else held_out_key(ledger)


def cut(table: Table, unit: Unit, share: float, key: bytes) -> Cut:
    """Hold out the persons, or records, whose keyed hash is least; of a table as `read_table` gives it."""
    whole = Shards(table.features, table.labels, np.array([0, len(table)]), None, units=units_of(unit, table))
    held = hold_out_by_key(table, whole, share, key)[1]
    others = np.setdiff1d(np.arange(len(table)), held.rows)
    return Cut(table.rows(others), Held(table.rows(held.rows), held.weights), held.digest)
