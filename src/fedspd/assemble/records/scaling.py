"""Scaling by moments that all clients release with noise, each charged before it is made."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from fedspd.algorithms import Moments, choose_levels
from fedspd.assemble.gate import SECRET, LedgerGate
from fedspd.config import Config
from fedspd.data import Declared, Holdings, Shards, Table, finish
from fedspd.data.features.scaling import LARGE, Vector
from fedspd.engine import stream
from fedspd.engine.release import release_moments
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan

Scaled = tuple[Shards, Table | None, Vector, Vector]


@dataclass(frozen=True)
class Asked:
    """What scaled records depend on, and what makes them: runs that agree in the first six have the same."""

    data: object
    seed: int
    shards: Shards
    test: Table | None
    relation: str
    noise: bytes  # on the moments
    config: Config = field(compare=False)
    declared: Declared = field(compare=False)
    plan: ProvedPlan = field(compare=False)


Memory = Callable[[Asked], Scaled]


def memory() -> Memory:
    """Remembers the records of the last runs: methods and step sizes that share a seed and a budget share them."""
    return lru_cache(maxsize=2)(
        lambda asked: _scaled(asked.config, asked.declared, asked.shards, asked.test, asked.plan)
    )


def scaled_by_release(
    config: Config,
    declared: Declared,
    shards: Shards,
    test: Table | None,
    plan: ProvedPlan,
    gate: LedgerGate | None,
    known: Memory | None,
) -> Scaled:
    """Training and test records with every row bounded, and the moments they were scaled by: 0 and 1 where none are.

    What is charged is made anew, and a secret seed is remembered nowhere.
    """
    if known is None or gate is not None or config.seed >= SECRET or shards.features.nbytes > LARGE:
        return _scaled(config, declared, shards, test, plan, gate)
    noise = plan.moments_scale(1.0).tobytes()
    return known(Asked(config.data, config.seed, shards, test, plan.relation, noise, config, declared, plan))


def _scaled(
    config: Config,
    declared: Declared,
    shards: Shards,
    test: Table | None,
    plan: ProvedPlan,
    gate: LedgerGate | None = None,
) -> Scaled:
    data = config.data
    width, row_norm = shards.features.shape[1], data.row_norm
    assert row_norm is not None, "a proved method has asked for it"
    mean, deviation = np.zeros(width), np.ones(width)
    if data.scaling == "noisy-moments":
        mean, deviation = released_moments(config, declared, shards, plan, gate)
    features = finish(np.asarray(shards.features, float), mean, deviation, data.bias, row_norm)
    if test is not None:
        columns = (*test.columns, *(("bias",) if data.bias else ()))
        test = test.with_features(finish(test.features, mean, deviation, data.bias, row_norm), columns)
    return replace(shards, features=features), test, mean, deviation


def released_moments(
    config: Config, declared: Declared, shards: Shards, plan: ProvedPlan, gate: LedgerGate | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every column from one noised release per client, paid for before it is made."""
    moments = make_moments(config, declared.numeric, declared.categorical, shards.holdings, plan)
    if gate is not None and not gate.charge_all(0):
        raise InputError(
            "every client must have budget for the release of moments, got some without; name a new "
            "ledger, in which the first run says what may be spent in all (--ledger-epsilon)."
        )
    scales = plan.moments_scale(moments.sensitivity)
    return release_moments(moments, shards, scales, stream(config.seed, "moments"))


def make_moments(
    config: Config, numeric: np.ndarray, categorical: int, holdings: Holdings, plan: ProvedPlan
) -> Moments:
    """What every client sums up before the first round, from public numbers."""
    moments = Moments(numeric, categorical, config.data.deviation_floor, plan.relation)
    return choose_levels(moments, float(plan.moments_scale(1.0).max()), holdings.records, holdings.clients)
