"""A site's part of a sum whose noise all sites share: whole numbers, which leave the site under masks, and only once.

The site computes a query at the weights it was sent, and nothing more: proximal step and dual follow from the released
sum, at the server. What a member carried from round to round would be a function of its own noise, which the sum does
not tell, and no round would be charged for it (`docs/proofs/secure-sums.md`).
"""

from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.data import Schema, Table
from fedspd.deploy.masks.fixed_point import encode
from fedspd.deploy.protocol.messages import Ask, AskMasked, Count, CountMasked
from fedspd.deploy.protocol.sums import Part, counts_part, moments_part, round_part
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.computing.local import batches_of, moments_query, told_by
from fedspd.deploy.site.computing.measuring import counts_query
from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.computing.tables import Held
from fedspd.engine.draws import Stream, stream
from fedspd.engine.release import Drawn, Whole, release
from fedspd.typing import Query


def part_of_round(
    terms: Terms, agreed: Agreed[Any], records: Records, ask: Ask | AskMasked, table: Table
) -> np.ndarray:
    """The site's share of the pooled query, with its share of the noise, modulo 2^64."""
    algorithm, part = agreed.algorithm, round_part(terms, agreed, ask.weights.shape[0])
    nothing = algorithm.start(np.zeros((1, *ask.weights.shape)))[1]
    query, _ = algorithm.query(told_by(algorithm, ask), nothing, batches_of(terms, agreed, records, table, ask))
    assert isinstance(query, Query), "methods with noise in the objective are refused before"
    return _numbers(terms, "noise", ask.round, part, query)


def part_of_moments(terms: Terms, agreed: Agreed[Any], schema: Schema, table: Table) -> np.ndarray:
    """The sums of the site's columns, likewise."""
    query = moments_query(terms, agreed, schema, table)
    return _numbers(terms, "moments", 0, moments_part(terms, agreed, schema), query)


def part_of_counts(
    terms: Terms, agreed: Agreed[Any], schema: Schema, held: Held, request: Count | CountMasked
) -> np.ndarray:
    """Counts of the records that the site held out, likewise."""
    query = counts_query(terms, agreed, schema, held, request)
    return _numbers(terms, "evaluation", 0, counts_part(terms, agreed, schema), query)


def _numbers(terms: Terms, name: Stream, round: int, part: Part, query: Query) -> np.ndarray:
    """Noise from the operating system; of a seed that the server knows only where nothing is protected."""
    scale, grid = part.noise.scale, part.noise.grid
    if terms.draws is None:
        return np.asarray(release(query, Whole(scale, grid, part.reach)).value)[0].ravel()
    normals = stream(terms.draws, name, round, terms.place).standard_normal(query.value.shape)
    noised = np.asarray(release(query, Drawn("gaussian", scale, normals)).value)[0]
    return encode(noised.ravel(), grid, len(terms.sizes))
