"""What a site computes: the client legs of a method on the site's own records, with noise and draws of its own."""

from functools import partial
from typing import Any, cast

import numpy as np

from fedspd.algorithms.base import BoundsRounding, at_weights
from fedspd.assemble import Agreed
from fedspd.data import Schema, Shards, Table
from fedspd.deploy.protocol.messages import Ask, AskMasked
from fedspd.deploy.protocol.sums import gradient_sum, moments_of, moments_rounding
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.site.computing.records import Records, units_of
from fedspd.deploy.site.policy import Refusal
from fedspd.engine.batches import draw_records, gather_batches
from fedspd.engine.draws import stream
from fedspd.engine.entropy import SystemEntropy
from fedspd.engine.release import Drawn, Exact, release
from fedspd.engine.round import Played, play
from fedspd.privacy import POISSON, GradientSum
from fedspd.typing import Argmin, Batches, Query, Release

ONE = np.zeros(1, np.int64)  # a real client is a stack of one


def moments_scale(terms: Terms, agreed: Agreed[Any], schema: Schema) -> float:
    """The noise on the site's moments, from public numbers."""
    rounding = moments_rounding(terms, schema, int(terms.trained[terms.place]))
    sensitivity = moments_of(terms, agreed, schema).sensitivity + 2 * rounding
    return checked_scale(agreed, float(agreed.plan.moments_scale(sensitivity)[terms.place]))


def measure(terms: Terms, agreed: Agreed[Any], schema: Schema, table: Table, scale: float) -> np.ndarray:
    """The noised sums of the site's columns."""
    query = moments_query(terms, agreed, schema, table)
    return np.asarray(perturbed(terms, agreed.plan.guarantee, "moments", 0, scale, query).value)[0]


def moments_query(terms: Terms, agreed: Agreed[Any], schema: Schema, table: Table) -> Query:
    """The sums themselves, which must not leave the site."""
    units, ends = units_of(terms.unit, table), np.array([0, len(table)])
    return moments_of(terms, agreed, schema).query(table.features, ends, None if units is None else units.shares)


def first_state(terms: Terms, agreed: Agreed[Any], schema: Schema) -> Any:
    """What a site carries before its first round: public."""
    matrix = columns_of(schema, terms.config), agreed.algorithm.objective.loss.outputs
    return agreed.algorithm.start(np.zeros((1, *matrix)))[1]


def round_scale(terms: Terms, agreed: Agreed[Any], ask: Ask | AskMasked, state: Any) -> float:
    """The noise on the site's query, from public numbers: what rounding may do is part of the sensitivity."""
    algorithm, divisor = agreed.algorithm, terms.batch(agreed)
    sensitivity = algorithm.sensitivity(ask.round, divisor)
    if agreed.plan.guarantee == "proved":
        told = told_by(algorithm, ask)
        batch = _gradient_sum(terms, agreed, ask.weights.shape[0], float(divisor[0]))
        # records of later steps are charged for less, but what rounding may do is the same for all
        rounding = cast(BoundsRounding, algorithm).rounding(told, state, batch) / agreed.plan.draws.least_distance
        sensitivity = sensitivity + 2 * rounding
    return checked_scale(agreed, float(np.max(agreed.plan.noise_scale(ONE + terms.place, sensitivity))))


def told_by(algorithm: Any, ask: Ask | AskMasked) -> Any:
    """What the server says: the weights and the stretch that came, and what the round has of its own."""
    server = algorithm.start(np.zeros((1, *ask.weights.shape)))[0]
    return algorithm.broadcast(at_weights(server, ask.weights), ask.round)._replace(stretch=ask.stretch)


def checked_scale(agreed: Agreed[Any], scale: float) -> float:
    """Refuse settings whose noise is no number, before anything is spent."""
    if agreed.plan.guarantee != "none" and not 0 < scale < np.inf:
        raise Refusal("the run's step sizes give no noise scale that is positive and finite.")
    return scale


def play_round(
    terms: Terms, agreed: Agreed[Any], records: Records, table: Table, ask: Ask | AskMasked, state: Any, scale: float
) -> Played:
    """One round on the site's records: the engine's own `play`."""
    algorithm, batches = agreed.algorithm, batches_of(terms, agreed, records, table, ask)
    make_noise = partial(perturbed, terms, agreed.plan.guarantee, "noise", ask.round, scale)
    return play(algorithm, told_by(algorithm, ask), state, batches, lambda query, _: make_noise(query), None)


def batches_of(terms: Terms, agreed: Agreed[Any], records: Records, table: Table, ask: Ask | AskMasked) -> Batches:
    """The records that a round uses, scaled as the server says.

    Guarantees:
        How long the round takes does not follow how many rows were drawn: where that is chance, or private, all rows
        of the table take part, those that were not drawn with a share of zero.
    """
    data = terms.config.data
    assert data.row_norm is not None
    features = records.features(table, ask.mean, ask.deviation, data.bias, data.row_norm)
    units = units_of(terms.unit, table)
    shard = Shards(features, table.labels, np.array([0, len(table)]), None, units=units)
    drawn, divisor = _drawn(terms, agreed, ask.round, int(shard.sizes[0])), terms.batch(agreed)
    if agreed.plan.guarantee != "proved" or _of_one_length(terms, agreed):
        return gather_batches(shard, ONE, drawn, divisor)
    return _shared_batches(shard, drawn[0], divisor)


def _of_one_length(terms: Terms, agreed: Agreed[Any]) -> bool:
    """Whether a round has as many rows whatever is drawn."""
    once = terms.shares_noise or agreed.algorithm.local_steps == 1
    whole = terms.config.algorithm.work.batch_size is None and once
    return whole or (terms.unit == "record" and agreed.plan.sampling != POISSON)


def _shared_batches(shard: Shards, drawn: np.ndarray, divisor: np.ndarray) -> Batches:
    """All rows of a site for each local step, with a share of zero where they were not drawn for it."""
    steps, units = len(drawn), int(shard.sizes[0])
    joined = np.zeros((steps, units + 1))  # the last place is for nobody
    joined[np.arange(steps)[:, None], drawn] = 1.0  # no proved sampling draws anybody twice
    shares = joined[:, :units]
    if shard.units is not None:
        shares = np.repeat(shares, shard.units.rows, axis=1) * shard.units.shares
    features = np.broadcast_to(shard.features, (1, steps, *np.shape(shard.features)))
    return Batches(features, np.broadcast_to(shard.labels, (1, *shares.shape)), divisor, shares[None])


def perturbed(terms: Terms, guarantee: str, name: Any, round: int, scale: float, query: Query | Argmin) -> Release:
    """Noise from the operating system; of a seed that the server knows, or none, only where nothing is protected."""
    assert isinstance(query, Query), "methods with noise in the objective are refused before"
    if terms.draws is not None:
        rng = stream(terms.draws, name, round, terms.place)
        return release(query, Drawn("gaussian", scale, rng.standard_normal(query.value.shape)))
    if guarantee == "none":
        return release(query, Drawn("gaussian", 0.0, np.zeros(query.value.shape)))
    return release(query, Exact(scale))


def _drawn(terms: Terms, agreed: Agreed[Any], round: int, size: int) -> np.ndarray:
    source = SystemEntropy() if terms.draws is None else stream(terms.draws, "records", round, terms.place)
    batch_size = terms.config.algorithm.work.batch_size
    if batch_size is not None and terms.shares_noise:
        batch_size = int(terms.drawn[terms.place])
    steps = 1 if terms.shares_noise else agreed.algorithm.local_steps  # of a cohort they may be its members
    return draw_records(source, np.array([size]), agreed.plan.sampling, batch_size, steps)


def _gradient_sum(terms: Terms, agreed: Agreed[Any], columns: int, divisor: float) -> GradientSum:
    """The public numbers that the rounding of a query depends on; how many records joined by chance is none of them."""
    records, steps = int(terms.trained[terms.place]), agreed.algorithm.local_steps
    poisson = agreed.plan.sampling == POISSON
    longest = records if poisson else terms.config.algorithm.work.batch_size or -(-records // steps)
    return gradient_sum(terms, agreed, columns, longest, divisor)
