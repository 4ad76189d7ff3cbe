"""The soak can fail: what it holds against each other is really compared."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedspd.assemble import prepare_experiment
from fedspd.engine import simulate
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.results import History
from tests.soak import checks
from tests.soak.__main__ import Soak
from tests.support.small_runs import small_run


def test_configurations_hold_or_are_refused() -> None:
    soak = Soak(seed=1)
    for number in range(4):
        soak.try_one(number)
    assert soak.found == []
    assert sum(soak.tried.values()) >= 4


def test_a_plain_engine_agrees_and_one_that_plays_other_noise_does_not() -> None:
    run = prepare_experiment(small_run("fedspd", data__name="breast-cancer")).simulation
    models = simulate(run).models
    checks.require_near("plain", checks.plain_models(run), models, checks.NEAR)
    with pytest.raises(AssertionError, match="off by"):
        checks.require_near("plain", checks.plain_models(replace(run, seed=run.seed + 1)), models, checks.NEAR)
    with pytest.raises(AssertionError, match="off by"):
        checks.require_near("plain", models * (1 + 1e-6), models, checks.NEAR)


@pytest.mark.parametrize("wrong", [0.95, 1.05])
def test_a_statement_that_the_ledger_does_not_bear_out_is_found(tmp_path: Path, wrong: float) -> None:
    create_ledger(path := tmp_path / "ledger.sqlite")
    with Ledger(path) as ledger:
        experiment = prepare_experiment(small_run("fedspd", data__name="breast-cancer"), lambda: ledger)
        outcome = simulate(experiment.simulation, gate=experiment.gate)
    checks.require_statement(experiment, outcome, path)
    columns = outcome.history.columns
    told = History({**columns, "epsilon_max": wrong * np.asarray(columns["epsilon_max"])})
    with pytest.raises(AssertionError, match="the ledger's rows compose to"):
        checks.require_statement(experiment, replace(outcome, history=told), path)
