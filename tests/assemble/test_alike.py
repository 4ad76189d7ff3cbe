"""Runs that are prepared together are prepared as each alone."""

import gc
import weakref
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.assemble.alike import LOT, alike, lots
from fedspd.assemble.build import Experiment
from fedspd.config import Config
from tests.support.small_runs import small_run

DEALT = {"partition__seed": 3}  # one deal for all seeds


def seeds(name: str, **changes: Any) -> list[tuple[int, Config]]:
    return list(enumerate(small_run(name, run__seed=seed, **changes) for seed in (0, 1, 2)))


def prepared(numbered: list[tuple[int, Config]]) -> list[Experiment]:
    found = [each for lot in lots(numbered) for each in lot]
    assert [number for number, _ in found] == [number for number, _ in numbered]
    return [experiment for _, experiment in found]


def assert_equal(one: Any, other: Any) -> None:
    """Down to the numbers of every table."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple):
        for part, its in zip(one, other, strict=True):
            assert_equal(part, its)
    else:
        assert one == other


@pytest.mark.parametrize("name", METHODS)
def test_seeds_that_are_prepared_together_are_prepared_as_each_alone(name: str) -> None:
    numbered = seeds(name, **DEALT)
    for experiment, (_, config) in zip(prepared(numbered), numbered, strict=True):
        assert_equal(experiment, prepare_experiment(config))


def test_where_the_seed_decides_who_holds_which_record_each_run_has_its_own_deal() -> None:
    numbered = seeds("fedspd-published")
    for experiment, (_, config) in zip(prepared(numbered), numbered, strict=True):
        assert_equal(experiment, prepare_experiment(config))


def test_seeds_of_one_deal_share_records_method_and_plan() -> None:
    """Or a sweep would spend its time on preparing the same thing again."""
    first, *others = (experiment.simulation for experiment in prepared(seeds("fedspd-published", **DEALT)))
    for other in others:
        assert other == replace(first, seed=other.seed)
        assert other.algorithm is first.algorithm
        assert other.plan is first.plan


def test_a_table_that_many_runs_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = seeds("fedspd-published", **DEALT)
    size = prepare_experiment(numbered[0][1]).simulation.shards.features.nbytes
    monkeypatch.setattr("fedspd.assemble.alike.TABLES", 2 * size - 1)
    assert [len(lot) for lot in lots(numbered)] == [3]
    assert [len(lot) for lot in lots(seeds("fedspd-published"))] == [1, 1, 1]
    assert LOT > 672, "the paper's grid is one lot"


@pytest.mark.slow
@pytest.mark.lengthy
def test_tables_of_lots_that_were_run_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or many deals would fill the memory that lots are cut for; the last two deals are remembered elsewhere."""
    monkeypatch.setattr("fedspd.assemble.alike.TABLES", 1)
    deals = [
        small_run("fedspd-published", partition__seed=deal, run__seed=seed) for deal in range(6) for seed in (0, 1)
    ]
    seen: list[Any] = []
    for lot in lots(list(enumerate(deals))):
        seen.append(weakref.ref(lot[0][1].simulation.shards))
        del lot
        gc.collect()
        # beside the two, those of a lot and of the run that did not fit into it
        assert len({id(one()) for one in seen if one() is not None}) <= 4
    assert len(seen) == len(deals), "one run a lot"


def test_yes_is_not_taken_for_the_number_one_which_may_differ() -> None:
    settings = [{"data__bias": 0.0}, {"data__bias": 1.0}]
    settings += [{"metrics__spent_every_round": every, "metrics__objective_every": 7} for every in (False, True)]
    numbered = list(enumerate(small_run("fedspd-published", **changes) for changes in settings))
    assert sorted(sorted(number for number, _ in group) for group in alike(numbered)) == [[0, 1], [2], [3]]


def test_runs_are_alike_that_differ_in_seeds_and_numbers_alone() -> None:
    settings = [
        {},
        {"run__seed": 1},
        {"privacy__epsilon": 2.0},
        {"algorithm__penalty": 0.5},
        {"algorithm__local_steps": 2},
    ]
    numbered = list(enumerate(small_run("fedspd-published", **changes) for changes in settings))
    numbered.append((5, small_run("fedspd", run__seed=1)))
    assert sorted(sorted(number for number, _ in group) for group in alike(numbered)) == [[0, 1, 2, 3], [4], [5]]
