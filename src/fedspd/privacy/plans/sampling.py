"""How records are drawn in a round, and what one participation costs then."""

from dataclasses import dataclass
from math import exp

import numpy as np

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, FixedSize, Gaussian, Laplace, Poisson, shared
from fedspd.privacy.accounting.events import relative_distances
from fedspd.privacy.accounting.minimizers import minimizer_event
from fedspd.privacy.plans.base import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT
from fedspd.privacy.shared_noise import SharedNoise
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
    law: Law = "gaussian"  # of the noise; others for the whole shard only
    jacobian: float = 0.0  # what noise in an objective costs a round beside its size, at most
    dimension: int | None = None  # of Laplace noise; in an objective it must be known
    directions: int | None = None  # in which a record moves what it is added to
    blocks: int = 1  # a record is used in one of so many participations
    sharing: SharedNoise | None = None  # the noise is that of a cohort's members together
    crowded: tuple[int, int] | None = None  # then, with batches: records and batch of the member with the highest rate
    unit: str = "record"  # what is drawn, and what neighbors differ in

    def __post_init__(self) -> None:
        """Refuse what no event covers."""
        if (self.law != "gaussian" or self.blocks > 1) and self.scheme != WHOLE_SHARD:
            raise InputError(
                f"noise of pure privacy and noise that is remembered need the whole shard, got {self.scheme}; leave "
                "algorithm.batch_size out."
            )
        if self.sharing is not None and (self.law != "gaussian" or self.local_steps > 1 or self.blocks > 1):
            raise InputError(
                "secure sums need one local step with Gaussian noise, got something else; set privacy.trust = "
                "each-upload."
            )
        if self.sharing is not None and (self.crowded is None) != (self.scheme == WHOLE_SHARD):
            raise RuntimeError("batches of a cohort's members are counted by the member with the highest rate.")

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

    def whole(self, noise_multiplier: float) -> Event:
        """What one release with Gaussian noise from all records costs, such as that of moments."""
        return self._shared(Gaussian(noise_multiplier, self.relation))  # pyright: ignore[reportArgumentType]

    def event(self, records: int, noise_multiplier: float) -> Event:
        """What one participation of a client with this many records costs; of a member of a cohort, at most."""
        if self.law == "laplace":
            return Laplace(noise_multiplier, 0.0, "replace-one", self.dimension, self.directions)
        if self.law == "objective":
            assert self.dimension is not None, "noise in an objective is of known dimension"
            assert self.directions is not None, "and so is what a record moves"
            return minimizer_event(noise_multiplier, self.jacobian, self.dimension, self.directions)
        if self.counts_positions:
            return FixedSize(noise_multiplier, records, records, self.local_steps, self.contraction)
        if self.scheme == WHOLE_SHARD:
            return self.whole(noise_multiplier)
        assert self.batch_size is not None
        records, drawn = self.crowded or (records, self.batch_size * self.local_steps)
        return self._shared(self._sampled(records, drawn, noise_multiplier))

    def _sampled(self, records: int, drawn: int, noise_multiplier: float) -> Event:
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

    def _shared(self, event: Event) -> Event:
        if self.sharing is None:
            return event
        return shared(event, self.sharing.alone(event.noise_multiplier))


def largest_batch(
    records: int, batch_size: int, local_steps: int, participations: int, epsilon: float, delta: float
) -> int:
    """The least B_max whose additive term takes at most a twentieth of delta (`docs/accounting.md`)."""
    from scipy import stats  # takes a second to import

    allowed = delta / 20 / ((1 + exp(epsilon)) * participations * local_steps)
    return int(stats.binom.isf(allowed, records, batch_size / records)) + 1


def sizes_that_matter(sampling: RecordSampling, records: np.ndarray) -> np.ndarray:
    """Shard sizes, rounded down to a geometric grid where there are many: a higher rate, so epsilon only grows.

    Not so for the chance of an oversized Poisson batch, which grows with the shard at the same batch
    size: there every size counts. Whole shards have no rate, but where positions are counted, sizes whose
    records stand earlier.
    """
    if (sampling.scheme == WHOLE_SHARD and not sampling.counts_positions) or sampling.crowded is not None:
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
