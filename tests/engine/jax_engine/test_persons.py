"""Persons on the compiled engine: the numbers of the NumPy engine."""

from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.data import Table
from fedspd.engine import Simulation, simulate
from fedspd.engine.jax_engine.session import installed
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling, plan_proved
from fedspd.problem import L1, Objective, Softmax
from tests.engine.jax_engine.test_equal import assert_same, compiled
from tests.engine.test_units import dealt

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")


@pytest.mark.parametrize(("local_steps", "batch"), [(1, None), (3, None), (2, 3)])
def test_persons_give_the_same_numbers_on_both_engines(local_steps: int, batch: int | None) -> None:
    shards = dealt([1, 5, 2, 7, 1, 3, 4, 1, 6, 2, 3, 1, 2, 9, 1, 1, 4, 2], clients=2)
    algorithm = FedSPD(Objective(Softmax(2), L1(0.01), 0.5), 2, 0.3, local_steps, 1.0, 1.0)
    scheme: Any = WHOLE_SHARD if batch is None else WITHOUT_REPLACEMENT
    sampling = RecordSampling(scheme, batch, local_steps, algorithm.contraction, unit="person")
    plan = plan_proved(5.0, 1e-3, sampling, shards.sizes, 4)
    test = Table(np.asarray(shards.features, float), shards.labels, ("a", "b", "c"), ("no", "yes"))
    run = Simulation(shards, test, algorithm, plan, batch, 2, 4, seed=1)
    assert_same(simulate(run), compiled(run, own_draws=True), 1e-10)
