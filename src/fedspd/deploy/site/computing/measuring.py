"""What a site counts of the records that it held out: where each stands by what a model says of it, with noise."""

from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.data import Recipe, Schema, finish
from fedspd.deploy.protocol.counts import counting_of
from fedspd.deploy.protocol.messages import Count, CountMasked
from fedspd.deploy.protocol.sums import counts_scales
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.computing.local import checked_scale, perturbed
from fedspd.deploy.site.computing.tables import Held
from fedspd.evaluate.counting import places_by
from fedspd.scoring.model import Model
from fedspd.typing import Query


def counts_scale(terms: Terms, agreed: Agreed[Any], schema: Schema) -> float:
    """The noise on the site's counts, from public numbers."""
    return checked_scale(agreed, float(counts_scales(terms, agreed, schema)[terms.place]))


def count(
    terms: Terms, agreed: Agreed[Any], schema: Schema, held: Held, request: Count | CountMasked, scale: float
) -> np.ndarray:
    """The noised counts.

    Args:
        held: the records that were held out.
        request: the model.
        scale: of the noise.
    """
    query = counts_query(terms, agreed, schema, held, request)
    return np.asarray(perturbed(terms, agreed.plan.guarantee, "evaluation", 0, scale, query).value)[0]


def counts_query(terms: Terms, agreed: Agreed[Any], schema: Schema, held: Held, request: Count | CountMasked) -> Query:
    """The counts themselves, which must not leave the site."""
    data, counting = terms.config.data, counting_of(terms, schema)
    assert data.row_norm is not None
    recipe = Recipe(schema, "unit", request.mean, request.deviation, data.bias, data.row_norm)
    model = Model(request.weights, recipe, agreed.algorithm.objective.loss)
    scores = finish(held.table.features, request.mean, request.deviation, data.bias, data.row_norm) @ request.weights
    places = places_by(model, scores, held.table, counting, terms.subgroup or None)
    return counting.query(places, held.weights, np.zeros(len(held.table), np.int64), 1)
