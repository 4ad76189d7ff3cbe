"""How records are encoded, where the plan is to choose: by noise and counts of records, never by what cells hold."""

from functools import lru_cache
from math import ceil, inf, sqrt

from fedspd.algorithms.parts.rules import PARTICIPATIONS, multiplier_for, noise_per_path, rounds_for
from fedspd.assemble.agreement.common import averaged_clients, client_objective
from fedspd.assemble.cohorts import cohorts_of
from fedspd.assemble.records.deal import counted
from fedspd.config import Config
from fedspd.data import Cells, Schema
from fedspd.data.features.encoding import encoding_for
from fedspd.data.features.scaling import LARGE
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling
from fedspd.target import Target


def encoded(config: Config, cells: Cells) -> Cells:
    """The records under the schema that fits the budget; as they are where they are encoded as declared.

    Args:
        config: settled, so that it knows how many clients there are.
        cells: the records under their declared schema.
    """
    schema = schema_for(config, cells.schema, counted(config, cells.train))
    return _under(cells, schema) if cells.train.features.nbytes > LARGE else _remembered(cells, schema)


def schema_for(config: Config, schema: Schema, records: int) -> Schema:
    """The schema that fits the budget, or the declared one.

    Args:
        config: with the number of clients.
        schema: as it was declared.
        records: on all clients.
    """
    if config.data.encode == "declared":
        return schema
    return encoding_for(schema, noise_per_coordinate(config, records, schema.target, len(schema.columns)), records)


def _under(cells: Cells, schema: Schema) -> Cells:
    return cells.under(schema)


_remembered = lru_cache(maxsize=4)(_under)
"""Runs of a study that have one budget share the encoded records."""


def noise_per_coordinate(config: Config, records: int, target: Target, features: int) -> float:
    r"""Standard deviation of the noise on a coordinate of the mean gradient, of all uploads together: $2Gz/(m\sqrt N)$.

    Args:
        config: with the number of clients.
        records: on all clients.
        target: what is predicted.
        features: as they are declared; what spherical noise puts on each depends on their number.
    """
    held = records / (config.cohorts or config.partition.clients)
    objective, work = client_objective(config, held, target), config.algorithm.work
    bound = objective.gradient_bound(config.data.row_norm or 1.0)
    cohorts = cohorts_of(config)
    members, spread = (1.0, 1.0) if cohorts is None else (float(cohorts.sizes.mean()), cohorts.spread)
    multiplier = spread * _multiplier(config, max(int(held / members), 1), features * objective.loss.outputs)
    batch = min(work.batch_size * members, held) if work.batch_size else held
    return noise_per_path(bound, multiplier, batch, averaged_clients(config))


def _multiplier(config: Config, held: int, weights: int) -> float:
    """Noise over sensitivity, divided by the root of how often a client takes part."""
    privacy, work = config.privacy, config.algorithm.work
    times = _participations(config)
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier / sqrt(times)
    if privacy.epsilon == inf:
        return 0.0  # whoever agrees on a plan refuses it, and says why
    paid = times if privacy.budget == "total" else 1
    if config.algorithm.method.kind.law != "gaussian":  # the squared length of a vector has the mean d (d + 1)
        dimension = max(weights, 3)  # its accountant knows no fewer
        drawn = RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=2)
        return multiplier_for(drawn, held, paid, privacy.epsilon, privacy.delta) * sqrt((dimension + 1) / times)
    sampling = RecordSampling(WHOLE_SHARD)
    if work.batch_size is not None and work.batch_size * work.local_steps < held:
        sampling = RecordSampling(WITHOUT_REPLACEMENT, work.batch_size, work.local_steps)
    return multiplier_for(sampling, held, paid, privacy.epsilon, privacy.delta) / sqrt(times)


def _participations(config: Config) -> int:
    """How often a client takes part, as far as that is known before there is a plan."""
    participants, clients = min(config.participants, config.partition.clients), config.partition.clients
    if config.algorithm.method.needs.one_round:
        return 1
    rounds = config.run.rounds or rounds_for(PARTICIPATIONS, participants, clients)
    return config.run.most_participations or ceil(rounds * participants / clients)
