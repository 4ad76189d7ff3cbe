"""Cohorts of clients whose uploads are seen as sums only: who is in which, and what noise they share."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fedspd.algorithms import METHODS
from fedspd.assemble.records.deal import deal_seed
from fedspd.config import Config
from fedspd.data import Holdings, Shards
from fedspd.data.features.scaling import LARGE
from fedspd.engine import stream
from fedspd.engine.arrivals import Members
from fedspd.engine.batches import member_batches
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan, PublishedPlan, SharedNoise
from fedspd.privacy.shared_noise import usual_colluders, usual_threshold


@dataclass(frozen=True, eq=False)
class Cohorts:
    """Clients dealt to cohorts, before the run and in public."""

    members: tuple[np.ndarray, ...]  # numbers of the clients in each
    sharing: SharedNoise

    @cached_property
    def sizes(self) -> np.ndarray:
        """Members of each."""
        return np.array([len(each) for each in self.members])

    @property
    def spread(self) -> float:
        """Noise in a release over what its claim counts on, on average."""
        return float(np.mean([self.sharing.spread(size) for size in self.sizes.tolist()]))

    def behind(self, holdings: Holdings, absence: float, batch_size: int | None) -> Members:
        """Them as a simulation knows them."""
        records, batches = self._by_cohort(holdings.sizes), None
        if batch_size is not None:
            batches = self._by_cohort(member_batches(holdings.sizes, batch_size))
        return Members(records, self.sharing, absence, batches)

    def _by_cohort(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(numbers[each] for each in self.members)


def cohorts_of(config: Config) -> Cohorts | None:
    """The cohorts of a settled configuration; None where every upload is its client's own."""
    count, clients = config.cohorts, config.partition.clients
    if count is None:
        return None
    _check(config, count, clients)
    return _dealt(deal_seed(config), clients, count, config.privacy.threshold, config.privacy.colluders)


@lru_cache(maxsize=16)
def _dealt(seed: int, clients: int, count: int, threshold: int | None, colluders: int | None) -> Cohorts:
    order = stream(seed, "cohorts").permutation(clients)
    members = tuple(np.sort(part) for part in np.array_split(order, count))
    least = clients // count  # sizes differ by one at most
    least_in_sum = threshold or usual_threshold(least)
    if least_in_sum > least:
        raise InputError(
            f"privacy.threshold must be at most the members of the smallest cohort, {least}, or that one would be "
            f"charged and never answer, got {least_in_sum}; lower it, or choose privacy.cohorts to divide {clients}."
        )
    telling = usual_colluders(least, least_in_sum) if colluders is None else colluders
    return Cohorts(members, SharedNoise(len(members[0]), least_in_sum, telling))


def asked(config: Config) -> int:
    """How many clients take part in a round; where sums are secure, how many cohorts."""
    if config.cohorts is None:
        return config.participants
    return round(config.participants * config.cohorts / config.partition.clients)


def pooled_holdings(holdings: Holdings, cohorts: Cohorts | None) -> Holdings:
    """How many records each cohort holds; each client where there are no cohorts."""
    if cohorts is None:
        return holdings
    return replace(holdings, sizes=np.array([holdings.sizes[each].sum() for each in cohorts.members]))


def most_crowded(holdings: Holdings, batch_size: int | None) -> tuple[int, int] | None:
    """Records and batch of the member whose records are drawn most often: what the others pay is less."""
    if batch_size is None:
        return None
    batches = member_batches(holdings.sizes, batch_size)
    worst = int(np.argmax(batches / holdings.sizes))
    return int(holdings.sizes[worst]), int(batches[worst])


def pooled(shards: Shards, cohorts: Cohorts | None) -> Shards:
    """The records with a cohort in a client's place: a sum over its members is a sum over all of their records."""
    if cohorts is None:
        return shards
    return (_pooled if shards.features.nbytes > LARGE else _remembered)(shards, cohorts)


def _pooled(shards: Shards, cohorts: Cohorts) -> Shards:
    starts = shards.offsets
    ranges = [np.arange(int(starts[i]), int(starts[i + 1])) for each in cohorts.members for i in each.tolist()]
    rows = np.concatenate(ranges)
    offsets = np.concatenate([[0], np.cumsum([shards.rows[each].sum() for each in cohorts.members])])
    order = rows if shards.order is None else shards.order[rows]
    features, labels = np.asarray(shards.features)[rows], shards.labels[rows]
    units = None if shards.units is None else shards.units.pooled(cohorts.members)
    return replace(shards, features=features, labels=labels, offsets=offsets, order=order, units=units)


_remembered = lru_cache(maxsize=2)(_pooled)
"""Runs of a study that share a seed share the deal."""


def told_trust(plan: ProvedPlan | PublishedPlan) -> dict[str, Any]:
    """What a claim rests on where only sums are seen, and what holds without; empty where nobody is relied on."""
    if not isinstance(plan, ProvedPlan) or plan.draws.sharing is None:
        return {}
    sharing = plan.draws.sharing
    return {
        "trust": "secure-sums",
        "cohorts": len(plan.group),
        "members": sharing.members,
        "threshold": sharing.threshold,
        "colluders": sharing.colluders,
        "epsilon_alone": plan.epsilon_alone,
    }


def _check(config: Config, count: int, clients: int) -> None:
    method = config.algorithm.method
    whole = config.privacy.unit == "client"
    if method.off_sums is not None and not (whole and method.by_client):
        able = ", ".join(name for name, each in METHODS.items() if each.on_sums or (whole and each.by_client))
        raise InputError(
            "privacy.trust = secure-sums needs a method whose round is one Gaussian release of a gradient at the "
            f"server's weights, got {method.name}, which {method.off_sums}; use {able}, or privacy.trust = each-upload."
        )
    if config.problem.counts != "records":
        raise InputError(
            f"secure sums count every record the same, got problem.counts = {config.problem.counts}; set it to records."
        )
    if count > clients:
        raise InputError(
            f"privacy.cohorts must be at most the number of clients, {clients}, got {count}; lower it, or leave it out."
        )
    size = clients / count
    if abs(config.participants - asked(config) * size) >= 1 or not asked(config):
        raise InputError(
            f"run.participants must be whole cohorts, of {size:g} clients each, got {config.participants}; set it to "
            f"{clients}, leave it out, or choose privacy.cohorts to fit it."
        )
