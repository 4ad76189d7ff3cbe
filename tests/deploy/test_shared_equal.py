"""Sites that share noise: the deployed run is the simulated one of a single cohort that is handed the same draws."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.assemble import agree
from fedspd.assemble.cohorts import cohorts_of
from fedspd.data import Holdings, Shards, Table, finish, read_table
from fedspd.deploy.masks.fixed_point import decode, encode
from fedspd.deploy.protocol.sums import moments_of, moments_part, round_part
from fedspd.deploy.site import client as client_module
from fedspd.engine import Simulation, simulate, stream
from fedspd.engine.batches import draw_records
from fedspd.engine.numpy_engine import Draws
from fedspd.typing import Release
from tests.deploy.masks.test_secure import silent_at
from tests.support.deploy.shared import pooled_query, sharing
from tests.support.deploy.sites import Federation
from tests.support.deploy.twists import standing

ROUNDS, SITES = 6, 5
STEP = {"algorithm__inverse_step": 4.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "fedspd": STEP | {"algorithm__penalty": 4.0},
    "fedspd with an l1 norm and momentum": STEP
    | {"algorithm__penalty": 4.0, "algorithm__momentum": 0.5, "problem__regularizer": "l1", "problem__strength": 0.05},
    "fedspd with batches": STEP | {"algorithm__penalty": 4.0, "algorithm__batch_size": 30},
    "fedspd with batches of any length": STEP
    | {"algorithm__penalty": 4.0, "algorithm__batch_size": 30, "algorithm__sampling": "poisson"},
    "noisy-prox-gd with momentum": STEP
    | {"algorithm__name": "noisy-prox-gd", "algorithm__momentum": 0.5, "problem__strength": 0.01},
    "dp-sgd with batches": STEP | {"algorithm__name": "dp-sgd", "algorithm__batch_size": 40},
    "dp-sgd": STEP | {"algorithm__name": "dp-sgd", "problem__regularizer": "l1", "problem__strength": 0.05},
}


def deployed(folder: Path, **changes: Any) -> Federation:
    fixed = {"federation__fixed_draws": True, "privacy__epsilon": 80.0, "run__rounds": ROUNDS, "run__seed": 3}
    return sharing(folder, SITES, protected=False, **(fixed | changes))


def simulated(made: Federation) -> np.ndarray:
    """The same run by the engine: one client, which holds the records of all sites."""
    config, schema = made.settings.for_sites(SITES), made.schema
    tables = [read_table(path.parent / "records.csv", schema) for path in made.sites]
    width, norm = len(schema.columns), config.data.row_norm
    assert norm is not None
    rows = np.concatenate([table.features for table in tables])
    features = finish(rows, np.zeros(width), np.ones(width), config.data.bias, norm)
    labels = np.concatenate([table.labels for table in tables])
    shards, sizes = Shards(features, labels, np.array([0, len(labels)]), None, "records"), list(map(len, tables))
    agreed = agree(config, Holdings(np.array(sizes), "records"), features.shape[1], schema.target)
    cohorts, batch_size = cohorts_of(config), config.algorithm.work.batch_size
    assert cohorts is not None
    members = cohorts.behind(Holdings(np.array(sizes)), 0.0, batch_size)
    test = Table(features, labels, (*schema.columns, "bias"), schema.target.classes)
    simulation = Simulation(
        shards, test, agreed.algorithm, agreed.plan, batch_size, 1, agreed.rounds, config.seed, lagrangian=False,
        members=members,
    )  # fmt: skip

    def drawn(round: int, chosen: np.ndarray) -> Draws:
        """What every site draws for itself, and the noise of all as one of the same law."""
        normals = [stream(3, "noise", round, place).standard_normal(simulation.matrix) for place in range(SITES)]
        found = []
        for place, size in enumerate(sizes):
            own = batch_size and int(members.drawn[0][place])
            drawn = draw_records(stream(3, "records", round, place), np.array([size]), agreed.plan.sampling, own, 1)
            found.append(sum(sizes[:place]) + drawn[0, 0])
        return Draws(np.concatenate(found)[None, None], np.sum(normals, axis=0)[None] / np.sqrt(SITES))

    return simulate(simulation, drawn=drawn).weights


def with_prox_at_sites() -> Any:
    """Each site takes the proximal step, and a mean of proxes takes the place of the prox of the mean."""

    def change(algorithm: Any, place: int, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
        reach = algorithm.inverse_step + algorithm.penalty
        return reach * (x - algorithm.objective.regularizer.prox(x - mean / reach, 1 / reach))

    return change


def with_duals_at_sites() -> Any:
    """Each site has a dual of its own, from its own noised gradients."""
    duals = dict[int, Any]()

    def change(algorithm: Any, place: int, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
        dual = duals.get(place, 0.0)
        reach = algorithm.inverse_step + algorithm.penalty
        duals[place] = dual - algorithm.penalty * (dual - mean) / reach
        return mean - dual

    return change


def planted(change: Any) -> Any:
    """A site that sends something else in its gradient's place."""
    truth = client_module.part_of_round

    def part(terms: Any, agreed: Any, records: Any, ask: Any, table: Any) -> np.ndarray:
        numbers, grid = (
            truth(terms, agreed, records, ask, table),
            round_part(terms, agreed, len(ask.weights)).noise.grid,
        )
        share = terms.sizes[terms.place] / sum(terms.sizes)
        mean = decode(numbers, grid).reshape(ask.weights.shape) / share
        return encode(share * change(agreed.algorithm, terms.place, ask.weights, mean).ravel(), grid)

    return part


@pytest.mark.parametrize(
    ("bug", "what"),
    [(with_prox_at_sites, "fedspd with an l1 norm and momentum"), (with_duals_at_sites, "fedspd")],
)
def test_a_prox_or_a_dual_at_the_sites_gives_another_run(
    bug: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = deployed(tmp_path, **SETTINGS[what])
    with monkeypatch.context() as patch:
        patch.setattr(client_module, "part_of_round", planted(bug()))
        model = made.serve()
    assert model.round == ROUNDS
    assert np.abs(standing(model) - simulated(made)).max() > 1e-4


def test_moments_of_sites_that_share_noise_are_those_of_all_their_records(tmp_path: Path) -> None:
    made = deployed(tmp_path, data__scaling="noisy-moments", run__rounds=1)
    model, terms = made.serve(), made.terms()
    agreed, schema = terms.agreed(made.schema), made.schema
    moments, part = moments_of(terms, agreed, schema), moments_part(terms, agreed, schema)
    tables = [read_table(path.parent / "records.csv", schema) for path in made.sites]
    rows = np.concatenate([table.features for table in tables])
    sums = np.asarray(moments.query(rows, np.array([0, len(rows)])).value)
    normals = [stream(3, "moments", 0, place).standard_normal(sums.shape) for place in range(SITES)]
    mean, deviation = moments.scaling(Release(sums + part.noise.scale * np.sum(normals, axis=0)), len(rows))
    np.testing.assert_allclose(model.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.deviation, deviation, rtol=0, atol=1e-9)
    expected = agreed.plan.groups[0].moments.noise_multiplier * moments.sensitivity / np.sqrt(3)
    assert part.noise.scale == pytest.approx(expected, rel=1e-9), "the threshold is 4, and one may tell"


def test_a_sum_over_those_who_arrived_stands_for_all(tmp_path: Path) -> None:
    """By the formulas of the proofs, with a site that is away in the first round."""
    made = deployed(tmp_path, **SETTINGS["fedspd with an l1 norm and momentum"], run__rounds=2)
    made.grid.handlers[made.node(1)] = silent_at("train.mask")
    model, terms = made.serve(), made.terms()
    agreed = terms.agreed(made.schema)
    algorithm, scale = cast(SPDOnSums, agreed.algorithm), round_part(terms, agreed, 6).noise.scale
    gamma, rho, x, dual = 4.0, 4.0, np.zeros((6, 2)), np.zeros((6, 2))
    before = x
    for round, arrived in ((1, [0, 2, 3, 4]), (2, range(SITES))):
        told = x + algorithm.momentum * (x - before)
        noise = sum(stream(3, "noise", round, place).standard_normal((1, 6, 2))[0] for place in arrived)
        share = sum(terms.sizes[place] for place in arrived) / sum(terms.sizes)
        gradient = (pooled_query(made, told, arrived) + scale * noise) / share
        local = algorithm.objective.regularizer.prox(told + (dual - gradient) / (gamma + rho), 1 / (gamma + rho))
        dual = dual + rho * (told - local)
        before, x = x, local - dual / rho
    assert algorithm.momentum == 0.5
    np.testing.assert_allclose(standing(model), x, rtol=0, atol=1e-9)


@pytest.mark.parametrize("what", SETTINGS)
def test_sites_that_share_noise_are_one_simulated_cohort_with_the_same_draws(what: str, tmp_path: Path) -> None:
    made = deployed(tmp_path, **SETTINGS[what])
    model = made.serve()
    expected = simulated(made)
    assert model.round == ROUNDS
    assert np.abs(expected).max() > 1e-2, "it moved"
    np.testing.assert_allclose(standing(model), expected, rtol=0, atol=1e-9)
