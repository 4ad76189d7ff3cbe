"""A round's work at a site does not follow what was drawn: its time is seen by the server."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.data import Shards, read_table
from fedspd.deploy.protocol.messages import Ask
from fedspd.deploy.site.computing.local import batches_of
from fedspd.deploy.site.computing.records import Records
from fedspd.engine.batches import gather_batches
from tests.deploy.test_persons import PERSONS, about_persons
from tests.support.deploy.shared import sharing
from tests.support.deploy.sites import Federation, federation

TIMES = 20
POISSON: dict[str, Any] = {"algorithm__sampling": "poisson", "algorithm__batch_size": 30}


def seen(made: Federation, unit: Any = "record") -> list[Any]:
    """What a site's query sees in several rounds."""
    terms, schema = made.terms(), made.schema
    agreed = terms.agreed(schema)
    table, records = read_table(made.sites[0].parent / "records.csv", schema, unit), Records()
    width, outputs = len(schema.columns), agreed.algorithm.objective.loss.outputs
    ask = Ask("", 1, 0, np.zeros((width + 1, outputs)), np.zeros(width), np.ones(width), 1.0)
    return [batches_of(terms, agreed, records, table, ask) for _ in range(TIMES)]


def poisson(folder: Path) -> list[Any]:
    return seen(federation(folder, 1, 120, **POISSON))


def poisson_in_steps(folder: Path) -> list[Any]:
    return seen(federation(folder, 1, 120, **POISSON, algorithm__local_steps=2))


def poisson_on_sums(folder: Path) -> list[Any]:
    return seen(sharing(folder, **POISSON))


def batches_of_persons(folder: Path) -> list[Any]:
    made = about_persons(federation(folder, 1, 120, **PERSONS, algorithm__batch_size=5))
    return seen(made, "person")


def whole_shards_of_persons_in_steps(folder: Path) -> list[Any]:
    made = about_persons(federation(folder, 1, 120, **PERSONS, algorithm__local_steps=2))
    return seen(made, "person")


ROUNDS = (poisson, poisson_in_steps, poisson_on_sums, batches_of_persons, whole_shards_of_persons_in_steps)


@pytest.mark.parametrize("rounds", ROUNDS, ids=lambda each: each.__name__)
def test_as_many_rows_are_worked_on_however_many_are_drawn(rounds: Any, tmp_path: Path) -> None:
    found = rounds(tmp_path)
    assert {each.features.shape for each in found} == {found[0].features.shape}
    assert found[0].features.shape[2] == found[0].shares.shape[-1] > 100, "all rows of the table"
    drawn = {tuple(np.count_nonzero(each.shares, axis=-1).ravel().tolist()) for each in found}
    assert len(drawn) > 3, "how many were drawn differs"


def test_rows_that_are_not_drawn_add_nothing(tmp_path: Path) -> None:
    """The gradient is that of the gathered batch."""
    made = federation(tmp_path, 1, 120, **POISSON)
    terms = made.terms()
    objective = terms.agreed(made.schema).algorithm.objective
    weights = np.random.default_rng(0).standard_normal((1, 6, 2))
    for batches in seen(made)[:5]:
        rows = np.flatnonzero(batches.shares[0, 0])
        shard = Shards(batches.features[0, 0], batches.labels[0, 0], np.array([0, batches.labels.shape[-1]]), None)
        gathered = gather_batches(shard, np.array([0]), rows[None, None], batches.divisors)
        one, other = (objective.gradient(weights, *each.step(0)).mean for each in (batches, gathered))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
