"""What a site computes: the client legs of a method on the site's own records, with noise and draws of its own."""

from functools import partial
from typing import Any, cast

import numpy as np

from fedspd.algorithms.base import Proved
from fedspd.data import Schema, Shards, Table, finish
from fedspd.deploy.messages import Ask, AskMasked
from fedspd.deploy.terms import Terms
from fedspd.engine.batches import draw_records, gather_batches
from fedspd.engine.draws import stream
from fedspd.engine.entropy import SystemEntropy
from fedspd.engine.round import Played, play
from fedspd.experiment import Agreed
from fedspd.experiment.proved import make_moments
from fedspd.privacy import POISSON, GradientSum, exact_gaussian, gaussian, sum_rounding
from fedspd.typing import Query, Release

ONE = np.zeros(1, np.int64)  # a real client is a stack of one


def measure(terms: Terms, agreed: Agreed[Any], schema: Schema, table: Table) -> np.ndarray:
    """The noised sums of the site's columns."""
    moments = make_moments(terms.config, schema.numeric, schema.categorical, terms.holdings, agreed.plan)
    offsets = np.array([0, len(table)])
    rounding = sum_rounding(len(table), 2 * int(schema.numeric.sum()))
    scale = float(agreed.plan.moments_scale(moments.sensitivity + 2 * rounding)[terms.place])
    query = moments.query(table.features, offsets)
    return np.asarray(perturbed(terms, agreed.plan.guarantee, "moments", 0, scale, query).value)[0]


def play_round(terms: Terms, agreed: Agreed[Any], table: Table, ask: Ask | AskMasked, state: Any) -> Played:
    """One round on the site's records: the engine's own `play`."""
    algorithm, plan, data = agreed.algorithm, agreed.plan, terms.config.data
    assert data.row_norm is not None
    features = finish(table.features, ask.mean, ask.deviation, data.bias, data.row_norm)
    shard = Shards(features, table.labels, np.array([0, len(table)]), None)
    told, divisor = algorithm.broadcast(ask.weights, ask.round), terms.batch(agreed)
    records = _records(terms, agreed, ask.round, len(table))
    sensitivity = algorithm.sensitivity(ask.round, divisor)
    if plan.guarantee == "proved":
        batch = _gradient_sum(terms, agreed, features.shape[1], records.shape[-1], float(divisor[0]))
        sensitivity = sensitivity + 2 * cast(Proved, algorithm).rounding(told, state, batch)
    scale = float(np.max(plan.noise_scale(ONE + terms.place, sensitivity)))
    return play(
        algorithm, told, state, gather_batches(shard, ONE, records, divisor),
        partial(perturbed, terms, plan.guarantee, "noise", ask.round, scale),
    )  # fmt: skip


def perturbed(terms: Terms, guarantee: str, name: Any, round: int, scale: float, query: Query) -> Release:
    """Noise from the operating system; of a seed that the server knows, or none, only where nothing is protected."""
    if terms.draws is not None:
        rng = stream(terms.draws, name, round, terms.place)
        return gaussian(query, scale, rng.standard_normal(query.value.shape))
    if guarantee == "none":
        return gaussian(query, 0.0, np.zeros(query.value.shape))
    return exact_gaussian(query, scale)


def _records(terms: Terms, agreed: Agreed[Any], round: int, size: int) -> np.ndarray:
    source = SystemEntropy() if terms.draws is None else stream(terms.draws, "records", round, terms.place)
    return draw_records(
        source, np.array([size]), agreed.plan.sampling, terms.config.algorithm.batch_size, agreed.algorithm.local_steps
    )


def _gradient_sum(terms: Terms, agreed: Agreed[Any], columns: int, longest: int, divisor: float) -> GradientSum:
    """The public numbers that the rounding of a query depends on; how many records joined by chance is none of them."""
    objective, row_norm = agreed.algorithm.objective, terms.config.data.row_norm
    assert row_norm is not None
    return GradientSum(
        gradient_bound=objective.gradient_bound(row_norm),
        row_norm=row_norm,
        smoothness=objective.smoothness(row_norm),
        columns=columns,
        outputs=objective.loss.outputs,
        records=terms.sizes[terms.place] if agreed.plan.sampling == POISSON else longest,
        divisor=divisor,
    )
