"""What a site computes: the client legs of a method on the site's own records, with noise and draws of its own."""

from functools import partial
from typing import Any, cast

import numpy as np

from fedspd.algorithms import Moments
from fedspd.algorithms.base import BoundsRounding, at_weights
from fedspd.assemble import Agreed
from fedspd.assemble.scaling import make_moments
from fedspd.data import Schema, Shards, Table
from fedspd.deploy.protocol.messages import Ask, AskMasked
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.records import Records
from fedspd.engine.batches import draw_records, gather_batches
from fedspd.engine.draws import stream
from fedspd.engine.entropy import SystemEntropy
from fedspd.engine.release import Drawn, Exact, release
from fedspd.engine.round import Played, play
from fedspd.privacy import POISSON, GradientSum, sum_rounding
from fedspd.typing import Argmin, Query, Release

ONE = np.zeros(1, np.int64)  # a real client is a stack of one


def moments_scale(terms: Terms, agreed: Agreed[Any], schema: Schema) -> float:
    """The noise on the site's moments, from public numbers."""
    records = terms.sizes[terms.place]
    rounding = sum_rounding(records, 2 * int(schema.numeric.sum()))
    sensitivity = _moments(terms, agreed, schema).sensitivity + 2 * rounding
    return checked_scale(agreed, float(agreed.plan.moments_scale(sensitivity)[terms.place]))


def measure(terms: Terms, agreed: Agreed[Any], schema: Schema, table: Table, scale: float) -> np.ndarray:
    """The noised sums of the site's columns."""
    query = _moments(terms, agreed, schema).query(table.features, np.array([0, len(table)]))
    return np.asarray(perturbed(terms, agreed.plan.guarantee, "moments", 0, scale, query).value)[0]


def round_scale(terms: Terms, agreed: Agreed[Any], ask: Ask | AskMasked, state: Any) -> float:
    """The noise on the site's query, from public numbers: what rounding may do is part of the sensitivity."""
    algorithm, divisor = agreed.algorithm, terms.batch(agreed)
    sensitivity = algorithm.sensitivity(ask.round, divisor)
    if agreed.plan.guarantee == "proved":
        told = _told(algorithm, ask)
        batch = _gradient_sum(terms, agreed, ask.weights.shape[0], float(divisor[0]))
        # records of later steps are charged for less, but what rounding may do is the same for all
        rounding = cast(BoundsRounding, algorithm).rounding(told, state, batch) / agreed.plan.draws.least_distance
        sensitivity = sensitivity + 2 * rounding
    return checked_scale(agreed, float(np.max(agreed.plan.noise_scale(ONE + terms.place, sensitivity))))


def _told(algorithm: Any, ask: Ask | AskMasked) -> Any:
    """What the server says: the weights that came, and what the round has of its own."""
    server = algorithm.start(np.zeros((1, *ask.weights.shape)))[0]
    return algorithm.broadcast(at_weights(server, ask.weights), ask.round)


def checked_scale(agreed: Agreed[Any], scale: float) -> float:
    """Refuse settings whose noise is no number, before anything is spent."""
    if agreed.plan.guarantee != "none" and not 0 < scale < np.inf:
        raise Refusal("the run's step sizes give no noise scale that is positive and finite.")
    return scale


def play_round(
    terms: Terms, agreed: Agreed[Any], records: Records, table: Table, ask: Ask | AskMasked, state: Any, scale: float
) -> Played:
    """One round on the site's records: the engine's own `play`."""
    algorithm, data = agreed.algorithm, terms.config.data
    assert data.row_norm is not None
    features = records.features(table, ask.mean, ask.deviation, data.bias, data.row_norm)
    shard = Shards(features, table.labels, np.array([0, len(table)]), None)
    drawn = _drawn(terms, agreed, ask.round, len(table))
    make_noise = partial(perturbed, terms, agreed.plan.guarantee, "noise", ask.round, scale)
    told, divisor = _told(algorithm, ask), terms.batch(agreed)
    batches = gather_batches(shard, ONE, drawn, divisor)
    return play(algorithm, told, state, batches, lambda query, _: make_noise(query), None)


def rehearse(terms: Terms, agreed: Agreed[Any], schema: Schema, state: Any) -> None:
    """Play the first round, and release moments where the run does, on as many records that hold nothing.

    Whatever would fail for any records (a library that is missing, settings that do not fit, too little memory)
    fails here, before anything is charged. What is computed has seen no record and is thrown away.
    """
    records, width = terms.sizes[terms.place], len(schema.columns)
    labels = np.zeros(records, np.int64)
    empty = Table(np.zeros((records, width)), labels, schema.columns, schema.target.classes)
    if terms.config.data.scaling == "noisy-moments" and agreed.plan.guarantee == "proved":
        measure(terms, agreed, schema, empty, moments_scale(terms, agreed, schema))
    matrix = columns_of(schema, terms.config), agreed.algorithm.objective.loss.outputs
    ask = Ask(terms.digest, 1, 0, np.zeros(matrix), np.zeros(width), np.ones(width))
    play_round(terms, agreed, Records(), empty, ask, state, round_scale(terms, agreed, ask, state))


def perturbed(terms: Terms, guarantee: str, name: Any, round: int, scale: float, query: Query | Argmin) -> Release:
    """Noise from the operating system; of a seed that the server knows, or none, only where nothing is protected."""
    assert isinstance(query, Query), "methods with noise in the objective are refused before"
    if terms.draws is not None:
        rng = stream(terms.draws, name, round, terms.place)
        return release(query, Drawn("gaussian", scale, rng.standard_normal(query.value.shape)))
    if guarantee == "none":
        return release(query, Drawn("gaussian", 0.0, np.zeros(query.value.shape)))
    return release(query, Exact(scale))


def _moments(terms: Terms, agreed: Agreed[Any], schema: Schema) -> Moments:
    return make_moments(terms.config, schema.numeric, schema.categorical, terms.holdings, agreed.plan)


def _drawn(terms: Terms, agreed: Agreed[Any], round: int, size: int) -> np.ndarray:
    source = SystemEntropy() if terms.draws is None else stream(terms.draws, "records", round, terms.place)
    return draw_records(
        source,
        np.array([size]),
        agreed.plan.sampling,
        terms.config.algorithm.work.batch_size,
        agreed.algorithm.local_steps,
    )


def _gradient_sum(terms: Terms, agreed: Agreed[Any], columns: int, divisor: float) -> GradientSum:
    """The public numbers that the rounding of a query depends on; how many records joined by chance is none of them."""
    records, steps = terms.sizes[terms.place], agreed.algorithm.local_steps
    poisson = agreed.plan.sampling == POISSON
    longest = records if poisson else terms.config.algorithm.work.batch_size or -(-records // steps)
    objective, row_norm = agreed.algorithm.objective, terms.config.data.row_norm
    assert row_norm is not None
    return GradientSum(
        gradient_bound=objective.gradient_bound(row_norm),
        row_norm=row_norm,
        smoothness=objective.smoothness(row_norm),
        columns=columns,
        outputs=objective.loss.outputs,
        records=longest,
        divisor=divisor,
    )
