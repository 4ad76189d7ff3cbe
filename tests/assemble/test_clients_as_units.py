"""Whole clients as what is protected: allowed where only sums of them are seen, and refused elsewhere."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedspd
from fedspd.algorithms.parts.fedavg_by_client import FedAvgByClient
from fedspd.assemble import prepare_experiment
from fedspd.audit.replay import Shard, replay, unit_draws
from fedspd.config import load
from fedspd.engine import simulate
from fedspd.engine.jax_engine.session import installed
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.problem import Objective, Softmax, Unregularized
from fedspd.report import privacy_statement
from fedspd.typing import Batches

CLIENTS: dict[str, Any] = {
    "privacy.unit": "client", "privacy.trust": "secure-sums", "privacy.threshold": 20, "privacy.colluders": 0,
    "privacy.delta": 1e-3, "partition.clients": 20, "run.participants": 20, "run.seed": 1, "run.rounds": 6,
    "metrics.criterion": False,
}  # fmt: skip
MEMBERS = 5


def by_client(steps: int = 3) -> FedAvgByClient:
    return FedAvgByClient(Objective(Softmax(2), Unregularized(), 0.2), MEMBERS, steps, 1.0)


def members(seed: int) -> Shard:
    """Five members with 1 to 6 rows."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 7, MEMBERS))])
    rows = rng.standard_normal((starts[-1], 3))
    return Shard(rows, rng.integers(0, 2, starts[-1]), starts)


def moved(algorithm: FedAvgByClient, one: Shard, other: Shard) -> Any:
    drawn = [np.arange(MEMBERS)[:, None]]  # each member in a batch of its own
    servers, draws = np.zeros((1, 3, 2)), unit_draws(np.random.default_rng(0), algorithm, 1, 3)
    return replay(algorithm, one, other, drawn, servers, draws, divisor=MEMBERS)


@pytest.mark.parametrize("seed", range(20))
def test_a_member_with_any_rows_moves_a_sum_of_updates_by_twice_its_clip_at_most(seed: int) -> None:
    rng, shard = np.random.default_rng(seed), members(seed)
    count = int(rng.integers(1, 9))
    other = shard.with_person(2, 30 * rng.standard_normal((count, 3)), rng.integers(0, 2, count))
    found = moved(by_client(), shard, other)
    assert found.survived, found


def turned() -> tuple[Shard, Shard]:
    """A member whose long rows all pull one way, and one whose rows pull the other way."""
    shard, line = members(0), np.array([[50.0, 0.0, 0.0]])
    one, other = (shard.with_person(2, sign * np.repeat(line, 3, axis=0), np.ones(3, int)) for sign in (1, -1))
    return one, other


def test_twice_the_clip_is_attained() -> None:
    assert moved(by_client(1), *turned()).worst_ratio == pytest.approx(1.0, abs=1e-9)


@dataclass(frozen=True)
class NotClipped(FedAvgByClient):
    """A contribution may have any length."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        longer = replace(self.objective, clip_norm=1e9)
        return FedAvgByClient(longer, self.members, self.steps, self.inverse_step).query(told, client, batches)


def test_a_contribution_that_is_not_clipped_is_found() -> None:
    broken = NotClipped(by_client().objective, MEMBERS, 3, 1.0)
    assert not moved(broken, *turned()).survived


def test_every_client_counts_the_same_whatever_it_holds() -> None:
    skewed = {"partition.kind": "power-law", "partition.exponent": 0.8}
    experiment = prepare_experiment(load("proved", CLIENTS | skewed))
    shards = experiment.simulation.shards
    assert shards.units is not None
    assert (shards.sizes.tolist(), shards.unit) == ([20], "client")
    weights = np.add.reduceat(shards.units.shares, shards.units.starts[:-1])
    np.testing.assert_allclose(weights, np.ones(20), rtol=1e-12)
    assert np.ptp(shards.units.rows) > 100


@pytest.mark.parametrize("method", ["fedspd", "dp-sgd", "noisy-prox-gd", "dp-fedavg"])
def test_clients_are_counted_in_summary_and_statement(method: str) -> None:
    summary = fedspd.run("proved", CLIENTS | {"algorithm.name": method}).summary
    assert (summary.unit, summary.records, summary.records_min, summary.clients) == ("client", 20, 1, 20)
    assert "unit: all records of one client;" in privacy_statement(summary)


def test_dp_fedavg_learns_at_the_level_of_clients() -> None:
    hundred = {"partition.clients": 100, "run.participants": 100, "privacy.threshold": 100, "run.rounds": 20}
    local = {"algorithm.name": "dp-fedavg", "algorithm.local_steps": 5, "privacy.epsilon": 8.0}
    reached = fedspd.run("proved", CLIENTS | hundred | local).summary.test_accuracy
    assert reached is not None
    assert reached > 0.82


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "each upload is seen": (
        {"privacy.trust": "each-upload", "privacy.threshold": None, "privacy.colluders": None},
        "privacy.unit = client needs privacy.trust = secure-sums",
    ),
    "batches": ({"algorithm.batch_size": 10}, "uses all rows of a client in every round"),
    "records held out": ({"evaluation.held_out": 0.2}, "are counted by record or by person"),
    "a method that keeps state": ({"algorithm.name": "dp-admm"}, "needs a method whose round is one Gaussian release"),
    "cohorts of unequal size": (
        {"algorithm.name": "dp-fedavg", "partition.clients": 21, "run.participants": 21, "privacy.cohorts": 2,
         "privacy.threshold": 10}, "cohorts must have as many members each",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_elsewhere_with_a_reason(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        fedspd.run("proved", {key: value for key, value in (CLIENTS | changes).items() if value is not None})


def test_a_ledger_of_clients_refuses_a_run_by_records(tmp_path: Path) -> None:
    create_ledger(tmp_path / "ledger.sqlite")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        fedspd.run("proved", CLIENTS | {"partition.seed": 3}, ledger=ledger)
        again = CLIENTS | {"partition.seed": 3, "run.seed": 2, "privacy.unit": "record", "privacy.delta": 1e-5}
        with pytest.raises(InputError, match="is of every client, got a run that protects every record"):
            fedspd.run("proved", again, ledger=ledger)


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="JAX is not installed")
def test_both_engines_give_the_same_numbers_for_clients() -> None:
    from fedspd.engine.jax_engine.batch import simulate_batch

    small = {"algorithm.name": "dp-fedavg", "algorithm.local_steps": 2, "run.rounds": 2, "metrics.lagrangian": False}
    simulation = prepare_experiment(load("proved", CLIENTS | small)).simulation
    ((_, outcome),) = simulate_batch([simulation], kind=np.float64)
    np.testing.assert_allclose(outcome.models, simulate(simulation).models, rtol=1e-9, atol=1e-10)
