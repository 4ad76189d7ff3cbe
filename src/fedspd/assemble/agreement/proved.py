"""Agree on a method whose privacy is proved: nothing is computed from records without being charged."""

from math import inf

import numpy as np

from fedspd.algorithms import Made, Work
from fedspd.algorithms.base import AveragesSteps, PerturbsObjective, TakesTurns
from fedspd.algorithms.parts.rules import multiplier_for
from fedspd.assemble.agreement.common import Agreed, public_numbers
from fedspd.assemble.cohorts import cohorts_of
from fedspd.assemble.extensions import check_proof
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, RecordSampling, SharedNoise, plan_proved
from fedspd.privacy.plans.sampling import sizes_that_matter
from fedspd.target import Target


def agree(config: Config, holdings: Holdings, columns: int, target: Target) -> Agreed[ProvedPlan]:
    """Method, plan and rounds, with what the settings leave open filled in by rule."""
    _check(config)
    _check_delta(config, holdings)
    public = public_numbers(config, holdings, columns, target)
    made = config.algorithm.method.make(public, config.algorithm.settings)
    check_proof(config.algorithm.method, made.algorithm, public.declared_norm)
    cohorts = cohorts_of(config)
    sampling = make_sampling(made, config.algorithm.work, public.dimension, holdings, cohorts and cohorts.sharing)
    return Agreed(made, make_plan(config, holdings, sampling, made, None if cohorts is None else cohorts.sizes))


def make_sampling(
    made: Made, work: Work, dimension: int, holdings: Holdings, sharing: SharedNoise | None = None
) -> RecordSampling:
    """How records are drawn, with what the accounting must know of the local steps and of the noise."""
    algorithm = made.algorithm
    # an average of local iterates counts early steps more than late ones
    contraction = algorithm.contraction if isinstance(algorithm, AveragesSteps) else 0.0
    if work.batch_size is not None:
        return RecordSampling(
            work.sampling, work.batch_size, work.local_steps, contraction, made.max_batch, sharing=sharing
        )
    if isinstance(algorithm, PerturbsObjective):
        return RecordSampling(
            WHOLE_SHARD, law="laplace", jacobian=algorithm.jacobian(holdings.divisors), dimension=dimension,
            directions=algorithm.directions,
        )  # fmt: skip
    if algorithm.law == "laplace":
        return RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=1)
    blocks = algorithm.blocks if isinstance(algorithm, TakesTurns) else 1
    return RecordSampling(WHOLE_SHARD, None, work.local_steps, contraction, blocks=blocks, sharing=sharing)


def make_plan(
    config: Config, holdings: Holdings, sampling: RecordSampling, made: Made, members: np.ndarray | None
) -> ProvedPlan:
    """Noise for a total budget, or for one round's, of which the total is then what all rounds cost."""
    privacy, sizes = config.privacy, holdings.sizes
    multiplier = privacy.noise_multiplier
    assert made.participations is not None, "a proved method counts participations"
    if privacy.budget == "round":
        # The smallest shard has the highest sampling rate, the largest the most crowded batches; of whole shards those
        # that do not divide evenly have the earliest records.
        worst = sizes_that_matter(sampling, sizes) if sampling.counts_positions else (sizes.min(), sizes.max())
        extremes = {int(size) for size in worst}
        multiplier = max(multiplier_for(sampling, size, 1, privacy.epsilon, privacy.delta) for size in extremes)
    return plan_proved(
        privacy.epsilon,
        privacy.delta,
        sampling,
        sizes,
        made.participations,
        config.data.moments_share if config.data.scaling == "noisy-moments" else 0.0,
        multiplier,
        privacy.accountant,
        members,
        privacy.epsilon_alone,
    )


def _check_delta(config: Config, holdings: Holdings) -> None:
    """A mechanism that publishes one record in n whole has delta = 1/n: from there on a proof says little."""
    privacy, records = config.privacy, holdings.records
    if privacy.delta * records >= 1 and not privacy.allow_large_delta:
        raise InputError(
            f"privacy.delta must be below 1 / records for a proved claim, {1 / records:.3g} with {records} records, "
            f"got {privacy.delta:g}; lower it, or set privacy.allow_large_delta = true."
        )
    if privacy.delta * records < 1 and privacy.allow_large_delta:
        raise InputError(
            f"privacy.allow_large_delta would have no effect, got true with a delta of {privacy.delta:g}, which is "
            f"below 1 / records = {1 / records:.3g}; leave it out."
        )


def _check(config: Config) -> None:
    if config.data.scaling == "z-score":
        raise InputError(
            "data.scaling must be noisy-moments or min-max for a proved guarantee, got z-score, whose statistics "
            "are read from the records without being charged; choose one of those."
        )
    if config.data.scaling == "none":
        raise InputError(
            "data.scaling must be noisy-moments or min-max for a proved guarantee, which rests on declared bounds, got "
            "none; choose one of those."
        )
    if config.privacy.epsilon == inf:
        raise InputError(
            "privacy.epsilon must be finite for a proved guarantee, got inf; use the published method without noise."
        )
