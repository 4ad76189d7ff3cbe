"""Real draws: the noise of replies has the planned scale around the true query, and subsets are fresh."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedspd.algorithms.base import at_weights
from fedspd.data import Shards, Table, finish, read_table
from fedspd.deploy.protocol.messages import Ask
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.site.computing.local import _drawn, _gradient_sum, measure, moments_scale, round_scale
from fedspd.deploy.site.memory import from_bytes
from fedspd.engine.batches import gather_batches
from fedspd.privacy.accounting.events import relative_distances
from fedspd.typing import Query
from tests.support.deploy.sites import SCHEMA, Federation, federation, write_records

LEVELS = [f"level-{number}" for number in range(250)]
ROUNDS = 40
WIDE = SCHEMA.replace('["red", "green", "blue"]', str(LEVELS).replace("'", '"'))


def wide(folder: Path, method: str) -> Federation:
    """A site whose replies have many entries; most levels are nobody's."""
    made = federation(
        folder, site={"policy.methods": [method], "policy.most_rounds": ROUNDS}, run__rounds=ROUNDS,
        algorithm__name=method, algorithm__inverse_step=2.0,
    )  # fmt: skip
    for path in (made.folder / "schema.toml", made.sites[0].parent / "schema.toml"):
        path.write_text(WIDE)
    write_records(made.sites[0].parent / "records.csv", 120, 0)
    return made


class Residuals:
    """Replies of a site, each minus the query that the simulator computes, over the planned scale."""

    def __init__(self, made: Federation, terms: Terms) -> None:
        self.made, self.terms, self.agreed = made, terms, terms.agreed(made.schema)
        self.table = read_table(made.sites[0].parent / "records.csv", made.schema)
        self.matrix = columns_of(made.schema, terms.config), 2

    def query(self, ask: Ask, state: Any) -> np.ndarray:
        """What must not leave the site."""
        algorithm, data = self.agreed.algorithm, self.terms.config.data
        assert data.row_norm is not None
        features = finish(self.table.features, ask.mean, ask.deviation, data.bias, data.row_norm)
        shard = Shards(features, self.table.labels, np.array([0, len(self.table)]), None)
        batches = gather_batches(shard, np.array([0]), np.arange(len(self.table))[None, None], np.array([120.0]))
        server = at_weights(algorithm.start(np.zeros((1, *self.matrix)))[0], ask.weights)
        query, _ = algorithm.query(algorithm.broadcast(server, ask.round), state, batches)
        assert isinstance(query, Query)
        return np.asarray(query.value)[0]

    def state(self) -> Any:
        """What the site carries: public."""
        first = self.agreed.algorithm.start(np.zeros((1, *self.matrix)))[1]
        with self.made.store() as store:
            stored = store.state(self.terms.run)
        return first if stored is None else from_bytes(first, stored)

    def of_round(self, round: int) -> np.ndarray:
        """One reply: fedspd keeps what it released, dp-sgd sends it."""
        columns = len(self.made.schema.columns)
        weights = 0.1 * np.random.default_rng(round).standard_normal(self.matrix)
        ask = Ask(self.terms.digest, round, 0, weights, np.zeros(columns), np.ones(columns), 1.0)
        state = self.state()
        reply = self.made.tell(0, ask)
        released = reply.upload if self.terms.config.algorithm.name == "dp-sgd" else self.state().weights[0]
        return (released - self.query(ask, state)) / round_scale(self.terms, self.agreed, ask, state)


def noise_is_standard(values: np.ndarray) -> bool:
    """Mean 0 and deviation 1, by tests that err once in a hundred thousand times; and no two entries alike."""
    squares, size = float(np.sum(values**2)), values.size
    low, high = stats.chi2(size).ppf([5e-6, 1 - 5e-6])
    return low < squares < high and abs(values.mean()) < 4.6 / np.sqrt(size) and len(np.unique(values)) == size


@pytest.mark.parametrize("method", ["fedspd", pytest.param("dp-sgd", marks=pytest.mark.slow)])
def test_replies_have_the_planned_noise_around_the_true_query(method: str, tmp_path: Path) -> None:
    made = wide(tmp_path, method)
    terms = made.enter()
    residuals = Residuals(made, terms)
    values = np.concatenate([residuals.of_round(round).ravel() for round in range(1, ROUNDS + 1)])
    assert values.size > 20_000
    assert noise_is_standard(values)
    assert not noise_is_standard(1.05 * values), "the test sees noise that is 5 % too large"
    assert not noise_is_standard(0.95 * values), "and noise that is 5 % too small"
    assert not noise_is_standard(values + 0.1), "and a query that is a tenth of the noise away"


def test_the_moments_have_the_planned_noise_around_the_true_sums(tmp_path: Path) -> None:
    made = federation(tmp_path, data__scaling="noisy-moments")
    schema = made.schema
    columns = tuple(replace(schema.inputs[0], name=f"age-{number}") for number in range(300))
    wide = replace(schema, inputs=columns)
    terms = replace(made.terms(), schema=wide.digest)
    table = Table(
        np.random.default_rng(0).uniform(-1, 1, (120, 300)), np.zeros(120, int), wide.columns, wide.target.classes
    )
    sums = np.concatenate([table.features.sum(axis=0), (table.features**2).sum(axis=0)])
    agreed = terms.agreed(wide)
    scale = moments_scale(terms, agreed, wide)
    released = np.array([measure(terms, agreed, wide, table, scale) for _ in range(35)])
    values = (released - sums) / scale
    assert noise_is_standard(values)
    assert not noise_is_standard(1.05 * values)
    assert not noise_is_standard(0.95 * values)


@pytest.mark.parametrize("batches", [{}, {"algorithm__batch_size": 20}], ids=["whole shard", "batches"])
def test_what_rounding_may_do_is_covered_at_every_local_step(batches: dict[str, Any], tmp_path: Path) -> None:
    """A record of the last step is charged for less than one of the first, and rounding moves both alike."""
    made = federation(tmp_path)
    terms = made.terms(algorithm__local_steps=3, algorithm__inverse_step=2.0, **batches)
    agreed = terms.agreed(made.schema)
    algorithm: Any = agreed.algorithm
    draws, columns = agreed.plan.draws, len(made.schema.columns)
    weights = np.full((columns_of(made.schema, terms.config), 2), 1e3)
    ask = Ask(terms.digest, 1, 0, weights, np.zeros(columns), np.ones(columns), 1.0)
    server, state, _ = algorithm.start(np.zeros((1, *weights.shape)))
    batch = _gradient_sum(terms, agreed, weights.shape[0], float(terms.batch(agreed)[0]))
    rounding = algorithm.rounding(algorithm.broadcast(at_weights(server, weights), 1), state, batch)
    charged = round_scale(terms, agreed, ask, state) / agreed.plan.noise_multipliers[terms.place]
    first = float(algorithm.sensitivity(1, terms.batch(agreed))[0])
    far = relative_distances(draws.local_steps, draws.contraction)
    assert far[-1] < 0.7, "the steps differ"
    for distance in far:
        assert (first * distance + 2 * rounding) / (charged * distance) <= 1 + 1e-15


def test_every_batch_is_drawn_afresh_and_every_record_is_as_likely(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.terms(algorithm__batch_size=20, algorithm__local_steps=2, algorithm__inverse_step=2.0)
    agreed = terms.agreed(made.schema)
    drawn = [_drawn(terms, agreed, 1, 120).reshape(-1) for _ in range(3000)]
    assert all(len(np.unique(records)) == 40 for records in drawn)
    assert len({np.sort(records).tobytes() for records in drawn}) == 3000
    counts = np.bincount(np.concatenate(drawn), minlength=120)
    third = 40 / 120
    spread = 3000 * third * (1 - third) * 120 / 119  # in one draw the records add up to 40
    assert stats.chi2(119).sf(np.sum((counts - 3000 * third) ** 2) / spread) > 1e-5
    counts = counts * np.repeat([1.05, 0.95], 60)
    assert stats.chi2(119).sf(np.sum((counts - 3000 * third) ** 2) / spread) < 1e-5
