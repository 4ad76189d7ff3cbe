"""An attack on held-out records and their counts: swap a person or a record, and compare everything downstream."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedspd.data import Category, Shards, Table, assign
from fedspd.data.holding.held_out import HeldOut, hold_out_by_key
from fedspd.evaluate.counting import Counting

KEY = b"k" * 32
Cutter = Callable[[Table, Shards, float, bytes], tuple[Shards, HeldOut]]
COUNTING = Counting(("a", "b"), 4, ("f", "m"))


def small_table(rng: np.random.Generator, rows: int, persons: bool = False) -> Table:
    """Records of few different values, so that many are equal, on three clients."""
    values, labels = rng.integers(0, 3, rows).astype(float), rng.integers(0, 2, rows)
    whom = Category(rng.integers(0, max(3, rows // 3), rows), tuple(f"p{n}" for n in range(max(3, rows))))
    table = Table(values[:, None], labels, ("x",), ("a", "b"), cells={"x": values})
    return replace(table, persons=whom) if persons else table


def content(table: Table, row: int) -> tuple[Any, ...]:
    """All that a record holds."""
    person = None if table.persons is None else table.persons.levels[table.persons.codes[row]]
    return (*table.features[row], int(table.labels[row]), person)


def sides(table: Table, owner: np.ndarray, cut: Cutter, share: float = 0.4) -> tuple[list[Counter], list[Counter]]:
    """Of each client the units that are trained on and those held out: a unit is a person with all records, or one."""
    dealt = assign(table, owner, 3)
    trained, held = cut(table, dealt, share, KEY)
    out = np.zeros(len(table), bool)
    out[held.rows] = True
    assert len(trained.labels) == (~out).sum()
    assert (trained.sizes == np.bincount(owner[~out], minlength=3)).all()
    return tuple(  # pyright: ignore[reportReturnType]
        [Counter(units(table, np.flatnonzero((out == side) & (owner == client)))) for client in range(3)]
        for side in (False, True)
    )


def units(table: Table, rows: np.ndarray) -> list[Any]:
    """Persons with all their records, or records."""
    if table.persons is None:
        return [content(table, row) for row in rows.tolist()]
    by_person: dict[Any, list[Any]] = {}
    for row in rows.tolist():
        by_person.setdefault(content(table, row)[-1], []).append(content(table, row))
    return [(name, tuple(sorted(records))) for name, records in by_person.items()]


def swapped(table: Table, owner: np.ndarray, rng: np.random.Generator) -> tuple[Table, np.ndarray]:
    """A neighbor: one record of client 0, or one person of it with any number of records, is another."""
    mine = np.flatnonzero(owner == 0)
    if table.persons is None:
        chosen = np.array([rng.choice(mine)])
        fresh = small_table(rng, 1)
    else:
        chosen = mine[table.persons.codes[mine] == table.persons.codes[rng.choice(mine)]]
        rows = int(rng.integers(1, 5))
        fresh = small_table(rng, rows)
        unused = sorted({*range(len(table.persons.levels))} - {*table.persons.codes.tolist()})
        fresh = replace(fresh, persons=Category(np.full(rows, rng.choice(unused)), table.persons.levels))
    left = np.setdiff1d(np.arange(len(table)), chosen)
    both = [table.rows(left), fresh]
    persons = None
    if table.persons is not None:
        codes = np.concatenate([one.persons.codes for one in both])  # pyright: ignore[reportOptionalMemberAccess]
        persons = Category(codes, table.persons.levels)
    features = np.concatenate([one.features for one in both])
    joined = Table(
        features, np.concatenate([one.labels for one in both]), ("x",), ("a", "b"), cells={"x": features[:, 0]},
        persons=persons,
    )  # fmt: skip
    order = rng.permutation(len(joined))
    return joined.rows(order), np.concatenate([owner[left], np.zeros(len(fresh), int)])[order]


def counted(table: Table, owner: np.ndarray, cut: Cutter, counting: Counting) -> np.ndarray:
    """The counts of client 0, before noise: a record's places follow from what it holds."""
    _, held = cut(table, assign(table, owner, 3), 0.4, KEY)
    part = table.rows(held.rows)
    bins = counting.binned((part.features[:, 0] + 0.5) / 3)
    group = (part.features[:, 0] > 1).astype(int)
    places = np.ravel_multi_index((group, part.labels.astype(int), bins), counting.shapes[0])[:, None]
    return np.asarray(counting.query(places, held.weights, held.owners, 3).value)[0]


def broken_sides(cut: Cutter, persons: bool, tries: int = 150, seed: int = 0) -> bool:
    """Whether swapping one unit of a client ever moves more than one unit on a side, or anything of another client."""
    rng = np.random.default_rng(seed)
    for _ in range(tries):
        table = small_table(rng, 45, persons)
        owner = rng.integers(0, 3, 45)
        if table.persons is not None:  # no person is at two clients
            owner = table.persons.codes % 3
        if len(np.unique(owner)) < 3:
            continue
        other, others_owner = swapped(table, owner, rng)
        for before, after in zip(sides(table, owner, cut), sides(other, others_owner, cut), strict=True):
            if any((before[client] - after[client]).total() > (client == 0) for client in range(3)):
                return True
            if any(before[client].total() != after[client].total() for client in range(3)):
                return True
    return False


def worst_move(counting: Counting, cut: Cutter = hold_out_by_key, tries: int = 300) -> float:
    """The largest L2 distance of counts of neighbors, over the sensitivity that is claimed."""
    rng, worst = np.random.default_rng(1), 0.0
    for attempt in range(tries):
        table = small_table(rng, 30, persons=attempt % 2 == 1)
        owner = rng.integers(0, 3, 30) if table.persons is None else table.persons.codes % 3
        if len(np.unique(owner)) < 3:
            continue
        other, others_owner = swapped(table, owner, rng)
        moved = counted(table, owner, cut, counting) - counted(other, others_owner, cut, counting)
        worst = max(worst, float(np.linalg.norm(moved)) / counting.sensitivity("replace-one"))
    return worst
