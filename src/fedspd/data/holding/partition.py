"""Ways of handing out the records of a table to clients.

Each returns `owner`, the client of every row, and draws from the generator it is given and from
nothing else. None redraws until a condition holds: what cannot be done is refused.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspd.data.dataset import CLIENT, Shards, Table, assign, refuse_empty
from fedspd.data.holding.persons import one_each
from fedspd.errors import InputError
from fedspd.typing import Unit

Owner = NDArray[np.int64]


def iid(table: Table, clients: int, rng: np.random.Generator) -> Owner:
    """Hand out records at random, as evenly as possible: sizes differ by at most one."""
    _check_clients(table, clients)
    return rng.permutation(np.arange(len(table)) % clients)


def dirichlet(table: Table, clients: int, rng: np.random.Generator, *, alpha: float, at_least: int = 0) -> Owner:
    r"""Skew labels: each class goes to the clients in shares $\sim \mathrm{Dir}(\alpha, ..., \alpha)$.

    Args:
        alpha: small gives few clients most of a class, large tends to `iid`.
        at_least: records that every client is handed at random before the rest is skewed. With 0 a
            small `alpha` leaves clients without a record, and that is refused.
    """
    _check_clients(table, clients)
    if not table.classes:
        raise InputError("a Dirichlet split needs classes, got a table without; use iid, label_shards or power_law.")
    if not 0 < alpha <= 1e6:
        raise InputError(f"alpha must be positive and at most 1e6, got {alpha}; for no skew use iid.")
    if not 0 <= at_least * clients <= len(table):
        raise InputError(
            f"at_least must be from 0 to {len(table) // clients} for {len(table)} records and {clients} "
            f"clients, got {at_least}; lower it or use fewer clients."
        )
    order = rng.permutation(len(table))
    dealt, rest = np.split(order, [at_least * clients])
    owner = np.empty(len(table), dtype=np.int64)
    owner[dealt] = np.arange(dealt.size) % clients
    for label in range(len(table.classes)):
        rows = rest[table.labels[rest] == label]
        edges = np.cumsum(rng.dirichlet(np.full(clients, alpha)))
        middles = (np.arange(rows.size) + 0.5) / rows.size
        owner[rows] = np.minimum(np.searchsorted(edges, middles), clients - 1)
    sizes = np.bincount(owner, minlength=clients)
    refuse_empty(sizes, "use a larger alpha, fewer clients, another seed, or at_least = 1")
    return owner


def label_shards(table: Table, clients: int, rng: np.random.Generator, *, shards_per_client: int = 2) -> Owner:
    """Sort by label, cut into equal shards and deal `shards_per_client` to each (McMahan et al., 2017)."""
    _check_clients(table, clients)
    shards = clients * shards_per_client
    if not clients <= shards <= len(table):
        raise InputError(
            f"shards_per_client must be from 1 to {len(table) // clients} for {len(table)} records and "
            f"{clients} clients, got {shards_per_client}; lower it or use fewer clients."
        )
    shuffled = rng.permutation(len(table))
    rows = shuffled[np.argsort(table.labels[shuffled], kind="stable")]
    dealt = rng.permutation(np.arange(shards) % clients)
    owner = np.empty(len(table), dtype=np.int64)
    owner[rows] = dealt[np.arange(len(table)) * shards // len(table)]
    return owner


def by_column(table: Table, clients: int, rng: np.random.Generator, *, column: str) -> Owner:
    """Give each client records of one level of a categorical column only.

    The clients are allotted to the levels in proportion to their records, at least one each, and
    numbered in the order of the levels; each level's records are dealt evenly to its clients.
    """
    _check_clients(table, clients)
    if column not in table.attributes:
        known = ", ".join(sorted(table.attributes)) or "none"
        raise InputError(f"column must be a categorical column ({known}), got {column!r}; pick one of those.")
    levels, codes, counts = np.unique(table.attributes[column].codes, return_inverse=True, return_counts=True)
    if clients < levels.size:
        raise InputError(
            f"clients must be at least {levels.size}, the levels of {column!r} that occur, got {clients}; "
            "use more clients or a column with fewer levels."
        )
    seats = _apportion(counts.astype(np.float64), clients)
    first = np.cumsum(seats) - seats
    owner = np.empty(len(table), dtype=np.int64)
    for level in range(levels.size):
        rows = rng.permutation(np.flatnonzero(codes == level))
        owner[rows] = first[level] + np.arange(rows.size) % seats[level]
    return owner


def power_law(table: Table, clients: int, rng: np.random.Generator, *, exponent: float) -> Owner:
    r"""Skew sizes: client i holds records in proportion to $(i+1)^{-s}$, at least one, at random."""
    _check_clients(table, clients)
    if not 0 <= exponent < np.inf:
        raise InputError(f"exponent must be finite and at least 0, got {exponent}; 0 gives equal sizes.")
    sizes = _apportion(np.arange(1, clients + 1, dtype=np.float64) ** -exponent, len(table))
    return rng.permutation(np.repeat(np.arange(clients), sizes))


def own(table: Table, clients: int, rng: np.random.Generator) -> Owner:
    """Leave each record with the client that the table names for it."""
    return table.attributes[CLIENT].codes.astype(np.int64)


KINDS: dict[str, Callable[..., Owner]] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "label-shards": label_shards,
    "by-column": by_column,
    "power-law": power_law,
    "own": own,
}


def split(
    table: Table, kind: str, clients: int, rng: np.random.Generator, unit: Unit = "record", **options: Any
) -> Shards:
    """Hand out the table's records to clients by the name of a way in `KINDS`, with its options.

    Where the table says whom records are about, persons are dealt, each by its first record; a client of its own keeps
    its records.
    """
    if kind not in KINDS:
        raise InputError(f"partition must be one of {', '.join(KINDS)}, got {kind!r}; pick one.")
    takes = [p for p in signature(KINDS[kind]).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    known = {p.name for p in takes}
    missing = {p.name for p in takes if p.default is Parameter.empty} - options.keys()
    if missing or options.keys() - known:
        raise InputError(
            f"partition {kind!r} takes the options {', '.join(sorted(known)) or 'none'}, got "
            f"{', '.join(sorted(options)) or 'none'}; " + _mend(missing, options.keys() - known)
        )
    dealt, places = (table, None) if kind == "own" else one_each(table)
    owner = KINDS[kind](dealt, clients, rng, **options)
    return assign(table, owner if places is None else owner[places], clients, unit)


def _mend(missing: set[str], unknown: set[str]) -> str:
    steps = [f"add {name}" for name in sorted(missing)] + [f"remove {name}" for name in sorted(unknown)]
    return ", ".join(steps) + "."


def _apportion(weights: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Whole numbers in proportion to `weights`, at least one each, by largest remainder.

    Entries whose share would be below one are set to one, and the others share what is left. In
    ascending order the raised entries are a prefix: the shortest that leaves no share below one.
    """
    ascending = np.sort(weights)
    shared = total - np.arange(weights.size)
    sums = np.cumsum(ascending[::-1])[::-1]
    # Not as a quotient: the last entry must compare as true even where w * (1 / w) rounds below one.
    raised = int(np.argmax(ascending * shared >= sums))
    quotas = np.maximum(weights * (shared[raised] / sums[raised]), 1.0)
    result = np.floor(quotas).astype(np.int64)
    leftover = total - int(result.sum())
    result[np.argsort(result - quotas, kind="stable")[:leftover]] += 1
    return result


def _check_clients(table: Table, clients: int) -> None:
    if not 1 <= clients <= len(table):
        raise InputError(
            f"clients must be from 1 to the {len(table)} records, got {clients}; every client needs a record."
        )
