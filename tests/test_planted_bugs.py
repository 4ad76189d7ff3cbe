"""Bugs that would break the guarantee, planted one at a time: each must turn a check red that the truth passes.

Every row is a broken twin of something in the package and the check that catches it. The checks
are the ones the suite applies to the real thing.
"""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedspd.algorithms.methods.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.dp_scaffold import DPSCAFFOLD
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.multi_step_dp_admm import MultiStepDPADMM
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.audit.replay import Shard, attack, replay, unit_draws
from fedspd.data import Category, Shards, Table, split
from fedspd.engine import simulate, stream
from fedspd.engine.draws import NOBODY, whole_shards
from fedspd.engine.round import play
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling, plan_proved
from fedspd.privacy.accounting import FixedSize, Gaussian, spent
from fedspd.privacy.accounting.events import step_chances
from fedspd.privacy.accounting.groups import at_one_client, at_several_clients
from fedspd.privacy.fifty_digits import gaussian_group
from fedspd.privacy.mechanism import MECHANISMS, gaussian, objective
from fedspd.privacy.second_accountant import second_epsilon
from fedspd.problem import Objective, Softmax, SquaredHinge, Unregularized
from fedspd.typing import Query, Release
from tests.algorithms.test_computed_minimizers import leaked, with_the_first_again, without_gaussian
from tests.algorithms.test_exactness import balanced
from tests.algorithms.test_ftrl import banded, differences
from tests.algorithms.test_ftrl import method as ftrl
from tests.algorithms.test_objective_noise import DeterminantForgotten, OneShot, worst_loss
from tests.privacy.accounting.test_accounting_tight import two_pairs_apart
from tests.support.algorithms.contract_methods import small_run, small_shards, whole_shard
from tests.support.evaluation_twins import CHECKS as EVALUATION_CHECKS
from tests.support.inference_twins import CHECKS as INFERENCE_CHECKS
from tests.support.ledger.crashes import Order, kill_workers, prepare, violations
from tests.support.persons import CutInTwo, SharesAfterTheSplit, SharesForgotten, person_shows
from tests.support.planted_twins import (
    AbsoluteGoal,
    BatchSizeLost,
    DividedByTheDrawn,
    DividedByTheSteps,
    FactorTwoLost,
    HalfTheGradient,
    HalfTheSensitivity,
    HiddenByTheShard,
    LongSteps,
    LooksInEvenRounds,
    MedianCalledProved,
    OffByTheShard,
    RelaxedOnce,
    StepByRecords,
    StretchedBeforeNoise,
    UnboundedRows,
    UnnoisedDual,
    UnnoisedIterate,
    UnnoisedMinimizer,
    UnnoisedStart,
)
from tests.support.statement_twins import CHECKS as STATEMENT_CHECKS

COLUMNS, BATCH = 2, 20
OBJECTIVE = Objective(Softmax(2), Unregularized(), sqrt(0.5))
STEEP = Objective(Softmax(2), Unregularized(), 0.05)  # gradients are clipped also where a sub-problem is least


def method(kind: type[FedSPD] = FedSPD, local_steps: int = 1, **changes: Any) -> FedSPD:
    base = kind(OBJECTIVE, 1, 0.05, local_steps, 0.25, row_norm=1.0, start_at="own")
    return replace(base, **changes)


def sgd(kind: type[DPSGD] = DPSGD, **changes: Any) -> DPSGD:
    return replace(kind(OBJECTIVE, Constant(0.25)), **changes)


def fedavg(kind: type[DPFedAvg] = DPFedAvg, gamma: float = 0.25) -> DPFedAvg:
    return kind(FedAvg(OBJECTIVE, 5, Constant(gamma)), 1.0)


def admm(kind: type[DPADMM] = DPADMM) -> DPADMM:
    return kind(OBJECTIVE, clients=1, penalty=0.05, schedule=Constant(0.25))


def primal(kind: type[DDPADMMPrimal] = DDPADMMPrimal) -> DDPADMMPrimal:
    return kind(STEEP, Network(2), 0.3, 1.0)


def recycled(kind: type[DPRADMM] = DPRADMM) -> DPRADMM:
    return kind(STEEP, Network(2), 0.3, 1.0, 1.0)


def relaxed(kind: type[PrivateADMM] = PrivateADMM) -> PrivateADMM:
    return kind(STEEP, 2, 0.3, 1.0, 0.9)


def tiny(kind: type[PrivateADMM] = PrivateADMM) -> PrivateADMM:
    """Rows and gradients of 1e-10."""
    return kind(Objective(SquaredHinge(), Unregularized(), 1e-10), 2, 0.3, 1e-10)


def multi_step() -> MultiStepDPADMM:
    return MultiStepDPADMM(OBJECTIVE, 1, 0.05, 5, Constant(0.25))


def scaffold() -> DPSCAFFOLD:
    return DPSCAFFOLD(OBJECTIVE, 1, 5, Constant(0.25))


def worst_replay(algorithm: Any, twice: bool = False, joined: int = BATCH) -> tuple[bool, bool, bool]:
    """Over flat and curved shards: does the query move too far, does anything else depend on the record, do two
    releases of a round?"""
    steps = algorithm.local_steps
    too_far = differs = several = False
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((steps * BATCH, COLUMNS))
        rows *= 0.0 if seed == 0 else 1 / np.linalg.norm(rows, axis=1, keepdims=True)
        if seed == 1:  # the second batch is all on one line: if steep, it throws the two runs far past each other
            rows[:] = np.arange(len(rows))[:, None] // BATCH == 1
            rows *= np.eye(COLUMNS)[0]
        shard = Shard(rows, rng.integers(0, 2, len(rows)))
        unit = np.eye(COLUMNS)[0]
        first = shard.with_record(0, unit, 0)
        second = shard.with_record(0, unit if algorithm.relation == "replace-one" else 0 * unit, 1)
        drawn = np.arange(steps * BATCH).reshape(steps, BATCH)[:, :joined]
        if twice:
            drawn[-1, -1] = 0
        servers = np.zeros((4, COLUMNS, 2)) if seed < 2 else rng.standard_normal((4, COLUMNS, 2))
        normals = unit_draws(rng, algorithm, 4, COLUMNS)
        found = replay(algorithm, first, second, [drawn] * 4, servers, normals, divisor=float(BATCH))
        too_far |= found.worst_ratio > 1 + 1e-9
        differs |= found.state_differs
        several |= found.most_moved > 1
    return too_far, differs, several


def more_is_counted_on(directions: int, times: int) -> bool:
    """Whether a run refuses a plan that counts on so many directions, and so many times the weights there are."""
    algorithm = DDPADMMDual(OBJECTIVE, Network(5), 0.3, 1.0)
    shards, _ = small_shards()
    sizes, weights = np.asarray(shards.sizes), 2 * shards.features.shape[1]
    draws = replace(whole_shard(algorithm, sizes), directions=directions, dimension=times * weights)
    try:
        simulate(small_run(algorithm, plan_proved(4.0, 1e-5, draws, sizes, 2)))
    except RuntimeError:
        return True
    return False


def determinant_is_left_out(counted: float) -> bool:
    """Whether the engine refuses a plan that counts so much of the determinant of noise on the dual."""
    algorithm = DDPADMMDual(OBJECTIVE, Network(5), 0.3, 1.0)
    sizes = np.asarray(small_shards()[0].sizes)
    sampling = whole_shard(algorithm, sizes)
    plan = plan_proved(2.0, 1e-5, replace(sampling, jacobian=counted * sampling.jacobian), sizes, 2)
    try:
        small_run(algorithm, plan)
    except RuntimeError:
        return True
    return False


def uses_are_undercharged(blocks: int) -> bool:
    """Whether a record's uses move what the noise of DP-FTRL hides further than as many events allow as are charged."""
    algorithm, turns = ftrl(3, clip_norm=0.05), 12
    blank = Shard(np.zeros((9, 3)), np.zeros(9, int))
    first, second = (blank.with_record(0, np.eye(3)[0], label) for label in (0, 1))
    moved = np.linalg.norm(banded(3, turns) @ differences(algorithm, first, second, np.zeros((turns, 3, 2))))
    charged = RecordSampling(WHOLE_SHARD, blocks=blocks).charges(turns)
    return bool(moved > sqrt(charged) * algorithm.sensitivity(1, 9.0) * (1 + 1e-9))


def noise_is_wrong(mechanism: Callable[..., Release], scale: float) -> bool:
    normals = stream(0, "noise").standard_normal((1, 50_000, 2))
    released = np.asarray(mechanism(Query(np.zeros_like(normals), np.zeros(1)), scale, normals).value)
    statistic = float(np.sum((released / scale) ** 2))
    return not stats.chi2(released.size).ppf(1e-6) < statistic < stats.chi2(released.size).ppf(1 - 1e-6)


def variance_for_deviation(query: Query, scale: Any, normals: Any) -> Release:
    return Release(query.value + scale**2 * normals)


def rate_is_wrong(records_claimed: int, records: int = 325, batch: int = 50) -> bool:
    """A plan made for another shard size is caught by the true event's cost."""
    plan = plan_proved(1.0, 1e-5, RecordSampling(WITHOUT_REPLACEMENT, batch), np.array([records_claimed]), 20)
    true_cost = spent([(FixedSize(float(plan.noise_multipliers[0]), records, batch), 20)], 1e-5)
    return true_cost.epsilon > 1.0


def steps_are_undercharged(contraction: float) -> bool:
    """Of a last iterate all steps weigh alike: on gradients that never change it is the sum over all of them.

    So an adversary reaches what it does against one step on as many records.
    """
    plan = plan_proved(1.0, 1e-5, RecordSampling(WITHOUT_REPLACEMENT, 10, 5, contraction), np.array([325]), 20)
    realized = spent({FixedSize(float(plan.noise_multipliers[0]), 325, 50): 20}, 1e-5).lower_bound
    assert realized is not None
    return realized > 1.0


def positions_are_undercharged(contraction: float) -> bool:
    """The same on whole shards, of which a last iterate is a plain Gaussian release."""
    plan = plan_proved(1.0, 1e-5, RecordSampling(WHOLE_SHARD, None, 5, contraction), np.array([325]), 20)
    return spent({Gaussian(float(plan.noise_multipliers[0])): 20}, 1e-5).epsilon > 1.0


def contraction_is_refused(algorithm: Any, contraction: float) -> bool:
    """Whether a run refuses a plan that counts on so much contraction."""
    sizes = np.asarray(small_shards()[0].sizes)
    plan = plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD, None, algorithm.local_steps, contraction), sizes, 2)
    try:
        small_run(algorithm, plan)
    except RuntimeError:
        return True
    return False


def steps_are_known(deal: Callable[..., np.ndarray], size: int = 23, steps: int = 5) -> bool:
    """Whether record 0 of a whole shard is in some step more often than the accounting has it."""
    dealt = [deal(stream(0, "records", round), np.array([size]), steps)[0] for round in range(2000)]
    counts = np.bincount([int(np.argmax((batches == 0).any(axis=1))) for batches in dealt], minlength=steps)
    return bool(stats.chisquare(counts, 2000 * np.array(step_chances(size, steps))).pvalue < 1e-6)


def dealt_by_number(rng: Any, sizes: np.ndarray, steps: int) -> np.ndarray:
    """A whole shard that is never shuffled."""
    dealt = np.full((1, -(-int(sizes[0]) // steps) * steps), NOBODY)
    dealt[0, : sizes[0]] = np.arange(sizes[0])
    return dealt.reshape(1, -1, steps).swapaxes(1, 2)


def is_refused(algorithm: Any) -> bool:
    """Whether a round refuses to be played."""
    server, client, _ = algorithm.start(np.zeros((1, COLUMNS, 2)))
    batches = Shard(np.eye(COLUMNS), np.array([0, 1])).batches(np.array([[0, 1]]))
    try:
        told = algorithm.broadcast(server, 1)
        play(
            algorithm,
            told,
            client,
            batches,
            lambda query, draws: MECHANISMS["gaussian"](query, 0.1, draws),
            np.zeros(1),
        )
    except RuntimeError:
        return True
    return False


def noise_is_reused(seeds_and_rounds: list[tuple[int, int]]) -> bool:
    """Whether two releases on different data share their noise."""
    draws = [stream(seed, "noise", round).standard_normal(8).tobytes() for seed, round in seeds_and_rounds]
    return len(set(draws)) < len(draws)


def falls_below_the_realized(epsilon: Callable[[FixedSize, int, float], float]) -> bool:
    """Whether an accountant claims less than an adversary is known to reach."""
    event, rounds, delta = FixedSize(5.03, 325, 50), 20, 1e-4
    realized = spent({event: rounds}, delta).lower_bound
    assert realized is not None
    return epsilon(event, rounds, delta) < realized


def crash_leaves_a_debt(order: Order, debt: str) -> bool:
    """Kill real processes at random moments: was anything released that the ledger does not know or allow?"""
    with TemporaryDirectory() as folder:
        path, releases = Path(folder) / "ledger", Path(folder) / "releases"
        prepare(path)
        for attempt in range(10):
            kill_workers(path, releases, order, kills=20, seed=attempt)
            if any(violation.startswith(debt) for violation in violations(path, releases)):
                return True
            if order == "charge, then release":
                break  # the truth is killed 200 times in tests/privacy/ledger
    return False


def counted_twice(deal: Callable[..., Shards]) -> bool:
    """Whether some person has records at two clients, and so a budget at each."""
    person = np.repeat(np.arange(20), 5)
    table = Table(
        np.ones((100, 1)), person % 2, ("a",), ("no", "yes"), persons=Category(person, tuple("abcdefghijklmnopqrst"))
    )
    shards = deal(table, "iid", 4, np.random.default_rng(0), "person")
    assert shards.order is not None
    clients = np.repeat(np.arange(4), shards.rows)
    return len(set(zip(clients.tolist(), person[shards.order].tolist(), strict=True))) > 20


def group_is_undercharged(factor: float, clients: int) -> bool:
    """Whether four records at so many clients, with distances of so many times one, cost more than is stated."""
    one = spent({Gaussian(9.0): 4}, 1e-5).epsilon
    bound = (at_one_client if clients == 1 else at_several_clients)(one, 1e-5, 4, gaussian=True)
    stated = gaussian_group(one, 1e-5, factor)
    assert bound is not None
    return stated < 0.999 * bound.epsilon


def accountants_contradict(claimed: Callable[[FixedSize, int, float], float]) -> bool:
    """Whether the second accountant finds that more was spent than a first one says."""
    event = FixedSize(2.0, 40, 20)
    return second_epsilon({event: 30}, 1e-5).exceeds(claimed(event, 30, 1e-5))


CHECKS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    # what was planted: (the check on the truth, the check on the bug); a check says whether it is red
    **EVALUATION_CHECKS,
    **INFERENCE_CHECKS,
    **STATEMENT_CHECKS,
    "noise on the upload but the un-noised dual is kept": (
        lambda: worst_replay(method())[1],
        lambda: worst_replay(method(UnnoisedDual))[1],
    ),
    "local steps begin at the un-noised iterate": (
        lambda: worst_replay(method())[1],
        lambda: worst_replay(method(UnnoisedStart))[1],
    ),
    "the factor 2 of replace-one is lost": (
        lambda: worst_replay(method())[0],
        lambda: worst_replay(method(FactorTwoLost))[0],
    ),
    "the 1/b of the batch is lost": (
        lambda: worst_replay(method())[0],
        lambda: worst_replay(method(BatchSizeLost))[0],
    ),
    "the step depends on the client's records": (
        lambda: worst_replay(method())[0],
        lambda: worst_replay(method(StepByRecords))[0],
    ),
    "steps are stretched before noise is added": (
        lambda: worst_replay(method())[0],
        lambda: worst_replay(method(StretchedBeforeNoise))[0],
    ),
    "a record is drawn twice in a round": (
        lambda: worst_replay(method(local_steps=5))[0],
        lambda: worst_replay(method(local_steps=5), twice=True)[0],
    ),
    "rows are left unbounded with several local steps": (
        lambda: worst_replay(method(local_steps=5))[0],
        lambda: worst_replay(method(UnboundedRows, local_steps=5))[0],
    ),
    "DP-ADMM carries the un-noised iterate": (
        lambda: worst_replay(admm())[1],
        lambda: worst_replay(admm(UnnoisedIterate))[1],
    ),
    "DP-SGD divides by the number of records that joined": (
        lambda: worst_replay(sgd(relation="zero-out"), joined=5)[0],
        lambda: worst_replay(sgd(DividedByTheDrawn, relation="zero-out"), joined=5)[0],
    ),
    "DP-SGD loses the factor 2 of replace-one": (
        lambda: worst_replay(sgd())[0],
        lambda: worst_replay(sgd(HalfTheGradient))[0],
    ),
    "median clipping is passed off as proved": (
        lambda: is_refused(sgd()),
        lambda: is_refused(MedianCalledProved(sgd())),
    ),
    "DP-FedAvg divides its sensitivity by the local steps": (
        lambda: worst_replay(fedavg())[0],
        lambda: worst_replay(fedavg(DividedByTheSteps))[0],
    ),
    "DP-FedAvg takes steps longer than 2/L": (
        lambda: worst_replay(fedavg())[0],
        lambda: worst_replay(fedavg(LongSteps, gamma=0.1))[0],
    ),
    "the steps of DP-FedAvg are charged like those of an average": (
        lambda: steps_are_undercharged(0.0),
        lambda: steps_are_undercharged(1.0),
    ),
    "whole shards of DP-FedAvg are charged for a random step of an average": (
        lambda: positions_are_undercharged(0.0),
        lambda: positions_are_undercharged(1.0),
    ),
    "a plan counts on a contraction that DP-FedAvg does not have": (
        lambda: contraction_is_refused(fedavg(), 0.0),
        lambda: contraction_is_refused(fedavg(), 0.5),
    ),
    "a plan counts on more contraction than FedSPD-DP has": (
        lambda: contraction_is_refused(method(local_steps=5, inverse_step=0.5, crowding=2.0), 0.5 / 0.55),
        lambda: contraction_is_refused(method(local_steps=5, inverse_step=0.5, crowding=2.0), 0.95),
    ),
    "a whole shard is dealt out to its steps without a shuffle": (
        lambda: steps_are_known(whole_shards),
        lambda: steps_are_known(dealt_by_number),
    ),
    "DDP-ADMM with noise on the dual leaves determinants out of its plan": (
        lambda: determinant_is_left_out(1.0),
        lambda: determinant_is_left_out(0.0),
    ),
    "the plane in which a replaced record moves a gradient is counted as a line": (
        lambda: more_is_counted_on(directions=2, times=1),
        lambda: more_is_counted_on(directions=1, times=1),
    ),
    "noise is counted on in more dimensions than there are weights": (
        lambda: more_is_counted_on(directions=2, times=1),
        lambda: more_is_counted_on(directions=2, times=2),
    ),
    "noise in the objective is charged like noise on a query": (
        lambda: worst_loss(OneShot) > 1,
        lambda: worst_loss(DeterminantForgotten) > 1,
    ),
    "noise in the objective loses the factor 2 of replace-one": (
        lambda: worst_loss(OneShot) > 1,
        lambda: worst_loss(HalfTheSensitivity) > 1,
    ),
    "a solver is farther off than the second noise hides": (
        lambda: not attack(OffByTheShard(STEEP, 1.0, 1.0, off=0.95), 1.0).survived,
        lambda: not attack(OffByTheShard(STEEP, 1.0, 1.0, off=1.05), 1.0).survived,
    ),
    "the second noise is as large as the records say": (
        lambda: not attack(OneShot(STEEP, 1.0, 1.0), 1.0).survived,
        lambda: not attack(HiddenByTheShard(STEEP, 1.0, 1.0), 1.0).survived,
    ),
    "the second noise is forgotten": (
        lambda: leaked(objective) > 1.05,
        lambda: leaked(without_gaussian) > 1.05,
    ),
    "the second noise is the first one again": (
        lambda: leaked(objective) > 1.05,
        lambda: leaked(with_the_first_again) > 1.05,
    ),
    "DDP-ADMM with noise on the primal carries the un-noised minimizer": (
        lambda: worst_replay(primal())[1],
        lambda: worst_replay(primal(UnnoisedMinimizer))[1],
    ),
    "free rounds of DP-RADMM look at records": (
        lambda: worst_replay(recycled())[1],
        lambda: worst_replay(recycled(LooksInEvenRounds))[1],
    ),
    "DP-FTRL is charged once for all uses of a record": (
        lambda: uses_are_undercharged(3),
        lambda: uses_are_undercharged(12),
    ),
    "batches of multi-step DP-ADMM overlap": (
        lambda: worst_replay(multi_step())[2],
        lambda: worst_replay(multi_step(), twice=True)[2],
    ),
    "batches of DP-SCAFFOLD overlap": (
        lambda: worst_replay(scaffold())[2],
        lambda: worst_replay(scaffold(), twice=True)[2],
    ),
    "Private ADMM loses the factor 2 of its relaxed step": (
        lambda: worst_replay(relaxed())[0],
        lambda: worst_replay(relaxed(RelaxedOnce))[0],
    ),
    "sub-problems are solved to an absolute goal": (
        lambda: balanced(tiny()) > 1,
        lambda: balanced(tiny(AbsoluteGoal)) > 1,
    ),
    "the variance is used as the deviation": (
        lambda: noise_is_wrong(gaussian, 0.3),
        lambda: noise_is_wrong(variance_for_deviation, 0.3),
    ),
    "the accountant is fed the wrong rate": (
        lambda: rate_is_wrong(325),
        lambda: rate_is_wrong(400),
    ),
    "the same noise is drawn again after a resume": (
        lambda: noise_is_reused([(0, 1), (0, 2), (1, 1), (1, 2)]),
        lambda: noise_is_reused([(0, 1), (0, 2), (0, 1), (0, 2)]),
    ),
    "the two pairs of fixed-size sampling are composed apart": (
        lambda: falls_below_the_realized(lambda event, rounds, delta: spent({event: rounds}, delta).epsilon),
        lambda: falls_below_the_realized(two_pairs_apart),
    ),
    "several records of one client are counted as if at several": (
        lambda: group_is_undercharged(4.0, clients=1),
        lambda: group_is_undercharged(2.0, clients=1),
    ),
    "records at several clients are counted once": (
        lambda: group_is_undercharged(2.0, clients=4),
        lambda: group_is_undercharged(1.0, clients=4),
    ),
    "a statement's epsilon is that of an accountant which is wrong": (
        lambda: accountants_contradict(lambda event, rounds, delta: spent({event: rounds}, delta).epsilon),
        lambda: accountants_contradict(lambda event, rounds, delta: spent({event: rounds - 2}, delta).epsilon),
    ),
    "the ledger is written after the release": (
        lambda: crash_leaves_a_debt("charge, then release", "released without a row"),
        lambda: crash_leaves_a_debt("look, release, then charge", "released without a row"),
    ),
    "every row of a person weighs as much as a record": (
        lambda: person_shows(method()),
        lambda: person_shows(method(), SharesForgotten),
    ),
    "shares of a person are computed after the split into batches": (
        lambda: person_shows(method()),
        lambda: person_shows(method(), SharesAfterTheSplit),
    ),
    "a person is cut in two": (
        lambda: person_shows(multi_step()),
        lambda: person_shows(multi_step(), CutInTwo),
    ),
    "a person is dealt to two clients and counted at both": (
        lambda: counted_twice(split),
        lambda: counted_twice(lambda table, *how: split(replace(table, persons=None), *how[:3])),
    ),
    "the budget is checked after the release": (
        lambda: crash_leaves_a_debt("charge, then release", "released beyond the budget"),
        lambda: crash_leaves_a_debt("release, then charge", "released beyond the budget"),
    ),
}


@pytest.mark.parametrize("bug", CHECKS)
def test_the_truth_is_green_and_the_planted_bug_is_red(bug: str) -> None:
    on_truth, on_bug = CHECKS[bug]
    assert not on_truth()
    assert on_bug()


# Two more stand where their machinery lives: the same noise after a resume, on a real ledger, in
# tests/engine/test_budgets.py, and scaling that skips the noise, in tests/assemble/test_private_scaling.py.
