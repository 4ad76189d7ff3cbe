"""The third engine: a deployed run is, number for number, the simulated one that is handed the same draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import agree
from fedspd.data import Shards, Table, finish, read_table
from fedspd.engine import Simulation, simulate, stream
from fedspd.engine.batches import draw_records
from fedspd.engine.draws import NOBODY
from fedspd.engine.numpy_engine import Draws
from fedspd.errors import InputError
from tests.support.deploy.sites import NO_PRIVACY, Federation, federation
from tests.support.deploy.twists import standing

ROUNDS, SITES = 10, 5
STEP, PENALTY = {"algorithm__inverse_step": 4.0}, {"algorithm__penalty": 4.0}
BATCHES = {"algorithm__batch_size": 20}
STEPS = {"algorithm__local_steps": 3}
SOME = {"run__participants": 3}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedspd": ("fedspd", STEP | PENALTY),
    "fedspd from its own weights, several steps, batches": (
        "fedspd", STEPS | BATCHES | STEP | PENALTY | {"algorithm__start": "own"},
    ),
    "fedspd on whole shards in several steps": ("fedspd", STEPS | STEP | PENALTY | SOME),
    "fedspd with poisson batches": ("fedspd", STEPS | BATCHES | STEP | PENALTY | {"algorithm__sampling": "poisson"}),
    "fedspd where every record counts the same": ("fedspd", STEP | PENALTY | {"problem__counts": "records"}),
    "fedspd with some of the sites": ("fedspd", STEP | PENALTY | SOME),
    "fedspd by the mean of all rounds": ("fedspd", STEP | PENALTY | SOME | {"algorithm__averaging": True}),
    "fedspd with the same ones always": ("fedspd", STEP | PENALTY | SOME | {"run__selection": "fixed"}),
    "fedspd-published": ("fedspd-published", STEPS | BATCHES | PENALTY | SOME),
    "dp-sgd": ("dp-sgd", BATCHES | STEP | SOME),
    "noisy-prox-gd": ("noisy-prox-gd", STEP | SOME | {"algorithm__momentum": 0.5}),
    "dp-sgd-published": ("dp-sgd-published", BATCHES | STEP | {"problem__clip_norm": None}),
    "dp-fedavg": ("dp-fedavg", STEPS | BATCHES | STEP | SOME),
    "dp-fedavg-published": ("dp-fedavg-published", STEPS | BATCHES | STEP),
    "dp-admm": ("dp-admm", STEP | PENALTY | SOME),
    "dp-admm-published": ("dp-admm-published", PENALTY | SOME),
    "ps-admm": ("ps-admm", BATCHES | STEP | PENALTY | SOME),
    "fedavg": ("fedavg", STEPS | BATCHES | STEP | SOME | NO_PRIVACY),
    "fedprox": ("fedprox", STEPS | BATCHES | STEP | PENALTY | NO_PRIVACY),
    "fedpd": ("fedpd", STEPS | BATCHES | STEP | PENALTY | NO_PRIVACY),
}  # fmt: skip
QUICK = (
    "fedspd",
    "fedspd by the mean of all rounds",
    "fedspd with poisson batches",
    "fedspd with some of the sites",
    "dp-fedavg",
    "dp-admm",
    "ps-admm",
)
LITTLE_NOISE: dict[str, Any] = {"privacy__epsilon": 80.0}
"""A site adds to its noise what rounding may do to its query, a simulation does not: here that is below 1e-12."""


def deployed(folder: Path, method: str, changes: dict[str, Any]) -> Federation:
    return federation(
        folder, SITES, 61, protected=False,
        **(LITTLE_NOISE | {"federation__fixed_draws": True, "run__rounds": ROUNDS, "run__seed": 3} | changes),
        algorithm__name=method,
    )  # fmt: skip


def simulated(made: Federation) -> np.ndarray:
    """The same run by the engine, on the sites' own tables and with the sites' own draws."""
    config, schema = made.settings.for_sites(SITES), made.schema
    tables = [read_table(path.parent / "records.csv", schema) for path in made.sites]
    width, norm = len(schema.columns), config.data.row_norm
    assert norm is not None
    rows = np.concatenate([table.features for table in tables])
    features = finish(rows, np.zeros(width), np.ones(width), config.data.bias, norm)
    labels = np.concatenate([table.labels for table in tables])
    offsets = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
    shards = Shards(features, labels, offsets, None, config.problem.counts)  # pyright: ignore[reportArgumentType]
    agreed = agree(config, shards.holdings, features.shape[1], schema.target)
    simulation = Simulation(
        shards, Table(features, labels, (*schema.columns, "bias"), schema.target.classes), agreed.algorithm,
        agreed.plan, config.algorithm.work.batch_size, config.participants, agreed.rounds, config.seed,
        lagrangian=False,
        same_participants=config.run.selection == "fixed",
    )  # fmt: skip
    return simulate(simulation, drawn=lambda round, chosen: sites_draws(simulation, round, chosen)).weights


def sites_draws(simulation: Simulation, round: int, chosen: np.ndarray) -> Draws:
    """What each site draws from a stream of its own, filled up to the longest batch of them."""
    seed, sizes, algorithm = simulation.seed, simulation.shards.sizes, simulation.algorithm
    each = [
        draw_records(
            stream(seed, "records", round, place), sizes[[place]], simulation.plan.sampling, simulation.batch_size,
            algorithm.local_steps,
        )[0]
        for place in chosen.tolist()
    ]  # fmt: skip
    records = np.full((len(chosen), algorithm.local_steps, max(one.shape[-1] for one in each)), NOBODY)
    for row, one in zip(records, each, strict=True):
        row[:, : one.shape[-1]] = one
    normals = [stream(seed, "noise", round, place).standard_normal(simulation.matrix) for place in chosen.tolist()]
    return Draws(records, np.array(normals))


def test_every_method_that_deploys_is_among_the_runs_below() -> None:
    assert {method for method, _ in SETTINGS.values()} == {name for name in METHODS if METHODS[name].deploys}


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name].deploys])
def test_a_method_that_does_not_deploy_is_refused_before_the_first_round(method: str, tmp_path: Path) -> None:
    step = PENALTY if "penalty" in METHODS[method].keys else STEP
    made = deployed(tmp_path, method, {"problem__regularizer": "squared-l2", "privacy__delta": None} | step)
    with pytest.raises(InputError, match=rf"^a deployed run needs a method .*, got '{method}'; use one of fedspd, "):
        made.serve()


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what in QUICK else pytest.mark.slow) for what in SETTINGS]
)
def test_a_deployed_run_is_the_simulated_one_with_the_same_draws(what: str, tmp_path: Path) -> None:
    made = deployed(tmp_path, *SETTINGS[what])
    model = made.serve()
    expected = simulated(made)
    assert model.round == ROUNDS
    assert np.abs(expected).max() > 1e-3, "it moved"
    assert made.run is not None
    np.testing.assert_allclose(made.run.weights, expected, rtol=1e-12, atol=1e-12)
    if "mean of all" in what:
        assert np.abs(expected - standing(model)).max() > 1e-3, "the last one is another model"
    else:
        np.testing.assert_array_equal(made.run.weights, standing(model))


def test_other_draws_give_another_model(tmp_path: Path) -> None:
    one = deployed(tmp_path / "3", "fedspd", {})
    other = deployed(tmp_path / "4", "fedspd", {"run__seed": 4})
    assert np.abs(one.serve().server[0] - other.serve().server[0]).min() > 1e-6
