"""The distinguishing game reaches what is claimed, never more, and gives broken methods away."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.base import AveragesSteps
from fedspd.audit.bounds import Claim, Lower, lower_bound
from fedspd.audit.game import play_game, stacks
from fedspd.audit.target import Target, worst_pair
from fedspd.privacy import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT, ProvedPlan, RecordSampling, plan_proved
from fedspd.privacy.plans.sampling import largest_batch
from fedspd.problem import Objective, Softmax, Unregularized
from tests.support.algorithms.contract_methods import METHODS, PROVED, WHOLE, Setting, whole_shard

STEEP = Objective(Softmax(2), Unregularized(), 0.05)  # gradients are clipped also where a sub-problem is least
EPSILON, DELTA, RECORDS = 4.0, 1e-5, 40
GAUSSIAN = [name for name in PROVED if METHODS[name](Setting()).law == "gaussian"]


def whole_contest(name: str, participations: int = 3) -> tuple[Target, ProvedPlan]:
    algorithm = METHODS[name](Setting(STEEP, gamma=0.4, penalty=0.2))
    sampling = whole_shard(algorithm, np.array([RECORDS]))
    if algorithm.law == "laplace":
        sampling = replace(sampling, dimension=6, directions=2)
    plan = plan_proved(EPSILON, DELTA, sampling, np.array([RECORDS]), participations)
    noise = float(plan.noise_multipliers[0])
    return Target(algorithm, WHOLE_SHARD, None, RECORDS, RECORDS, noise, participations, 3, 1.0), plan


def sampled_contest(name: str, scheme: str, steps: int, batch: int = 4) -> tuple[Target, ProvedPlan]:
    crowded = scheme == POISSON and steps > 1
    most = largest_batch(RECORDS, batch, steps, 2, EPSILON, DELTA) if crowded else None
    crowding = most / batch if most else 1.0
    relation = "zero-out" if scheme == POISSON else "replace-one"
    setting = Setting(STEEP, steps, 0.4 * crowding, 0.2, relation, crowding, grows=False)
    algorithm = METHODS[name](setting)
    contraction = algorithm.contraction if isinstance(algorithm, AveragesSteps) else 0.0
    sampling = RecordSampling(scheme, batch, steps, contraction, most)
    plan = plan_proved(EPSILON, DELTA, sampling, np.array([RECORDS]), 2)
    return Target(algorithm, scheme, batch, RECORDS, batch, float(plan.noise_multipliers[0]), 2, 2, 1.0), plan


def attacked(target: Target, plan: ProvedPlan, runs: int = 8000) -> Lower:
    claim = Claim(EPSILON, DELTA, tuple(plan.history(0, target.participations)))
    return lower_bound(*play_game(target, worst_pair(target), runs, 0), claim)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_a_gaussian_run_of_few_releases_leaks_most_of_what_it_claims(name: str) -> None:
    lower = attacked(*whole_contest(name))
    assert lower.family is not None
    assert 0.8 * EPSILON < lower.family <= EPSILON


@pytest.mark.parametrize("name", [name for name in PROVED if name not in GAUSSIAN])
def test_a_pure_run_leaks_no_more_than_it_claims(name: str) -> None:
    assert 0.1 < attacked(*whole_contest(name), runs=4000).epsilon <= EPSILON


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("scheme", [WITHOUT_REPLACEMENT, POISSON])
@pytest.mark.parametrize("name", ["FedSPD-DP", "DP-FedAvg", "Multi-step DP-ADMM", "DP-SCAFFOLD"])
def test_a_subsampled_run_leaks_no_more_than_it_claims(name: str, scheme: str, steps: int) -> None:
    assert name not in WHOLE
    assert 0.05 * EPSILON < attacked(*sampled_contest(name, scheme, steps)).epsilon <= EPSILON


def test_moments_are_part_of_the_game() -> None:
    target, _ = whole_contest("FedSPD-DP")
    sampling = RecordSampling(WHOLE_SHARD)
    plan = plan_proved(EPSILON, DELTA, sampling, np.array([RECORDS]), 3, moments_share=0.5)
    z, moments = float(plan.noise_multipliers[0]), float(plan.moments_scale(1.0)[0])
    both = attacked(replace(target, multiplier=z, moments_multiplier=moments), plan)
    rounds = attacked(replace(target, multiplier=z), plan)
    assert 0.8 * EPSILON < both.epsilon <= EPSILON
    assert rounds.epsilon < 0.8 * EPSILON, "half of the budget was spent before the first round"


@pytest.mark.parametrize("batch", [None, 4])
def test_a_person_of_several_rows_is_as_private_as_a_record(batch: int | None) -> None:
    whole = whole_contest("FedSPD-DP") if batch is None else sampled_contest("FedSPD-DP", WITHOUT_REPLACEMENT, 1, batch)
    alone, person = attacked(*whole), attacked(replace(whole[0], rows=3), whole[1])
    assert person.epsilon == pytest.approx(alone.epsilon, rel=1e-6)


def test_runs_in_several_stacks_are_as_many_as_were_asked_for() -> None:
    target, _ = sampled_contest("FedSPD-DP", WITHOUT_REPLACEMENT, 1)
    ticks: list[int] = []
    scores = play_game(target, worst_pair(target), 9001, 0, lambda: ticks.append(1))
    assert [len(one) for one in scores] == [9001, 9001]
    assert len(ticks) == stacks(target, 9001) > 1


def test_a_hidden_state_leaks_more_than_its_noise_was_made_for() -> None:
    """FedSPD-DP as published against itself with released state, with the same noise on what is released."""
    hidden, released = (METHODS[name](Setting(STEEP, gamma=1.0, penalty=0.05, grows=False)) for name in (
        "FedSPD-DP as published", "FedSPD-DP from the client's own point",
    ))  # fmt: skip
    claim: Any = Claim(1.0, DELTA)
    found = []
    for algorithm, scale in ((hidden, 1.0), (released, 1.0)):
        moved = 2 * 0.05 / RECORDS / 1.05 * (2 if algorithm is hidden else 1)  # of an upload, of a primal
        noise = 5.0 * moved / float(np.max(algorithm.sensitivity(1, np.array([RECORDS]))))
        target = Target(algorithm, WHOLE_SHARD, None, RECORDS, RECORDS, scale * noise, 15, 2, 1.0)
        found.append(lower_bound(*play_game(target, worst_pair(target), 4000, 0), claim).direct)
    assert found[0] > 3 * found[1] > 0
