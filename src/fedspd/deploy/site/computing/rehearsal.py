"""A rehearsal before a run is entered, on records that hold nothing."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.data import Category, Schema, Table
from fedspd.deploy.protocol.messages import Ask, Count
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.site.computing.local import first_state, measure, moments_scale, play_round, round_scale
from fedspd.deploy.site.computing.measuring import count, counts_scale
from fedspd.deploy.site.computing.parts import part_of_counts, part_of_moments, part_of_round
from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.computing.tables import Held


def rehearse(terms: Terms, agreed: Agreed[Any], schema: Schema) -> None:
    """Play the first round, and release moments where the run does, on as many records that hold nothing.

    Whatever would fail for any records (a library that is missing, settings that do not fit, too little memory)
    fails here, before anything is charged. What is computed has seen no record and is thrown away.
    """
    width, empty = len(schema.columns), _empty(terms, schema, int(terms.trained[terms.place]))
    matrix = columns_of(schema, terms.config), agreed.algorithm.objective.loss.outputs
    ask = Ask(terms.digest, 1, 0, np.zeros(matrix), np.zeros(width), np.ones(width), 1.0)
    measured = terms.config.data.scaling == "noisy-moments" and agreed.plan.guarantee == "proved"
    if terms.shares_noise:
        if measured:
            part_of_moments(terms, agreed, schema, empty)
        part_of_round(terms, agreed, Records(), ask, empty)
        if terms.bins:
            part_of_counts(terms, agreed, schema, *_held(terms, schema, ask))
        return
    if measured:
        measure(terms, agreed, schema, empty, moments_scale(terms, agreed, schema))
    state = first_state(terms, agreed, schema)
    play_round(terms, agreed, Records(), empty, ask, state, round_scale(terms, agreed, ask, state))
    if terms.bins:
        count(terms, agreed, schema, *_held(terms, schema, ask), counts_scale(terms, agreed, schema))


def _held(terms: Terms, schema: Schema, ask: Ask) -> tuple[Held, Count]:
    """What is held out, and what it is counted by."""
    held = _empty(terms, schema, int(terms.held_out[terms.place]))
    return Held(held, np.ones(len(held))), Count(terms.digest, ask.weights, ask.mean, ask.deviation)


def _empty(terms: Terms, schema: Schema, records: int) -> Table:
    """So many records that hold nothing."""
    labels = np.zeros(records, np.int64)
    cells = {terms.subgroup: labels} if terms.subgroup else {}
    empty = Table(np.zeros((records, len(schema.columns))), labels, schema.columns, schema.target.classes, cells=cells)
    if terms.unit != "person":
        return empty
    return replace(empty, persons=Category(np.arange(records), tuple(map(str, range(records)))))
