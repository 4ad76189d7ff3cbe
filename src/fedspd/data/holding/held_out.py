r"""Records that are set apart to measure models on: never trained on, and the same ones in later runs.

A client with $n$ persons, or records where nobody says whom they are about, holds out $k(n)$ of them, a public number:
those whose keyed hash is least. A person is hashed by its name. A record is hashed by what it holds and by how many
equal ones of its client stand before it, so neither the order of a file nor its encoding matters.

Guarantees:
    Replacing one person, or record, of a client by any other replaces at most one of those that are trained on, and at
    most one of those that are held out, whatever the key: one that moves to the other side sends one the other way.
    A person is on one side with all of its records.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspd.data.dataset import Holdings, Shards, Table, assign
from fedspd.errors import InputError

DIGEST = 16  # bytes: no two records share a hash
STEPS = 2.0**30  # of weights in one: sums of them are exact


class HeldOut(NamedTuple):
    """Which records of a table are held out, and by whom."""

    rows: NDArray[np.int64]  # of the table
    owners: NDArray[np.int64]  # client of each of them
    weights: NDArray[np.float64]  # of each: those of a person add up to one
    units: int  # persons, or records
    digest: str  # keyed: it tells whether they are the same ones, and nothing to whoever lacks the key


def held_out_sizes(sizes: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """How many of its persons or records each client holds out: its share, rounded down, never the only one."""
    return np.floor(share * sizes).astype(np.int64)


def planned_holdings(holdings: Holdings, share: float | None) -> Holdings:
    """How many records each client trains on, before anybody looks at records."""
    if share is None:
        return holdings
    _check(held_out_sizes(holdings.sizes, share), share, holdings.sizes)
    return Holdings(holdings.sizes - held_out_sizes(holdings.sizes, share), holdings.counts)


def hold_out_by_key(
    table: Table, dealt: Shards, share: float, key: bytes, scaled: Table | None = None
) -> tuple[Shards, HeldOut]:
    """What clients train on, and what they hold out.

    Args:
        table: what was dealt, with its cells.
        dealt: to whom.
        share: of each client's persons or records.
        key: kept by whoever holds the records.
        scaled: the same records with the features that are trained on; None: those of the table.
    """
    order = np.arange(len(table)) if dealt.order is None else dealt.order
    contents = None if table.persons is not None else _contents(table)
    held, weights, hashes, sizes = np.zeros(len(table), bool), np.ones(len(table)), [], []
    for begin, end in zip(dealt.offsets[:-1].tolist(), dealt.offsets[1:].tolist(), strict=True):
        rows = order[begin:end]
        if table.persons is None:
            assert contents is not None
            own, places = keyed_hashes((contents[row].tobytes() for row in rows.tolist()), key), np.arange(len(rows))
        else:
            present, places, counts = np.unique(table.persons.codes[rows], return_inverse=True, return_counts=True)
            own = keyed_hashes((table.persons.levels[code].encode() for code in present.tolist()), key)
            weights[begin:end] = np.floor(STEPS / counts[places]) / STEPS
        count = int(held_out_sizes(np.array([len(own)]), share)[0])
        least = sorted(range(len(own)), key=own.__getitem__)[:count]
        held[begin:end] = np.isin(places, least)
        hashes += [own[place] for place in least]
        sizes.append(len(own))
    _check(held, share, np.array(sizes))
    owners = np.repeat(np.arange(dealt.clients), dealt.rows)
    left = np.sort(order[~held])
    owner = np.empty(len(table), np.int64)
    owner[order] = owners
    trained = replace(assign((scaled or table).rows(left), owner[left], dealt.clients, dealt.unit), counts=dealt.counts)
    digest = hashlib.blake2b(b"".join(sorted(hashes)), key=key, digest_size=DIGEST).hexdigest()
    return trained, HeldOut(order[held], owners[held], weights[held], len(hashes), digest)


def keyed_hashes(contents: Iterable[bytes], key: bytes) -> list[bytes]:
    """One for each record of a client: of what it holds, and of how many equal ones came before."""
    seen: dict[bytes, int] = {}
    hashes = []
    for content in contents:
        known = hashlib.blake2b(content, key=key, digest_size=DIGEST).digest()
        seen[known] = number = seen.get(known, 0) + 1
        hashes.append(hashlib.blake2b(known + number.to_bytes(8, "big"), key=key, digest_size=DIGEST).digest())
    return hashes


def _check(held: NDArray[np.integer] | NDArray[np.bool_], share: float, sizes: NDArray[np.int64]) -> None:
    """Refuse a share of which nothing is left to measure on."""
    if not held.any():
        raise InputError(
            f"evaluation.held_out must leave some records to measure on, got {share:g} of clients with at most "
            f"{sizes.max()} of them; raise it."
        )


def _contents(table: Table) -> NDArray[np.float64]:
    """A row of numbers for every record: its cells as they were read, or its features where there are none; its label.

    Cells, because an encoding may depend on the budget, and later runs are to hold out the same records.
    """
    columns = [table.cells[name] for name in sorted(table.cells)] or [*table.features.T]
    numbers = np.stack([*(np.asarray(column, float) for column in columns), np.asarray(table.labels, float)], axis=1)
    return np.ascontiguousarray(np.where(np.isnan(numbers), np.nan, numbers) + 0.0, "<f8")  # no negative zero
