"""What a program takes as input: of kin together, the arrays of each alone."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedspd.engine import Simulation
from fedspd.engine.jax_engine.session import installed
from fedspd.engine.numpy_engine import draw_round
from fedspd.engine.participation import plan_course
from fedspd.engine.spending import Spending
from tests.engine.jax_engine.test_arrivals import SETTINGS, away
from tests.engine.jax_engine.test_equal import batched
from tests.engine.test_budgets import proved
from tests.support.algorithms.contract_methods import METHODS, Setting

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")
OURS, PAPERS = "FedSPD-DP", "FedSPD-DP as published"


def without_budget() -> Simulation:
    """The clients of a seed run out of budget in other rounds than those of another."""
    simulation = proved(cap=2, participants=4, rounds=9)
    return replace(simulation, algorithm=METHODS["DP-SGD"](Setting(clients=6)))


def recycling() -> Simulation:
    simulation = batched("DP-RADMM", rounds=5)
    return replace(simulation, spent_every_round=False)


RUNS: dict[str, Any] = {
    "the paper's method": lambda: batched(PAPERS),
    "ours": lambda: batched(OURS),
    "budgets that end": without_budget,
    "free rounds": recycling,
    "members that stay away": lambda: away(SETTINGS["one of three cohorts a round"]),
    "members that stay away from batches": lambda: away(SETTINGS["batches"]),
}


@pytest.mark.parametrize("what", RUNS)
@pytest.mark.parametrize("handed_in", [False, True])
def test_arrays_of_kin_are_those_of_each_alone(what: str, handed_in: bool) -> None:
    import jax

    from fedspd.engine.jax_engine.inputs import program_key
    from fedspd.engine.jax_engine.lanes import Lane, make_inputs, stacked_inputs, taken

    first = RUNS[what]()
    runs = [replace(first, seed=seed) for seed in range(5)]
    lanes = []
    for run in runs:
        course = plan_course(run, Spending(run.plan, run.shards.clients, None, run.spent_every_round))
        drawn = (lambda *turn, run=run: draw_round(run, *turn)) if handed_in else None
        lanes.append(Lane(run, course, drawn))
    shape = program_key(first, np.float64, handed_in)
    together = stacked_inputs(lanes, shape, 7, 1)
    for number, lane in enumerate(lanes):
        alone = make_inputs(lane.simulation, lane.course, shape, 7, 1, lane.drawn)
        jax.tree.map(np.testing.assert_array_equal, taken(together, number), alone)
    assert len({lane.tobytes() for lane in together.turns.client}) > 1 or first.participants == first.shards.clients


def test_kin_differ_in_their_seed_and_in_nothing_else() -> None:
    from fedspd.engine.jax_engine.lanes import kin

    one, weaker = batched(OURS), batched(PAPERS)
    runs = [
        one,
        replace(one, seed=2),
        weaker,
        replace(one, participants=2),
        replace(one, seed=3),
        replace(weaker, seed=2),
    ]
    assert kin(runs) == [[0, 1, 4], [2, 5], [3]]


def test_lanes_of_budgets_that_end_have_other_rounds() -> None:
    """Or the case above would not be one."""
    found = set()
    for seed in range(5):
        run = replace(without_budget(), seed=seed)
        course = plan_course(run, Spending(run.plan, run.shards.clients, None))
        found.add(tuple(turn.round for turn in course.turns))
    assert len(found) > 1


def test_what_kin_have_spent_is_counted_apart() -> None:
    run = without_budget()
    unspent = Spending(run.plan, run.shards.clients, None)
    one, other = unspent.again(), unspent.again()
    plan_course(run, one)
    np.testing.assert_array_equal(vars(other)["participations"], 0)
    assert one.participations.sum() > 0
    assert other.with_budget == other.may_take_part.sum() == 6
    assert (one.epsilon > other.epsilon).all()


def test_records_of_runs_that_are_over_are_not_kept() -> None:
    """Who is where is remembered for the next runs, and depends on how many records there are, not on them."""
    from fedspd.engine.jax_engine.inputs import program_key
    from fedspd.engine.jax_engine.lanes import make_inputs

    run = batched(OURS)
    run = replace(run, shards=replace(run.shards))
    course = plan_course(run, Spending(run.plan, run.shards.clients, None))
    make_inputs(run, course, program_key(run, np.float64, False), 0, 0, None)
    kept = weakref.ref(run.shards)
    del run
    gc.collect()
    assert kept() is None
