"""Members of cohorts that stay away, on the compiled engine: the numbers of the NumPy engine, and no others."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd import config, run
from fedspd.assemble import prepare_experiment
from fedspd.assemble.many import run_many
from fedspd.engine import Simulation, simulate
from fedspd.engine.arrivals import arrivals
from fedspd.engine.jax_engine.session import installed
from fedspd.engine.participation import plan_course
from fedspd.engine.spending import Spending
from fedspd.privacy import ProvedPlan
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.report import privacy_statement
from fedspd.results import Checkpoints
from tests.assemble.test_units import PERSONS
from tests.engine.jax_engine.test_chunks import cut_off_after, in_chunks
from tests.engine.jax_engine.test_equal import assert_same, compiled
from tests.engine.test_keeping import same

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")

SUMS: dict[str, Any] = {
    "privacy.trust": "secure-sums", "privacy.colluders": 0, "run.absence": 0.4, "run.rounds": 6, "run.seed": 0,
    "metrics.criterion": False, "data.encode": "declared",
}  # fmt: skip
ROTATING = SUMS | {
    "data.name": "breast-cancer", "partition.clients": 12, "run.participants": 4, "privacy.threshold": 3,
}  # fmt: skip
ALL = ROTATING | {"run.participants": 12, "privacy.cohorts": 3}
ONE = ROTATING | {"run.participants": 12, "privacy.threshold": 8, "run.absence": 0.3}
UNEQUAL = {"partition.kind": "dirichlet", "partition.alpha": 0.5, "partition.at_least": 5}
# by rule gradients are clipped to what they have at the start, and rounding decides how many are longer
BY_PERSON = PERSONS | SUMS | {"privacy.threshold": 4, "problem.clip_norm": 0.5}
BY_CLIENT = ALL | {"privacy.unit": "client", "privacy.delta": 1e-3}
SETTINGS: dict[str, dict[str, Any]] = {
    "one cohort": ONE,
    "one of three cohorts a round": ROTATING,
    "all of three cohorts": ALL | UNEQUAL,
    "batches": ALL | UNEQUAL | {"algorithm.batch_size": 8},
    "persons": BY_PERSON,
    "persons in batches": BY_PERSON | {"algorithm.batch_size": 100},
    "clients": BY_CLIENT,
    "clients with local steps": BY_CLIENT | {"algorithm.name": "dp-fedavg", "algorithm.local_steps": 2},
    "dp-sgd": ALL | {"algorithm.name": "dp-sgd"},
    "noisy-prox-gd": ALL | {"algorithm.name": "noisy-prox-gd"},
}

FLOAT32 = " Computed in float32, whose normals have compact support: for experiments only."
OF_AN_ENGINE = {"engine", "precision", "wall_seconds"}
OF_ITS_DRAWS = {"alfv", "clipped_share", "consensus_error", "objective", "weights_norm"}
QUICK = ("one of three cohorts a round", "all of three cohorts", "clients with local steps")


def away(settings: dict[str, Any], **changes: Any) -> Simulation:
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    return prepare_experiment(config.load("proved", settings | changes)).simulation


def heard(simulation: Simulation) -> list[list[int]]:
    """Cohorts whose sum arrived, in each round."""
    turns = plan_course(simulation, Spending(simulation.plan, simulation.shards.clients, None)).turns
    found = arrivals(simulation, turns)
    assert found is not None
    return [each.chosen.tolist() for each in found]


def compiled_quickly(what: str) -> Any:
    """Each program takes seconds to compile; some are enough for a quick look."""
    return pytest.param(what, marks=() if what in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("what", [compiled_quickly(what) for what in SETTINGS])
def test_given_the_same_draws_members_that_stay_away_make_no_difference_between_engines(what: str) -> None:
    simulation = away(SETTINGS[what])
    assert min(map(len, heard(simulation))) == 0, "rounds in which no cohort is heard are what this test is about"
    one, two = simulate(simulation), compiled(simulation)
    assert_same(one, two, 1e-9)
    assert (one.participations.sum(), len(one.models)) == (6 * simulation.participants, 6), "all stay charged"


def test_a_cohort_that_never_answered_is_left_out_on_both_engines() -> None:
    simulation = away(ROTATING)
    silent = {0, 1, 2} - {cohort for each in heard(simulation) for cohort in each}
    assert silent, "cohorts that never answer are what this test is about"
    one, two = simulate(simulation), compiled(simulation)
    assert one.participations[list(silent)].min() > 0
    np.testing.assert_array_equal(two.participations, one.participations)
    still = [number for number, each in enumerate(heard(simulation)) if not each]
    for models in (one.models, two.models):
        before = np.concatenate([np.zeros((1, *models.shape[1:])), models[:-1]])
        np.testing.assert_array_equal(models[still], before[still])
        assert np.abs(np.diff(models, axis=0)).max() > 0


class Quiet(ProvedPlan):
    """Without noise, both engines' own draws can be compared."""

    def noise_scale(self, clients: np.ndarray, sensitivity: Any) -> Any:
        return 0 * super().noise_scale(clients, sensitivity)


def quiet(simulation: Simulation) -> Simulation:
    plan: Any = simulation.plan
    return replace(simulation, plan=Quiet(**{key.name: getattr(plan, key.name) for key in fields(plan)}))


@pytest.mark.parametrize("what", [compiled_quickly(what) for what in ("one cohort", "all of three cohorts", "persons")])
def test_a_program_leaves_out_the_records_of_those_who_stay_away(what: str) -> None:
    simulation = quiet(away(SETTINGS[what]))
    one, two = simulate(simulation), compiled(simulation, own_draws=True)
    assert_same(one, two, 1e-9)
    full = simulate(replace(simulation, members=replace(simulation.members, absence=0.0)))  # pyright: ignore
    assert np.abs(full.models - one.models).max() > 1e-3


def test_absence_may_be_varied_in_a_sweep() -> None:
    configs = [
        config.load("proved", changes | {"run.absence": absence, "run.engine": "jax"})
        for changes in (ALL, ALL | {"algorithm.batch_size": 8})
        for absence in (0.0, 0.4)
    ]
    together = dict(run_many(configs))
    for number, one in enumerate(configs):
        alone = run(config.changed(one, {"run.engine": "numpy"}))
        for name in ("participants", "noise_scale", "epsilon_max"):
            np.testing.assert_allclose(together[number].history[name], alone.history[name], rtol=1e-6, err_msg=name)
        if number >= 2:  # batches of members are drawn for both engines alike
            np.testing.assert_allclose(together[number].weights, alone.weights, rtol=2e-5, atol=1e-6)


def test_engines_agree_on_what_is_charged_and_stated(tmp_path: Path) -> None:
    found = []
    for engine in ("numpy", "jax"):
        create_ledger(path := tmp_path / f"{engine}.sqlite")
        with Ledger(path) as ledger:
            finished = run("proved", ROTATING | {"run.engine": engine}, ledger=ledger)
            charges = [(each.client, each.mechanism, each.times, each.event) for each in ledger.charges()]
        summary = finished.summary.to_dict()
        told = {key for key in summary.keys() - OF_AN_ENGINE - OF_ITS_DRAWS if not key.startswith("test_")}
        statement = privacy_statement(finished.summary)
        found.append((sorted(charges, key=str), statement.replace(FLOAT32, ""), {key: summary[key] for key in told}))
    assert found[0] == found[1]
    assert len(found[0][0]) > 12


@pytest.mark.slow
def test_a_run_with_absence_that_was_cut_off_between_chunks_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    simulation = away(ALL)
    cut_off_after(simulation, 3, checkpoints := Checkpoints(tmp_path, "cut"))
    whole = in_chunks(simulation, Checkpoints(tmp_path, "whole"))
    same(in_chunks(simulation, checkpoints), whole)
    alone = compiled(simulation, np.float32, own_draws=True)
    np.testing.assert_allclose(whole.models, alone.models, rtol=1e-4, atol=1e-5)
