"""The server's side of a run whose sites share noise: the state of cohorts, which follows from released sums."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.assemble.cohorts import asked
from fedspd.data import Schema
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP
from fedspd.deploy.protocol.sums import longest_batches, moments_part, round_part
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.deploy.server.checks import GENEROUS, Limit
from fedspd.deploy.server.gather import Gathered
from fedspd.deploy.site.memory import from_bytes, to_bytes
from fedspd.engine.client_tables import gather, scatter, writable
from fedspd.engine.participation import choose_among
from fedspd.typing import Release


def upload_step(terms: Terms, agreed: Agreed[Any], schema: Schema) -> float:
    """Of the whole numbers that uploads are under masks; where sites share noise, the grid of that."""
    return round_part(terms, agreed, columns_of(schema, terms.config)).noise.grid if terms.shares_noise else STEP


def moments_step(terms: Terms, agreed: Agreed[Any], schema: Schema) -> float:
    """The same of moments."""
    return moments_part(terms, agreed, schema).noise.grid if terms.shares_noise else MOMENTS_STEP


def part_limits(terms: Terms, agreed: Agreed[Any], schema: Schema, places: list[int]) -> dict[int, Limit]:
    """What is believed of each site's part of a sum: its share of a mean of clipped gradients, and noise."""
    columns, outputs = columns_of(schema, terms.config), agreed.algorithm.objective.loss.outputs
    part = round_part(terms, agreed, columns)
    noise, shares = 2 * part.noise.scale * np.sqrt(columns * outputs), longest_batches(terms, agreed)
    whole = max(float(terms.batch(agreed)[0]), float(shares.max()))
    reaches = {place: float(part.reach * shares[place] / whole + noise) for place in places}
    return {place: Limit(GENEROUS * reach, reach) for place, reach in reaches.items()}


def chosen_by_cohort(terms: Terms, may: np.ndarray, round: int) -> np.ndarray:
    """Who is asked where sites share noise: whole cohorts, drawn as in a simulation among those that can be summed."""
    config, same = terms.config, terms.config.run.selection == "fixed"
    able = np.array([may[places].sum() >= terms.threshold for places in terms.in_cohorts])
    cohorts = choose_among(config.run.seed or 0, round, asked(config), same, able, int(able.sum()))
    return np.flatnonzero(may & np.isin(terms.cohort, cohorts))


def merged(checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], told: Any, found: Gathered) -> Checkpoint:
    """The steps of the cohorts from their released sums, and the server's.

    A sum over those who arrived stands for all: it is divided by so much less as records are missing. A cohort of which
    nothing was summed stays as it was.
    """
    places = np.array(list(found.numbers), int)
    cohorts = np.unique(terms.cohort[places])
    if not len(cohorts):
        return checkpoint
    algorithm, (state, replies) = agreed.algorithm, _standing(checkpoint, terms, agreed)
    totals = np.array([_for_all(terms, number, places, found.stack) for number in cohorts])
    own, reply = algorithm.settle(told, gather(state, cohorts), Release(totals), None)
    server = algorithm.merge(checkpoint.server, told, reply, replies[cohorts], np.ones(len(cohorts)))
    scatter(state, cohorts, own)
    scatter(replies, cohorts, reply)
    return replace(checkpoint, server=np.asarray(server), cohort=np.frombuffer(to_bytes((state, replies))))


def _for_all(terms: Terms, cohort: int, places: np.ndarray, stack: np.ndarray) -> np.ndarray:
    """The sum of a cohort, as if all of its members had arrived."""
    arrived, members = terms.cohort[places] == cohort, terms.drawn[terms.in_cohorts[cohort]]
    return stack[arrived].sum(axis=0) * (members.sum() / terms.drawn[places[arrived]].sum())


def _standing(checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any]) -> Any:
    """States and last replies of the cohorts."""
    matrix = checkpoint.server.shape[-2:]
    first = writable(agreed.algorithm.start(np.zeros((len(terms.in_cohorts), *matrix)))[1:])
    return from_bytes(first, checkpoint.cohort.tobytes()) if checkpoint.cohort.size else first
