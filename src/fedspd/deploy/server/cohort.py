"""The server's side of a run whose sites share noise: they are one cohort, whose state follows from released sums."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedspd.assemble import Agreed
from fedspd.data import Schema
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP
from fedspd.deploy.protocol.sums import moments_part, round_part
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.deploy.server.checks import GENEROUS, Limit
from fedspd.deploy.server.gather import Gathered
from fedspd.deploy.site.memory import from_bytes, to_bytes
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
    noise, whole = 2 * part.noise.scale * np.sqrt(columns * outputs), sum(terms.sizes)
    reaches = {place: float(part.reach * terms.sizes[place] / whole + noise) for place in places}
    return {place: Limit(GENEROUS * reach, reach) for place, reach in reaches.items()}


def merged(checkpoint: Checkpoint, terms: Terms, agreed: Agreed[Any], told: Any, found: Gathered) -> Checkpoint:
    """The cohort's step from a released sum, and the server's.

    A sum over those who arrived stands for all: it is divided by so much less as records are missing.
    """
    algorithm, total = agreed.algorithm, found.stack.sum(axis=0)[None]
    arrived = sum(terms.sizes[place] for place in found.numbers)
    state, previous = _standing(checkpoint, agreed, total)
    state, reply = algorithm.settle(told, state, Release(total * (sum(terms.sizes) / arrived)), None)
    server = algorithm.merge(checkpoint.server, told, reply, previous, np.ones(1))
    return replace(checkpoint, server=np.asarray(server), cohort=np.frombuffer(to_bytes((state, reply))))


def _standing(checkpoint: Checkpoint, agreed: Agreed[Any], like: np.ndarray) -> Any:
    """State and last reply of the cohort."""
    first = agreed.algorithm.start(np.zeros_like(like))[1:]
    return from_bytes(first, checkpoint.cohort.tobytes()) if checkpoint.cohort.size else first
