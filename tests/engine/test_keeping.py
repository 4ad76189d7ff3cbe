"""A run that is cut off after any round goes on to the same bits."""

from pathlib import Path

import numpy as np
import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.engine import Outcome, Simulation, simulate
from fedspd.engine.keeping import Keeper
from fedspd.results import Checkpoints
from tests.support.small_runs import small_run

ROUNDS = 5


def small_simulation(name: str, rounds: int = ROUNDS) -> Simulation:
    asked = {} if name == "one-shot" else {"run__rounds": rounds}
    data = "breast-cancer" if METHODS[name].kind.exact else "digits"
    config = small_run(name, data__name=data, metrics__lagrangian=True, **asked)
    return prepare_experiment(config).simulation


class CutOff(BaseException):
    """As a signal ends a process: nothing gets to tidy up."""


def cut_off_after(run: Simulation, rounds: int, checkpoints: Checkpoints) -> None:
    made = 0

    def count() -> None:
        nonlocal made
        made += 1
        if made == rounds:
            raise CutOff

    with pytest.raises(CutOff):
        simulate(run, count, keeper=Keeper(checkpoints, every=0.0))


def same(left: Outcome, right: Outcome) -> None:
    for column in left.history.columns:
        np.testing.assert_array_equal(left.history[column], right.history[column], err_msg=column)
    np.testing.assert_array_equal(left.models, right.models)
    np.testing.assert_array_equal(left.participations, right.participations)
    assert (left.followed is None) == (right.followed is None)
    if left.followed is not None and right.followed is not None:
        np.testing.assert_array_equal(left.followed.average(ROUNDS), right.followed.average(ROUNDS))
        assert left.followed.largest_norm == right.followed.largest_norm


@pytest.mark.parametrize("name", METHODS)
def test_every_method_goes_on_to_the_same_bits_as_if_nobody_had_cut_it_off(name: str, tmp_path: Path) -> None:
    run = small_simulation(name)
    whole = simulate(run)
    for rounds in sorted({1, run.rounds // 2 or 1, run.rounds}):
        cut_off_after(run, rounds, Checkpoints(tmp_path, f"until-{rounds}"))
        again = simulate(run, keeper=Keeper(Checkpoints(tmp_path, f"until-{rounds}"), every=0.0))
        same(again, whole)


def test_rounds_that_were_kept_are_not_played_again(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    cut_off_after(run, 3, Checkpoints(tmp_path))
    drawn = []

    def draws(round: int, chosen: np.ndarray) -> object:
        drawn.append(round)
        raise CutOff

    with pytest.raises(CutOff):
        simulate(run, drawn=draws, keeper=Keeper(Checkpoints(tmp_path), every=0.0))  # pyright: ignore
    assert drawn == [4]


def test_a_damaged_checkpoint_costs_a_round_and_changes_nothing(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    cut_off_after(run, 4, Checkpoints(tmp_path))
    last = tmp_path / "checkpoint-4"
    last.write_bytes(last.read_bytes()[:-1] + b"?")
    same(simulate(run, keeper=Keeper(Checkpoints(tmp_path), every=0.0)), simulate(run))


def test_a_keeper_waits_its_time_and_a_run_that_is_over_before_writes_nothing(tmp_path: Path) -> None:
    simulate(small_simulation("fedspd"), keeper=Keeper(Checkpoints(tmp_path), every=3600.0))
    assert not list(tmp_path.iterdir())


def test_the_time_of_earlier_attempts_counts(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    cut_off_after(run, 2, Checkpoints(tmp_path))
    keeper = Keeper(Checkpoints(tmp_path), every=0.0)
    simulate(run, keeper=keeper)
    assert keeper.seconds > 0
