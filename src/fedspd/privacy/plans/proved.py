"""Plans whose epsilon is a theorem: from a budget to noise, events and caps, and back.

Clients with equal shards and budgets form a group with one noise multiplier; every client's total
stays within its own budget because its noise was calibrated for the most participations it may have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, inf, sqrt
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, FixedSize, Gaussian, Laplace, Poisson, calibrate, spent
from fedspd.privacy.accounting.events import relative_distances
from fedspd.privacy.plans.base import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT
from fedspd.typing import Law

MOST_GROUPS = 12  # more distinct shard sizes are rounded down to a geometric grid: fewer records, larger epsilon


@dataclass(frozen=True)
class RecordSampling:
    """How a client draws its records in a round, and what its accounting needs to know of the steps."""

    scheme: str  # WHOLE_SHARD, WITHOUT_REPLACEMENT or POISSON
    batch_size: int | None = None  # b; None for the whole shard
    local_steps: int = 1  # Q
    contraction: float = 0.0  # c = γ/(γ+ρ)
    max_batch: int | None = None  # B_max, for Poisson sampling with several steps
    law: Law = "gaussian"  # of the noise; "laplace" for the whole shard only
    jacobian: float = 0.0  # what noise in the objective costs a round beside its size, at most
    dimension: int | None = None  # of Laplace noise
    directions: int | None = None  # in which a record moves what it is added to
    blocks: int = 1  # a record is used in one of so many participations

    def __post_init__(self) -> None:
        """Refuse what no event covers."""
        if (self.law == "laplace" or self.blocks > 1) and self.scheme != WHOLE_SHARD:
            raise InputError(
                f"noise of pure privacy and noise that is remembered need the whole shard, got {self.scheme}; leave "
                "algorithm.batch_size out."
            )

    @property
    def counts_positions(self) -> bool:
        """Whether a record of the whole shard is charged for a random step; without contraction all cost alike."""
        return self.scheme == WHOLE_SHARD and self.local_steps > 1 and self.contraction > 0 and self.law == "gaussian"

    @property
    def least_distance(self) -> float:
        """How far a record of the last step moves the query, over what one of the first step does."""
        return relative_distances(self.local_steps, self.contraction)[-1]

    def charges(self, participations: int) -> int:
        """Of how many events so many participations consist: one for each time that some record was used."""
        return -(-participations // self.blocks)

    @property
    def relation(self) -> str:
        """Which neighbors the accounting speaks of."""
        return "zero-out" if self.scheme == POISSON else "replace-one"

    def event(self, records: int, noise_multiplier: float) -> Event:
        """What one participation of a client with this many records costs."""
        if self.law == "laplace":
            return Laplace(noise_multiplier, self.jacobian, "replace-one", self.dimension, self.directions)
        if self.counts_positions:
            return FixedSize(noise_multiplier, records, records, self.local_steps, self.contraction)
        if self.scheme == WHOLE_SHARD:
            return Gaussian(noise_multiplier)
        assert self.batch_size is not None
        drawn = self.batch_size * self.local_steps
        if self.scheme == WITHOUT_REPLACEMENT:
            return FixedSize(noise_multiplier, records, drawn, self.local_steps, self.contraction)
        if self.scheme == POISSON:
            if self.local_steps == 1:
                return Poisson(noise_multiplier, drawn / records)
            return Poisson(
                noise_multiplier, drawn / records, self.local_steps, self.contraction, records, self.batch_size,
                self.max_batch,
            )  # fmt: skip
        raise InputError(
            f"sampling must be {WHOLE_SHARD}, {WITHOUT_REPLACEMENT} or {POISSON} for a proved guarantee, got "
            f"{self.scheme!r}; there is no proof for it, use the published preset to run it."
        )


@dataclass(frozen=True)
class Group:
    """Clients that share a shard size and a budget."""

    epsilon: float  # the budget
    event: Event
    moments: Event | None  # one release of moments before the first round


@dataclass(frozen=True, eq=False)
class ProvedPlan:
    """Noise, sampling and cost of every client, calibrated to its own budget."""

    delta: float
    draws: RecordSampling
    groups: tuple[Group, ...]
    group: np.ndarray  # of each client
    most_participations: np.ndarray  # of each client
    accountant: str

    guarantee = "proved"

    @property
    def sampling(self) -> str:
        """How records are drawn."""
        return self.draws.scheme

    @property
    def relation(self) -> str:
        """Which data sets are neighbors."""
        return self.draws.relation

    @property
    def law(self) -> Law:
        """Of the noise."""
        return self.draws.law

    def is_charged(self, participations: np.ndarray) -> np.ndarray:
        """Where records come in turn, once for each turn."""
        return np.asarray(participations) % self.draws.blocks == 0

    @cached_property
    def noise_multipliers(self) -> np.ndarray:
        """Noise over sensitivity, of each client."""
        return np.array([group.event.noise_multiplier for group in self.groups])[self.group]

    @property
    def budgets(self) -> np.ndarray:
        """Epsilon each client may spend."""
        return np.array([group.epsilon for group in self.groups])[self.group]

    def event(self, client: int) -> Event:
        """What one participation of a client costs."""
        return self.groups[self.group[client]].event

    def noise_scale(self, clients: np.ndarray, sensitivity: Any) -> Any:
        """Each client's multiplier times its sensitivity."""
        return self.noise_multipliers[clients] * sensitivity

    def moments_scale(self, sensitivity: float) -> np.ndarray:
        """Noise on the moments of each client."""
        multipliers = [inf if group.moments is None else group.moments.noise_multiplier for group in self.groups]
        return np.array(multipliers)[self.group] * sensitivity

    def spent(self, clients: np.ndarray, participations: np.ndarray) -> np.ndarray:
        """Recomposed from events: an upper bound, moments included."""
        groups, counts = self.group[clients], np.asarray(participations)
        # few pairs are distinct, however many clients there are
        codes, places = np.unique(groups * (1 + counts.max(initial=0)) + counts, return_inverse=True)
        pairs = (divmod(code, 1 + int(counts.max(initial=0))) for code in codes.tolist())
        epsilons = [_spent(tuple(self.history(group, count)), self.delta, self.accountant) for group, count in pairs]
        return np.array(epsilons)[places]

    def history(self, group: int, count: int) -> list[tuple[Event, int]]:
        """Everything a client of the group has released after some participations."""
        chosen = self.groups[group]
        return [
            (chosen.event, self.draws.charges(count)),
            *([(chosen.moments, 1)] if chosen.moments is not None else []),
        ]


def plan_proved(
    epsilon: float | np.ndarray,
    delta: float,
    sampling: RecordSampling,
    records: np.ndarray,
    participations: int,
    moments_share: float = 0.0,
    noise_multiplier: float | None = None,
    accountant: str = "pld",
) -> ProvedPlan:
    """Calibrate every client's noise so that its total stays within its budget.

    Args:
        epsilon: the total budget, one number or one per client.
        delta: of the whole run.
        sampling: how records are drawn.
        records: of each client.
        participations: the most rounds a client may take part in.
        moments_share: part of the squared budget that a first release of moments takes; 0: no such release.
        noise_multiplier: use this instead of calibrating; the budgets then become what it costs.
        accountant: "pld" or "rdp".
    """
    budgets = np.broadcast_to(np.asarray(epsilon, float), records.shape)
    sizes = sizes_that_matter(sampling, records)
    keys, group = np.unique(np.stack([sizes, budgets]), axis=1, return_inverse=True)
    shared = (delta, sampling.charges(participations), moments_share, accountant)
    groups = tuple(
        _calibrated(sampling, int(size), float(budget), *shared)
        if noise_multiplier is None
        else _given(sampling, int(size), noise_multiplier, *shared)
        for size, budget in keys.T
    )
    caps = np.full(len(records), participations)
    return ProvedPlan(delta, sampling, groups, group.reshape(-1), caps, accountant)


@lru_cache(maxsize=4096)
def _spent(history: tuple[tuple[Event, int], ...], delta: float, accountant: Any) -> float:
    return spent(history, delta, accountant).epsilon


@lru_cache(maxsize=256)
def _calibrated(
    sampling: RecordSampling,
    records: int,
    epsilon: float,
    delta: float,
    participations: int,
    share: float,
    accountant: Any,
) -> Group:
    moments = None
    if share > 0:
        whole = calibrate(_gaussian(sampling), 1, epsilon, delta)
        moments = _gaussian(sampling)(_round_up(whole / sqrt(share)))
    before = [] if moments is None else [(moments, 1)]
    multiplier = calibrate(lambda z: sampling.event(records, z), participations, epsilon, delta, before, accountant)
    return Group(epsilon, sampling.event(records, multiplier), moments)


def _given(
    sampling: RecordSampling, records: int, noise_multiplier: float, delta: float, participations: int, share: float,
    accountant: Any,
) -> Group:  # fmt: skip
    event, moments = sampling.event(records, noise_multiplier), None
    if share > 0:
        rounds = spent([(event, participations)], delta, accountant).epsilon
        whole = calibrate(_gaussian(sampling), 1, rounds, delta)  # one release that costs what all rounds cost
        moments = _gaussian(sampling)(_round_up(whole * sqrt((1 - share) / share)))
    history = [(event, participations), *([(moments, 1)] if moments is not None else [])]
    return Group(spent(history, delta, accountant).epsilon, event, moments)


def largest_batch(
    records: int, batch_size: int, local_steps: int, participations: int, epsilon: float, delta: float
) -> int:
    """The least B_max whose additive term takes at most a twentieth of delta (`docs/accounting.md`)."""
    from scipy import stats  # takes a second to import

    allowed = delta / 20 / ((1 + exp(epsilon)) * participations * local_steps)
    return int(stats.binom.isf(allowed, records, batch_size / records)) + 1


def _gaussian(sampling: RecordSampling) -> Callable[[float], Gaussian]:
    return lambda multiplier: Gaussian(multiplier, sampling.relation)  # pyright: ignore[reportArgumentType]


def _round_up(multiplier: float) -> float:
    """To five significant digits: more noise, never less."""
    digits = 10.0 ** (np.floor(np.log10(multiplier)) - 4)
    return float(np.ceil(multiplier / digits) * digits)


def sizes_that_matter(sampling: RecordSampling, records: np.ndarray) -> np.ndarray:
    """Shard sizes, rounded down to a geometric grid where there are many: a higher rate, so epsilon only grows.

    Not so for the chance of an oversized Poisson batch, which grows with the shard at the same batch
    size: there every size counts. Whole shards have no rate, but where positions are counted, sizes whose
    records stand earlier.
    """
    if sampling.scheme == WHOLE_SHARD and not sampling.counts_positions:
        return np.zeros_like(records)
    if len(np.unique(records)) <= MOST_GROUPS or sampling.max_batch is not None:
        return records
    low, high = int(records.min()), int(records.max())
    grid = np.unique(np.floor(np.geomspace(low, high, MOST_GROUPS)).astype(records.dtype))
    rounded = grid[np.searchsorted(grid, records, side="right") - 1]
    if not sampling.counts_positions:
        return rounded
    earlier = _earlier(rounded, sampling.local_steps)
    return np.where(earlier >= sampling.local_steps, earlier, records)  # the few sizes that are too small for it stay


def _earlier(records: np.ndarray, local_steps: int) -> np.ndarray:
    r"""A size $m' \equiv h$ modulo $Q$, $h = \lfloor Q/2\rfloor$, with $m' \le mh/(Q-1)$.

    Of $m' = fQ + h$ records dealt out in turn a record stands among the first $r$ batches at least as often as of any
    $m$ or more (`docs/accounting.md`), so that they cost at least as much.
    """
    middle = local_steps // 2
    most = records * middle // (local_steps - 1)
    return most - (most - middle) % local_steps
