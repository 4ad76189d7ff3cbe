"""What of a run an audit attacks: the statement of its plan, from settings and public counts; no cell is looked at."""

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from fedspd.algorithms import Algorithm
from fedspd.algorithms.parts.fedavg_by_client import FedAvgByClient
from fedspd.assemble.agreement import Agreed
from fedspd.assemble.agreement.planning import agreement_of
from fedspd.assemble.cohorts import cohorts_of, pooled_holdings
from fedspd.audit.bounds import Claim
from fedspd.audit.target import Target
from fedspd.audit.verdict import Contest
from fedspd.config import Config
from fedspd.data import SOURCES, Holdings
from fedspd.engine.batches import nominal_sizes
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan, PublishedPlan
from fedspd.privacy.accounting import alone

SERVER = "a server that reads every upload"
ROWS = 3  # of a person
COLUMNS = 2  # of the game, where more would only carry more noise


def contests_of(config: Config) -> list[Contest]:
    """Who claims what in a run of this configuration, and who attacks it; the statement itself comes first."""
    if config.algorithm.method.guarantee == "none":
        raise InputError(f"an audit attacks a claim, got {config.algorithm.name}, which makes none; audit another run.")
    cells = SOURCES[config.data.name].read(config.data.source)
    settled, agreed, holdings, width = agreement_of(config, cells)
    columns = width if agreed.algorithm.law != "gaussian" else COLUMNS  # whose noise depends on how many there are
    if isinstance(agreed.plan, ProvedPlan):
        return _proved(settled, agreed, holdings, columns)
    return [_published(settled, agreed, holdings, columns)]


def _proved(config: Config, agreed: Agreed[Any], holdings: Holdings, columns: int) -> list[Contest]:
    plan: ProvedPlan = agreed.plan
    most = int(plan.most_participations.max())
    units = len(plan.group)  # clients, or cohorts
    worst = int(np.argmax(plan.spent(np.arange(units), np.full(units, most))))
    history = tuple(plan.history(int(plan.group[worst]), most))
    claim = Claim(float(plan.spent(np.array([worst]), np.array([most]))[0]), plan.delta, history)
    chosen = np.array([worst])
    noise, moments = float(plan.noise_scale(chosen, 1.0)[0]), float(plan.moments_scale(1.0)[worst])
    target = _target(
        config, agreed.algorithm, plan, pooled_holdings(holdings, cohorts_of(config)), worst, columns, most
    )
    sharing = plan.draws.sharing
    if sharing is None or plan.members is None:
        return [Contest(SERVER, _with_noise(target, noise, moments, 1.0), claim)]
    target = _of_member(config, target, plan, holdings)
    members = int(plan.members[worst])
    left = {
        f"a server with {sharing.colluders} of {members} members who tell their noise": (sharing.honest, claim),
        "a server with all other members": (1, _alone(plan, history)),
    }
    return [
        Contest(attacker, _with_noise(target, noise, moments, sqrt(honest / members)), each)
        for attacker, (honest, each) in left.items()
    ]


def _of_member(config: Config, target: Target, plan: ProvedPlan, holdings: Holdings) -> Target:
    """A member of a cohort, whose sum is divided by what all of its members take; theirs the attacker knows."""
    cohorts = cohorts_of(config)
    assert cohorts is not None, "noise is shared"
    divisor = cohorts.behind(holdings, 0.0, target.batch_size).divisor
    records, drawn = plan.draws.crowded or (target.records, None)
    algorithm = target.algorithm
    if isinstance(algorithm, FedAvgByClient):
        algorithm = replace(algorithm, members=1)  # what the others add is known
    return replace(target, algorithm=algorithm, records=records, batch_size=drawn, divisor=divisor)


def _alone(plan: ProvedPlan, history: Any) -> Claim:
    assert plan.epsilon_alone is not None, "noise is shared"
    return Claim(plan.epsilon_alone, plan.delta, tuple((alone(event), count) for event, count in history))


def _published(config: Config, agreed: Agreed[Any], holdings: Holdings, columns: int) -> Contest:
    """Theorem 1 for the expected participations, at the average shard size."""
    plan: PublishedPlan = agreed.plan
    if plan.guarantee == "none":
        raise InputError("an audit attacks a claim, got privacy.epsilon = inf, which claims nothing; set an epsilon.")
    share = config.participants / config.partition.clients
    participations = max(1, round(agreed.rounds * share))
    worst = int(np.argmin(holdings.sizes))
    claimed = float(plan.spent(np.array([worst]), np.array([participations]))[0])
    target = _target(config, agreed.algorithm, plan, holdings, worst, columns, participations)
    noise = float(np.max(plan.noise_scale(np.array([worst]), 1.0)))
    return Contest(SERVER, _with_noise(target, noise, np.inf, 1.0), Claim(claimed, plan.delta))


def _target(
    config: Config, algorithm: Algorithm, plan: Any, holdings: Holdings, client: int, columns: int, most: int
) -> Target:
    batch_size = config.algorithm.work.batch_size
    divisor = float(nominal_sizes(holdings, np.array([client]), batch_size, algorithm.local_steps)[0])
    records = int(holdings.sizes[client])
    row_norm = config.data.row_norm
    rows = 1 if config.privacy.unit == "record" else ROWS
    return Target(algorithm, plan.sampling, batch_size, records, divisor, 0.0, most, columns, row_norm, rows=rows)


def _with_noise(target: Target, noise: float, moments: float, share: float) -> Target:
    """The target with what of its noise the attacker does not know."""
    released = moments * share if np.isfinite(moments) else None
    return replace(target, multiplier=noise * share, moments_multiplier=released)
