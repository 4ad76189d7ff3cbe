"""A person's records stay together, whoever deals them to clients or holds some of them out."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedspd.data.dataset import Table

Places = NDArray[np.int64]


def one_each(table: Table) -> tuple[Table, Places | None]:
    """One record of each person, the first, and for each record the place of its person's among them.

    Where nobody says whom records are about, every record stands for itself, and there are no places.
    """
    if table.persons is None:
        return table, None
    _, firsts, places = np.unique(table.persons.codes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)  # persons in the order of their first records
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return table.rows(firsts[order]), rank[places]


def without(table: Table, held: Callable[[Table], NDArray[np.integer]]) -> tuple[Table, Table]:
    """The table without some of its records, and those: all of a person's, or none.

    Args:
        table: the records.
        held: which are left out, by their numbers, of a table with one record of each person.
    """
    firsts, places = one_each(table)
    out = np.zeros(len(firsts), bool)
    out[held(firsts)] = True
    out = out if places is None else out[places]
    return table.rows(np.flatnonzero(~out)), table.rows(np.flatnonzero(out))
