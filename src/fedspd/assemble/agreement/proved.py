"""Agree on a method whose privacy is proved: nothing is computed from records without being charged."""

from dataclasses import replace
from math import inf

import numpy as np

from fedspd.algorithms import METHODS, Algorithm, Made, Work
from fedspd.algorithms.base import AveragesSteps, PerturbsObjective, TakesTurns
from fedspd.algorithms.parts.rules import multiplier_for
from fedspd.assemble.agreement.common import Agreed, public_numbers
from fedspd.assemble.cohorts import Cohorts, cohorts_of, most_crowded, pooled_holdings
from fedspd.assemble.extensions import check_proof
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, RecordSampling, plan_proved
from fedspd.privacy.plans.sampling import sizes_that_matter
from fedspd.target import Target


def agree(
    config: Config, holdings: Holdings, columns: int, target: Target, cohorts: Cohorts | None = None
) -> Agreed[ProvedPlan]:
    """Method, plan and rounds, with what the settings leave open filled in by rule."""
    _check(config)
    if config.privacy.unit == "client":
        _check_clients(config)
    _check_delta(config, holdings)
    dealt = cohorts_of(config)  # checked in any case
    cohorts = cohorts or dealt
    units = pooled_holdings(holdings, cohorts)
    crowded = cohorts and most_crowded(holdings, config.algorithm.work.batch_size)
    public = public_numbers(config, units, columns, target, cohorts=cohorts)
    made = config.algorithm.method.make(public, config.algorithm.settings)
    _check_unit(config, made.algorithm)
    check_proof(config.algorithm.method, made.algorithm, public.declared_norm, config.privacy.unit)
    work = Work() if config.privacy.unit == "client" else config.algorithm.work  # one contribution, however made
    sampling = make_sampling(made, work, public.dimension, units)
    sampling = replace(sampling, unit=config.privacy.unit)
    if cohorts is None:
        return Agreed(made, make_plan(config, units, sampling, made))
    sampling = replace(sampling, sharing=cohorts.sharing, crowded=crowded)
    return Agreed(made, make_plan(config, units, sampling, made, cohorts.sizes))


def make_sampling(made: Made, work: Work, dimension: int, holdings: Holdings) -> RecordSampling:
    """How records are drawn, with what the accounting must know of the local steps and of the noise."""
    algorithm = made.algorithm
    # an average of local iterates counts early steps more than late ones
    contraction = algorithm.contraction if isinstance(algorithm, AveragesSteps) else 0.0
    if work.batch_size is not None:
        return RecordSampling(work.sampling, work.batch_size, work.local_steps, contraction, made.max_batch)
    if isinstance(algorithm, PerturbsObjective):
        return RecordSampling(
            WHOLE_SHARD, law="objective", jacobian=algorithm.jacobian(holdings.divisors), dimension=dimension,
            directions=algorithm.directions,
        )  # fmt: skip
    if algorithm.law == "laplace":
        return RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=1)
    blocks = algorithm.blocks if isinstance(algorithm, TakesTurns) else 1
    return RecordSampling(WHOLE_SHARD, None, work.local_steps, contraction, blocks=blocks)


def make_plan(
    config: Config, holdings: Holdings, sampling: RecordSampling, made: Made, members: np.ndarray | None = None
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
        config.evaluation.kept,
    )


def _check_unit(config: Config, algorithm: Algorithm) -> None:
    """Refuse persons where the proof speaks of single records."""
    if config.privacy.unit == "record":
        return
    why = None
    if algorithm.exact:
        why = "minimizes sub-problems exactly, and its proof bounds what a single record does to them"
    elif isinstance(algorithm, TakesTurns):
        why = "uses records by turns, by their place at the client, which would cut a person's rows apart"
    if why is not None:
        able = [name for name, method in METHODS.items() if method.guarantee == "proved" and not method.kind.exact]
        others = ", ".join(name for name in able if not hasattr(METHODS[name].kind, "blocks"))
        raise InputError(
            f"privacy.unit must be record with {config.algorithm.name}, which {why}, got {config.privacy.unit}; use "
            f"one of {others}, or privacy.unit = record."
        )


def _check_clients(config: Config) -> None:
    """Refuse to protect whole clients whose uploads are seen one by one."""
    if config.privacy.trust != "secure-sums":
        raise InputError(
            "privacy.unit = client needs privacy.trust = secure-sums, since noise that hides all rows of a client in "
            "its own upload hides what it learned too, got each-upload; set the trust, or protect persons or records."
        )
    if config.algorithm.work.batch_size is not None:
        raise InputError(
            "privacy.unit = client uses all rows of a client in every round, got algorithm.batch_size = "
            f"{config.algorithm.work.batch_size}; leave it out."
        )
    if config.evaluation.held_out is not None:
        raise InputError(
            "records that are held out are counted by record or by person, got evaluation.held_out with privacy.unit = "
            "client; leave one of them out."
        )


def _check_delta(config: Config, holdings: Holdings) -> None:
    """A mechanism that publishes one record in n whole has delta = 1/n: from there on a proof says little."""
    privacy, records, unit = config.privacy, holdings.records, config.privacy.unit
    if privacy.delta * records >= 1 and not privacy.allow_large_delta:
        raise InputError(
            f"privacy.delta must be below 1 / {unit}s for a proved claim, {1 / records:.3g} with {records} {unit}s, "
            f"got {privacy.delta:g}; lower it, or set privacy.allow_large_delta = true."
        )
    if privacy.delta * records < 1 and privacy.allow_large_delta:
        raise InputError(
            f"privacy.allow_large_delta would have no effect, got true with a delta of {privacy.delta:g}, which is "
            f"below 1 / {unit}s = {1 / records:.3g}; leave it out."
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
    moments = config.data.moments_share if config.data.scaling == "noisy-moments" else 0.0
    if moments + config.evaluation.kept >= 1:
        raise InputError(
            "data.moments_share and evaluation.share must leave a part of the budget to the rounds, got "
            f"{moments:g} and {config.evaluation.kept:g}; lower one of them."
        )
    if config.privacy.epsilon == inf:
        raise InputError(
            "privacy.epsilon must be finite for a proved guarantee, got inf; use the published method without noise."
        )
