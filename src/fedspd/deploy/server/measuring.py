"""The measurement at the end of a run: each site is asked once for counts of what it held out."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.assemble.finished.evaluation import Asked, concluded
from fedspd.data import Schema
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.counts import cells_of, counting_of
from fedspd.deploy.protocol.sums import counts_part, counts_scales
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.deploy.server.checks import largest_counts
from fedspd.deploy.server.gather import Gathered, Mail, gather_counts
from fedspd.deploy.server.results import models_of, recipe_of
from fedspd.deploy.server.settings import Measure
from fedspd.results.evaluation import Evaluation
from fedspd.scoring.model import Model


def ask_for_counts(
    mail: Mail, checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], schema: Schema, measure: Measure
) -> Gathered:
    """The counts of those who have not retired, by what the finished model says of their records."""
    weights = np.ascontiguousarray(models_of(checkpoint, terms, agreed)[measure.average])
    asks = {
        place: messages.Count(checkpoint.roster[place].terms, weights, checkpoint.mean, checkpoint.deviation)
        for place in checkpoint.standing
    }
    counting, scales = counting_of(terms, schema), counts_scales(terms, agreed, schema)
    cells, tables = cells_of(counting), len(counting.shapes)
    limits = {place: largest_counts(tables, cells, int(terms.held_out[place]), float(scales[place])) for place in asks}
    step = counts_part(terms, agreed, schema).noise.grid if terms.shares_noise else MOMENTS_STEP
    return gather_counts(mail, asks, cells, limits, step)


def kept_words(terms: Terms) -> str:
    """What the plan keeps for the measurement, as a clause."""
    if not terms.bins:
        return ""
    share, held = terms.config.evaluation.share, int(terms.held_out.sum())
    return f"; {share:.3g} of the squared budget is kept to measure the model on {held} held-out {terms.unit}s"


def with_counts(checkpoint: Checkpoint, found: Gathered) -> Checkpoint:
    """Remember the sum, and whose counts are in it; none: the model is not measured."""
    counted, sums = tuple(sorted(found.numbers)), found.stack.sum(axis=0)
    for place, number in found.numbers.items():
        checkpoint = checkpoint.with_member(place, charges=number)
    return replace(checkpoint, evaluated=True, counted=counted, counts=sums if counted else np.zeros(0))


def evaluation_of(
    checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], schema: Schema, measure: Measure
) -> Evaluation | None:
    """What the sum of the noised counts says; None where the model was not measured."""
    if not checkpoint.counted:
        return None
    places = np.array(checkpoint.counted)
    asked = Asked(measure.average, terms.bins, terms.subgroup or None, measure.least_size)
    weights = models_of(checkpoint, terms, agreed)[measure.average]
    model = Model(weights, recipe_of(checkpoint, terms, schema), agreed.algorithm.objective.loss)
    return concluded(
        agreed.plan, counting_of(terms, schema), checkpoint.counts, counts_scales(terms, agreed, schema)[places], asked,
        model, 1, int(terms.held_out[places].sum()), charged=terms.draws is None,
    )  # fmt: skip
