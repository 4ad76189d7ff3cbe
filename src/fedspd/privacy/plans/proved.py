"""Plans whose epsilon is a theorem: from a budget to noise, events and caps, and back.

Clients with equal shards and budgets form a group with one noise multiplier; every client's total
stays within its own budget because its noise was calibrated for the most participations it may have.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from fedspd.privacy.accounting import Event, alone, calibrate, spent
from fedspd.privacy.plans.sampling import RecordSampling, sizes_that_matter
from fedspd.typing import Law


class Shares(NamedTuple):
    """Parts of the squared budget that releases beside the rounds take; 0: there is no such release."""

    moments: float = 0.0
    evaluation: float = 0.0


@dataclass(frozen=True)
class Group:
    """Clients that share a shard size and a budget."""

    epsilon: float  # the budget
    event: Event
    moments: Event | None  # one release of moments before the first round
    evaluation: Event | None = None  # one release of counts after the last one


@dataclass(frozen=True, eq=False)
class ProvedPlan:
    """Noise, sampling and cost of every client, calibrated to its own budget."""

    delta: float
    draws: RecordSampling
    groups: tuple[Group, ...]
    group: np.ndarray  # of each client
    most_participations: np.ndarray  # of each client
    accountant: str
    members: np.ndarray | None = None  # of each cohort, where sums are secure: a cohort stands in a client's place

    guarantee = "proved"

    @property
    def sampling(self) -> str:
        """How records are drawn."""
        return self.draws.scheme

    @property
    def unit(self) -> str:
        """What neighbors differ in."""
        return self.draws.unit

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

    @cached_property
    def spread(self) -> np.ndarray:
        """Noise in a release over what its claim counts on: more where members add noise that may be told."""
        if self.members is None or self.draws.sharing is None:
            return np.ones(len(self.group))
        return np.array([self.draws.sharing.spread(count) for count in self.members.tolist()])

    def noise_scale(self, clients: np.ndarray, sensitivity: Any) -> Any:
        """Each client's multiplier times its sensitivity; of a cohort, with the noise of all of its members."""
        return self.noise_multipliers[clients] * self.spread[clients] * sensitivity

    def moments_scale(self, sensitivity: float) -> np.ndarray:
        """Noise on the moments of each client."""
        multipliers = [inf if group.moments is None else group.moments.noise_multiplier for group in self.groups]
        return np.array(multipliers)[self.group] * self.spread * sensitivity

    def evaluation_scale(self, sensitivity: float) -> np.ndarray:
        """Noise on the counts of each client."""
        multipliers = [inf if group.evaluation is None else group.evaluation.noise_multiplier for group in self.groups]
        return np.array(multipliers)[self.group] * self.spread * sensitivity

    def spent(self, clients: np.ndarray, participations: np.ndarray, measured: bool = False) -> np.ndarray:
        """Recomposed from events: an upper bound, moments included, and the evaluation once the model is measured."""
        groups, counts = self.group[clients], np.asarray(participations)
        # few pairs are distinct, however many clients there are
        codes, places = np.unique(groups * (1 + counts.max(initial=0)) + counts, return_inverse=True)
        pairs = (divmod(code, 1 + int(counts.max(initial=0))) for code in codes.tolist())
        released = self.history if measured else self._trained
        epsilons = [_spent(tuple(released(group, count)), self.delta, self.accountant) for group, count in pairs]
        return np.array(epsilons)[places]

    def history(self, group: int, count: int) -> list[tuple[Event, int]]:
        """Everything a client of the group releases with so many participations, an evaluation included."""
        evaluation = self.groups[group].evaluation
        return [*self._trained(group, count), *([(evaluation, 1)] if evaluation is not None else [])]

    def _trained(self, group: int, count: int) -> list[tuple[Event, int]]:
        chosen = self.groups[group]
        return [
            (chosen.event, self.draws.charges(count)),
            *([(chosen.moments, 1)] if chosen.moments is not None else []),
        ]

    @property
    def largest(self) -> list[tuple[Event, int]]:
        """All planned releases of the client that may spend most."""
        place = int(np.lexsort((self.most_participations, self.budgets))[-1])
        return self.history(int(self.group[place]), int(self.most_participations[place]))

    @cached_property
    def epsilon_alone(self) -> float | None:
        """Epsilon of all planned releases if everybody else colludes; None where nobody relies on others."""
        if self.draws.sharing is None:
            return None
        most = np.full(len(self.group), self.most_participations.max(initial=0))
        return float(self.of_own_noise.spent(np.arange(len(self.group)), most, measured=True).max())

    @cached_property
    def of_own_noise(self) -> "ProvedPlan":
        """What it is if everybody else colludes."""
        groups = (
            replace(
                group,
                event=alone(group.event),
                moments=group.moments and alone(group.moments),
                evaluation=group.evaluation and alone(group.evaluation),
            )
            for group in self.groups
        )
        return replace(self, groups=tuple(groups))


def plan_proved(
    epsilon: float | np.ndarray,
    delta: float,
    sampling: RecordSampling,
    records: np.ndarray,
    participations: int,
    moments_share: float = 0.0,
    noise_multiplier: float | None = None,
    accountant: str = "pld",
    members: np.ndarray | None = None,
    most_alone: float | None = None,
    evaluation_share: float = 0.0,
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
        members: of each cohort, where `sampling` shares noise; cohorts then stand in the clients' place.
        most_alone: the most that all releases may cost if everybody else colludes; noise is raised to keep to it.
        evaluation_share: part of the squared budget that is kept for a release of counts after the last round.
    """
    shares = Shares(moments_share, evaluation_share)
    budgets = np.broadcast_to(np.asarray(epsilon, float), records.shape)
    sizes = sizes_that_matter(sampling, records)
    keys, group = np.unique(np.stack([sizes, budgets]), axis=1, return_inverse=True)
    shared = (delta, sampling.charges(participations), shares, accountant)
    groups = tuple(
        _calibrated(sampling, int(size), float(budget), *shared, most_alone)
        if noise_multiplier is None
        else _given(sampling, int(size), noise_multiplier, *shared)
        for size, budget in keys.T
    )
    caps = np.full(len(records), participations)
    return ProvedPlan(delta, sampling, groups, group.reshape(-1), caps, accountant, members)


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
    shares: Shares,
    accountant: Any,
    most_alone: float | None,
) -> Group:
    def event(multiplier: float) -> Event:
        return sampling.event(records, multiplier)

    whole = 0.0
    if any(shares):
        whole = calibrate(sampling.whole, 1, epsilon, delta)
        if most_alone is not None:
            whole = max(whole, calibrate(lambda z: alone(sampling.whole(z)), 1, most_alone, delta))
    beside = [sampling.whole(_round_up(whole / sqrt(share))) if share else None for share in shares]
    once = [(release, 1) for release in beside if release is not None]
    multiplier = calibrate(event, participations, epsilon, delta, once, accountant)
    if most_alone is not None:
        own = [(alone(release), count) for release, count in once]
        needed = calibrate(lambda z: alone(event(z)), participations, most_alone, delta, own, accountant)
        multiplier = max(multiplier, needed)
    return Group(epsilon, event(multiplier), *beside)


def _given(
    sampling: RecordSampling, records: int, noise_multiplier: float, delta: float, participations: int, shares: Shares,
    accountant: Any,
) -> Group:  # fmt: skip
    event, whole = sampling.event(records, noise_multiplier), 0.0
    if any(shares):
        rounds = spent([(event, participations)], delta, accountant).epsilon
        whole = calibrate(sampling.whole, 1, rounds, delta)  # one release that costs what all rounds cost
    rest = 1 - sum(shares)
    beside = [sampling.whole(_round_up(whole * sqrt(rest / share))) if share else None for share in shares]
    history = [(event, participations), *((release, 1) for release in beside if release is not None)]
    return Group(spent(history, delta, accountant).epsilon, event, *beside)


def _round_up(multiplier: float) -> float:
    """To five significant digits: more noise, never less."""
    digits = 10.0 ** (np.floor(np.log10(multiplier)) - 4)
    return float(np.ceil(multiplier / digits) * digits)
