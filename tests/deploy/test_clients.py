"""Whole sites as what is protected: on secure sums, as in a simulation; everything else is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.parts.fedavg_by_client import FedAvgByClient
from fedspd.assemble import agree
from fedspd.assemble.cohorts import cohorts_of
from fedspd.data import Shards, Table, finish, read_table
from fedspd.data.holding.units import MOST_ROWS_OF_CLIENT, Units
from fedspd.deploy.protocol.messages import VERSION, Ask, Enter, Hello, Present, Refused
from fedspd.deploy.protocol.sums import moments_of, moments_part, round_part
from fedspd.deploy.setup.check import check_site
from fedspd.deploy.site.computing import local as local_module
from fedspd.deploy.site.computing.local import batches_of, told_by
from fedspd.deploy.site.computing.records import Records
from fedspd.engine import Simulation, simulate, stream
from fedspd.engine.numpy_engine import Draws
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger
from fedspd.typing import Query, Release
from tests.support.deploy.shared import sharing
from tests.support.deploy.sites import Federation
from tests.support.deploy.twists import standing

ROUNDS, SITES = 5, 5
CLIENTS: dict[str, Any] = {"privacy__unit": "client"}
OWNER: dict[str, Any] = {"budget.unit": "client", "policy.min_batch": 4, "budget.epsilon_alone": 60.0}
GRADIENT: dict[str, Any] = {}
STEPS: dict[str, Any] = {"algorithm__name": "dp-fedavg", "algorithm__local_steps": 3, "algorithm__inverse_step": 4.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "fedspd": {"algorithm__penalty": 4.0},
    "fedspd with an l1 norm and momentum": {
        "algorithm__penalty": 4.0, "algorithm__momentum": 0.5, "problem__regularizer": "l1", "problem__strength": 0.05,
    },
    "noisy-prox-gd": {"algorithm__name": "noisy-prox-gd", "algorithm__momentum": 0.5, "problem__strength": 0.01},
    "dp-sgd": {"algorithm__name": "dp-sgd"},
    "dp-fedavg": {"algorithm__name": "dp-fedavg", "algorithm__local_steps": 3},
    "dp-fedavg with long steps": {
        "algorithm__name": "dp-fedavg", "algorithm__local_steps": 2, "algorithm__inverse_step": 0.4,
    },
}  # fmt: skip


def unequal(made: Federation) -> Federation:
    """Sites with very different numbers of rows."""
    for place, path in enumerate(made.sites):
        file = path.parent / "records.csv"
        file.write_text("\n".join(file.read_text().splitlines()[: 2 + 20 * place]) + "\n")
    return made


def whole(folder: Path, protected: bool = False, **changes: Any) -> Federation:
    fixed: dict[str, Any] = {"run__rounds": ROUNDS} | CLIENTS
    if not protected:
        fixed |= {"federation__fixed_draws": True, "privacy__epsilon": 80.0, "run__seed": 3}
    own = OWNER if protected else {}
    return unequal(sharing(folder, SITES, protected=protected, site=own, **(fixed | changes)))


def terms_of(made: Federation) -> Any:
    """Terms in which every site counts as one."""
    terms = made.terms()
    return replace(terms, sizes=(1,) * len(terms.sizes))


def simulated(made: Federation) -> np.ndarray:
    """The same run by the engine: one cohort, whose members count as one each."""
    config, schema = made.settings.for_sites(SITES), made.schema
    tables = [read_table(path.parent / "records.csv", schema) for path in made.sites]
    width, norm = len(schema.columns), config.data.row_norm
    assert norm is not None
    rows = np.concatenate([table.features for table in tables])
    features = finish(rows, np.zeros(width), np.ones(width), config.data.bias, norm)
    labels = np.concatenate([table.labels for table in tables])
    starts = np.concatenate([[0], np.cumsum(list(map(len, tables)))])
    units = Units.clients(starts).pooled([np.arange(SITES)])
    shards = Shards(features, labels, np.array([0, len(labels)]), None, "records", units)
    members = replace(shards.holdings, sizes=np.ones(SITES, int))
    cohorts = cohorts_of(config)
    assert cohorts is not None
    agreed = agree(config, members, features.shape[1], schema.target)
    test = Table(features, labels, (*schema.columns, "bias"), schema.target.classes)
    simulation = Simulation(
        shards, test, agreed.algorithm, agreed.plan, None, 1, agreed.rounds, config.seed, lagrangian=False,
        members=cohorts.behind(members, 0.0, None),
    )  # fmt: skip

    def drawn(round: int, chosen: np.ndarray) -> Draws:
        normals = [stream(3, "noise", round, place).standard_normal(simulation.matrix) for place in range(SITES)]
        records = np.arange(SITES)[None, None]
        if isinstance(agreed.algorithm, FedAvgByClient):
            records = records.swapaxes(1, 2)  # each member in a batch of its own
        return Draws(records, np.sum(normals, axis=0)[None] / np.sqrt(SITES))

    return simulate(simulation, drawn=drawn).weights


@pytest.mark.parametrize("what", SETTINGS)
def test_sites_that_are_protected_as_a_whole_are_those_of_a_simulation_with_the_same_draws(
    what: str, tmp_path: Path
) -> None:
    step: dict[str, Any] = {"algorithm__inverse_step": 4.0}
    made = whole(tmp_path, **(step | SETTINGS[what]))
    model, expected = made.serve(), simulated(made)
    assert model.round == ROUNDS
    assert np.abs(expected).max() > 1e-2, "it moved"
    np.testing.assert_allclose(standing(model), expected, rtol=0, atol=1e-9)


def test_moments_are_means_of_what_each_site_holds(tmp_path: Path) -> None:
    made = whole(tmp_path, data__scaling="noisy-moments", run__rounds=1)
    model, terms, schema = made.serve(), terms_of(made), made.schema
    agreed = terms.agreed(schema)
    moments, part = moments_of(terms, agreed, schema), moments_part(terms, agreed, schema)
    tables = [read_table(path.parent / "records.csv", schema).features for path in made.sites]
    found = [
        np.asarray(moments.query(rows, np.array([0, len(rows)]), np.full(len(rows), 1 / len(rows))).value)
        for rows in tables
    ]
    normals = [stream(3, "moments", 0, place).standard_normal(found[0].shape) for place in range(SITES)]
    mean, deviation = moments.scaling(Release(sum(found) + part.noise.scale * np.sum(normals, axis=0)), SITES)
    np.testing.assert_allclose(model.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.deviation, deviation, rtol=0, atol=1e-8)


def test_a_protected_run_tells_nobody_how_many_rows_there_are(tmp_path: Path) -> None:
    made = whole(tmp_path, protected=True, data__scaling="noisy-moments")
    made.serve()
    told = "\n".join(made.said)
    for place in range(SITES):
        assert f"site-{place} is there with 1 client" in told
        assert made.charges(place) == ROUNDS + 1
        with Ledger(made.sites[place].parent / "ledger.db") as ledger:
            (account,) = ledger.accounts.values()
            assert account.terms.budget.unit == "client"
    assert [member.records for member in made.saved.roster] == [1] * SITES
    assert made.run is not None
    summary = made.run.summary
    assert (summary.unit, summary.records, summary.epsilon) == ("client", SITES, 1.0)
    assert any("all rows are protected as one" in one.told for one in check_site(made.sites[0]))


def part(made: Federation, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What a site with these rows puts into a sum, before noise."""
    terms, schema = terms_of(made), made.schema
    agreed = terms.agreed(schema)
    table = Table(rows, labels, schema.columns, schema.target.classes)
    ask = Ask("", 1, 0, weights, np.zeros(rows.shape[1]), np.ones(rows.shape[1]), 1.0)
    state = agreed.algorithm.start(np.zeros((1, *weights.shape)))[1]
    batches = batches_of(terms, agreed, Records(), table, ask)
    query, _ = agreed.algorithm.query(told_by(agreed.algorithm, ask), state, batches)
    assert isinstance(query, Query)
    return np.asarray(query.value)[0]


@pytest.mark.parametrize("method", [GRADIENT, STEPS], ids=["a gradient", "clipped steps"])
def test_any_rows_in_the_place_of_all_move_a_part_by_twice_the_clip_at_most(
    method: dict[str, Any], tmp_path: Path
) -> None:
    made, rng = whole(tmp_path, protected=True, **method), np.random.default_rng(0)
    width = len(made.schema.columns)
    bound = float(terms_of(made).agreed(made.schema).algorithm.sensitivity(1, float(SITES)))
    assert bound == pytest.approx(2 * (0.5 / method.get("algorithm__inverse_step", 1.0)) / SITES)
    for _ in range(50):
        weights = rng.normal(scale=rng.choice([0.1, 10.0]), size=(width + 1, 2))
        one, other = (
            part(made, rng.uniform(-1, 1, (count, width)), rng.integers(0, 2, count), weights)
            for count in rng.integers(1, 40, 2)
        )
        assert np.linalg.norm(one - other) <= bound * (1 + 1e-12)


def turned(made: Federation) -> float:
    """How far a part moves where all rows, all alike, get the other label; over the bound."""
    width = len(made.schema.columns)
    rows, weights = np.repeat(np.eye(1, width), 7, axis=0), np.zeros((width + 1, 2))
    one, other = (part(made, rows[:count], np.full(count, label), weights) for label, count in ((0, 3), (1, 7)))
    bound = float(terms_of(made).agreed(made.schema).algorithm.sensitivity(1, float(SITES)))
    return float(np.linalg.norm(one - other)) / bound


@pytest.mark.parametrize("method", [GRADIENT, STEPS], ids=["a gradient", "clipped steps"])
def test_twice_the_clip_is_attained(method: dict[str, Any], tmp_path: Path) -> None:
    assert turned(whole(tmp_path, protected=True, **method)) == pytest.approx(1.0, rel=1e-9)


def test_steps_that_are_clipped_run_between_sites_with_budgets_and_exact_noise(tmp_path: Path) -> None:
    made = whole(tmp_path, protected=True, **STEPS)
    for path in made.sites:
        path.write_text(path.read_text().replace("[policy]", '[policy]\nmethods = ["dp-fedavg"]'))
    assert made.serve().round == ROUNDS
    assert [made.charges(place) for place in range(SITES)] == [ROUNDS] * SITES
    terms = terms_of(made)
    agreed, exact = terms.agreed(made.schema), 2 * (0.5 / 4.0) / SITES
    assert exact < round_part(terms, agreed, 6).noise.sensitivity < exact * 1.011, "rounding, and the grid's hundredth"
    assert round_part(terms, agreed, 6).reach == pytest.approx(0.5 / 4.0)


def test_a_site_whose_rows_count_one_by_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = whole(tmp_path, protected=True)
    monkeypatch.setattr(Units, "shares", property(lambda self: np.ones(int(self.rows.sum()))))
    assert turned(made) > 2


def test_noise_counts_on_as_many_rows_as_a_site_may_ever_keep(tmp_path: Path) -> None:
    terms = terms_of(whole(tmp_path, protected=True))
    agreed = terms.agreed(whole(tmp_path / "again").schema)
    batch = local_module.gradient_sum(terms, agreed, 6, 1, float(SITES))
    assert batch.rows == MOST_ROWS_OF_CLIENT
    exact = float(agreed.algorithm.sensitivity(1, float(SITES)))
    assert exact < round_part(terms, agreed, 6).noise.sensitivity < exact * 1.011, "rounding, and the grid's hundredth"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "each upload is seen": (
        {"privacy__trust": None, "federation__aggregation": "plain"}, "privacy.unit = client needs privacy.trust",
    ),
    "masks without shared noise": ({"privacy__trust": None}, "privacy.unit = client needs privacy.trust"),
    "batches": ({"algorithm__batch_size": 10}, "uses all rows of a client in every round"),
    "a method that keeps state": ({"algorithm__name": "dp-admm"}, "needs a method whose round is one Gaussian release"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_elsewhere_by_server_and_sites(what: str, tmp_path: Path) -> None:
    made = whole(tmp_path, protected=True)
    changes, words = REFUSED[what]
    terms = made.terms(**changes)
    terms = replace(terms, sizes=(1,) * SITES)
    with pytest.raises(InputError, match=words):
        terms.agreed(made.schema)
    answer = made.tell(0, Enter(terms.text))
    assert isinstance(answer, Refused)
    assert words in answer.reason
    assert made.charges(0) == 0


@pytest.mark.parametrize(("own", "asked"), [("client", "record"), ("record", "client"), ("client", "person")])
def test_a_site_counts_nothing_but_what_its_owner_protects(own: str, asked: str, tmp_path: Path) -> None:
    made = sharing(tmp_path, SITES, site=OWNER | {"budget.unit": own})
    answer = made.tell(0, Hello(VERSION, "nonce", asked))
    assert isinstance(answer, Refused)
    assert answer.reason == f"the budget here is of every {own}, the run protects every {asked}."
    answer = made.tell(0, Hello(VERSION, "nonce", own))
    assert isinstance(answer, Present)
    assert answer.records == (1 if own == "client" else made.records(0))


def test_an_owner_says_over_how_many_sites_a_gradient_is_averaged_at_least(tmp_path: Path) -> None:
    made = whole(tmp_path, protected=True)
    made.sites[0].write_text(made.sites[0].read_text().replace("min_batch = 4", "min_batch = 5"))
    answer = made.tell(0, Enter(terms_of(made).text))
    assert isinstance(answer, Refused)
    assert answer.reason == "a gradient is averaged over at least 5 clients here, not over 4."


def test_a_site_that_is_said_to_be_many_clients_is_refused(tmp_path: Path) -> None:
    made = whole(tmp_path, protected=True)
    answer = made.tell(0, Enter(replace(terms_of(made), sizes=(1, 1, 1, 1, 1000)).text))
    assert isinstance(answer, Refused)
    assert "a whole client counts as one" in answer.reason
