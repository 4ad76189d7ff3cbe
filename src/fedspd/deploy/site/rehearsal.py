"""A rehearsal before a run is entered, on records that hold nothing."""

from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.data import Schema, Table
from fedspd.deploy.protocol.messages import Ask
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.site.local import first_state, measure, moments_scale, play_round, round_scale
from fedspd.deploy.site.parts import part_of_moments, part_of_round
from fedspd.deploy.site.records import Records


def rehearse(terms: Terms, agreed: Agreed[Any], schema: Schema) -> None:
    """Play the first round, and release moments where the run does, on as many records that hold nothing.

    Whatever would fail for any records (a library that is missing, settings that do not fit, too little memory)
    fails here, before anything is charged. What is computed has seen no record and is thrown away.
    """
    records, width = terms.sizes[terms.place], len(schema.columns)
    labels = np.zeros(records, np.int64)
    empty = Table(np.zeros((records, width)), labels, schema.columns, schema.target.classes)
    matrix = columns_of(schema, terms.config), agreed.algorithm.objective.loss.outputs
    ask = Ask(terms.digest, 1, 0, np.zeros(matrix), np.zeros(width), np.ones(width))
    measured = terms.config.data.scaling == "noisy-moments" and agreed.plan.guarantee == "proved"
    if terms.shares_noise:
        if measured:
            part_of_moments(terms, agreed, schema, empty)
        part_of_round(terms, agreed, Records(), ask, empty)
        return
    if measured:
        measure(terms, agreed, schema, empty, moments_scale(terms, agreed, schema))
    state = first_state(terms, agreed, schema)
    play_round(terms, agreed, Records(), empty, ask, state, round_scale(terms, agreed, ask, state))
