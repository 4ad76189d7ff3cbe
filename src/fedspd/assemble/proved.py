"""Build a method whose privacy is proved: nothing is computed from records without being charged."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from fedspd.algorithms import Made, Moments, Work, choose_levels
from fedspd.algorithms.base import FlipsLabels, PerturbsObjective, TakesTurns
from fedspd.algorithms.parts.rules import multiplier_for
from fedspd.assemble.build import Agreed, Experiment, deal, measured_on, public_numbers, settings_of
from fedspd.assemble.extensions import check_proof
from fedspd.assemble.gate import LedgerGate, open_gate
from fedspd.config import Config
from fedspd.data import Declared, Holdings, Shards, Table, declare, finish
from fedspd.engine import Simulation, stream
from fedspd.engine.release import flip_labels, release_moments
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, RecordSampling, plan_proved
from fedspd.privacy.ledger import Ledger
from fedspd.privacy.plans.proved import sizes_that_matter


def build(config: Config, open_ledger: Callable[[], Ledger] | None) -> Experiment:
    """Public schema, plan, charged scaling, method."""
    schema = declare(config.data.columns, config.data.log_capital)  # pyright: ignore[reportArgumentType]
    train, test = measured_on(config, schema.train, schema.test)
    declared = replace(schema, train=train, test=test)
    shards = deal(config, train)
    columns = len(train.columns) + (config.data.bias != 0)
    agreed = agree(config, shards.holdings, columns, len(train.classes))
    simulation = Simulation(
        shards=shards,
        test=test,
        algorithm=agreed.algorithm,
        plan=agreed.plan,
        rounds=agreed.rounds,
        **settings_of(config),
    )
    simulation.check()
    gate = None if open_ledger is None else open_gate(open_ledger(), agreed.plan, config, shards)
    scaled = scale(config, declared, simulation, agreed.plan, gate)
    if isinstance(agreed.algorithm, FlipsLabels):
        coins = stream(config.run.seed, "labels")
        scaled = replace(scaled, shards=flip_labels(scaled.shards, agreed.algorithm.flip_chance, coins))
    return Experiment(config, scaled, agreed.plan, agreed.made, scaled.test.columns, scaled.test.classes, gate)


def agree(config: Config, holdings: Holdings, columns: int, classes: int) -> Agreed[ProvedPlan]:
    """Method, plan and rounds, with what the settings leave open filled in by rule."""
    _check(config)
    public = public_numbers(config, holdings, columns, classes)
    made = config.algorithm.method.make(public, config.algorithm.settings)
    check_proof(config.algorithm.method, made.algorithm, public.declared_norm)
    sampling = make_sampling(made, config.algorithm.work, public.dimension, holdings)
    return Agreed(made, make_plan(config, holdings, sampling, made))


def make_sampling(made: Made, work: Work, dimension: int, holdings: Holdings) -> RecordSampling:
    """How records are drawn, with what the accounting must know of the local steps and of the noise."""
    algorithm = made.algorithm
    if work.batch_size is not None:
        return RecordSampling(work.sampling, work.batch_size, work.local_steps, made.contraction, made.max_batch)
    if isinstance(algorithm, PerturbsObjective):
        return RecordSampling(
            WHOLE_SHARD, law="laplace", jacobian=algorithm.jacobian(holdings.divisors), dimension=dimension,
            directions=algorithm.directions,
        )  # fmt: skip
    if algorithm.law == "laplace":
        return RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=1)
    blocks = algorithm.blocks if isinstance(algorithm, TakesTurns) else 1
    return RecordSampling(WHOLE_SHARD, None, work.local_steps, made.contraction, blocks=blocks)


def make_plan(config: Config, holdings: Holdings, sampling: RecordSampling, made: Made) -> ProvedPlan:
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
    )


def scale(
    config: Config, declared: Declared, simulation: Simulation, plan: ProvedPlan, gate: LedgerGate | None
) -> Simulation:
    """Bound every row; before that, scale by moments that all clients release with noise and are charged for."""
    shards, test, row_norm = simulation.shards, simulation.test, config.data.row_norm
    assert row_norm is not None, "a proved method has asked for it"
    width = shards.features.shape[1]
    mean, deviation = np.zeros(width), np.ones(width)
    if config.data.scaling == "noisy-moments":
        mean, deviation = released_moments(config, declared, shards, plan, gate)

    def finished(features: np.ndarray) -> np.ndarray:
        return finish(features, mean, deviation, config.data.bias, row_norm)

    columns = (*declared.train.columns, *(("bias",) if config.data.bias else ()))
    return replace(
        simulation,
        shards=replace(shards, features=finished(shards.features)),
        test=Table(finished(test.features), test.labels, columns, test.classes),
    )


def released_moments(
    config: Config, declared: Declared, shards: Shards, plan: ProvedPlan, gate: LedgerGate | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every column from one noised release per client, paid for before it is made."""
    moments = make_moments(config, declared.numeric, declared.categorical, shards.holdings, plan)
    if gate is not None and not gate.charge_all(0):
        raise InputError(
            "every client must have budget for the release of moments, got some without; raise the budget, name a "
            "new ledger, or set data.scaling = min-max."
        )
    scales = plan.moments_scale(moments.sensitivity)
    return release_moments(moments, shards, scales, stream(config.run.seed, "moments"))


def make_moments(
    config: Config, numeric: np.ndarray, categorical: int, holdings: Holdings, plan: ProvedPlan
) -> Moments:
    """What every client sums up before the first round, from public numbers."""
    moments = Moments(numeric, categorical, config.data.deviation_floor, plan.relation)
    return choose_levels(moments, float(plan.moments_scale(1.0).max()), holdings.records, holdings.clients)


def _check(config: Config) -> None:
    if config.data.scaling == "z-score":
        raise InputError(
            "data.scaling must be noisy-moments or min-max for a proved guarantee, got z-score, whose statistics "
            "are read from the records without being charged; choose one of those."
        )
    if config.privacy.epsilon == inf:
        raise InputError(
            "privacy.epsilon must be finite for a proved guarantee, got inf; use the published method without noise."
        )
