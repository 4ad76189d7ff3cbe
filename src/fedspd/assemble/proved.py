"""Build a method whose privacy is proved: nothing is computed from records without being charged."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from fedspd.algorithms import METHODS, Moments, choose_levels
from fedspd.algorithms.base import PerturbsObjective
from fedspd.algorithms.registry import LAWS
from fedspd.assemble.build import Agreed, Experiment, deal, measured_on, problem_parts, required, settings_of
from fedspd.assemble.gate import LedgerGate, open_gate
from fedspd.assemble.methods import check_method, flip_chance, make_proved
from fedspd.assemble.rules import Proposal, multiplier_for, propose
from fedspd.config import Config
from fedspd.data import Declared, Holdings, Shards, Table, declare, finish
from fedspd.engine import Simulation, stream
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, RecordSampling, gaussian, plan_proved, randomized_response
from fedspd.privacy.ledger import Ledger
from fedspd.privacy.plans.proved import sizes_that_matter
from fedspd.problem import Objective


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
    scaled = flip_labels(config, scale(config, declared, simulation, agreed.plan, gate))
    return Experiment(config, scaled, agreed.plan, None, scaled.test.columns, scaled.test.classes, gate)


def agree(config: Config, holdings: Holdings, columns: int, classes: int) -> Agreed[ProvedPlan]:
    """Method, plan and rounds, with what the settings leave open filled in by rule."""
    _check(config)
    loss, regularizer = problem_parts(config, classes)
    proposal = propose(config, holdings, loss, columns * loss.outputs)
    sampling = make_sampling(config, proposal, columns * loss.outputs)
    objective = Objective(loss, regularizer, config.problem.clip_norm)
    algorithm = make_proved(config, objective, sampling.relation, proposal)
    if isinstance(algorithm, PerturbsObjective):
        sampling = replace(sampling, jacobian=algorithm.jacobian(holdings.divisors), directions=algorithm.directions)
    return Agreed(algorithm, make_plan(config, holdings, sampling, proposal), proposal.rounds)


def make_plan(config: Config, holdings: Holdings, sampling: RecordSampling, proposal: Proposal) -> ProvedPlan:
    """Noise for a total budget, or for one round's, of which the total is then what all rounds cost."""
    privacy, sizes = config.privacy, holdings.sizes
    multiplier = privacy.noise_multiplier
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
        proposal.participations,
        config.data.moments_share if config.data.scaling == "noisy-moments" else 0.0,
        multiplier,
        privacy.accountant,
    )


def scale(
    config: Config, declared: Declared, simulation: Simulation, plan: ProvedPlan, gate: LedgerGate | None
) -> Simulation:
    """Bound every row; before that, scale by moments that all clients release with noise and are charged for."""
    shards, test = simulation.shards, simulation.test
    width = shards.features.shape[1]
    mean, deviation = np.zeros(width), np.ones(width)
    if config.data.scaling == "noisy-moments":
        mean, deviation = released_moments(config, declared, shards, plan, gate)

    def finished(features: np.ndarray) -> np.ndarray:
        return finish(features, mean, deviation, config.data.bias, required(config.data.row_norm, "data.row_norm"))

    columns = (*declared.train.columns, *(("bias",) if config.data.bias else ()))
    return replace(
        simulation,
        shards=replace(shards, features=finished(shards.features)),
        test=Table(finished(test.features), test.labels, columns, test.classes),
    )


def flip_labels(config: Config, simulation: Simulation) -> Simulation:
    """Randomized response on the training labels, for the method that learns from such."""
    if config.algorithm.name != "dp-lr-admm":
        return simulation
    shards = simulation.shards
    coins = stream(config.run.seed, "labels").random(len(shards.labels))
    labels = randomized_response(shards.labels, coins, flip_chance(config))
    return replace(simulation, shards=replace(shards, labels=labels))


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
    query = moments.query(shards.features, shards.offsets)
    normals = stream(config.run.seed, "moments").standard_normal(query.value.shape)
    release = gaussian(query, plan.moments_scale(moments.sensitivity)[:, None], normals)
    return moments.scaling(release, len(shards.labels))


def make_moments(
    config: Config, numeric: np.ndarray, categorical: int, holdings: Holdings, plan: ProvedPlan
) -> Moments:
    """What every client sums up before the first round, from public numbers."""
    moments = Moments(numeric, categorical, config.data.deviation_floor, plan.relation)
    return choose_levels(moments, float(plan.moments_scale(1.0).max()), holdings.records, holdings.clients)


def make_sampling(config: Config, proposal: Proposal, dimension: int) -> RecordSampling:
    """How records are drawn, with what the accounting must know of the local steps and of the noise."""
    algorithm = config.algorithm
    if algorithm.batch_size is None and LAWS[METHODS[algorithm.name].noise] == "laplace":
        return RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=1)
    if algorithm.batch_size is None:
        return RecordSampling(
            WHOLE_SHARD, None, algorithm.local_steps, proposal.contraction,
            blocks=algorithm.bands if algorithm.name == "dp-ftrl" else 1,
        )  # fmt: skip
    return RecordSampling(
        algorithm.sampling, algorithm.batch_size, algorithm.local_steps, proposal.contraction, proposal.max_batch
    )


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
    if config.privacy.budget == "round" and config.privacy.noise_multiplier is not None:
        raise InputError(
            "either privacy.noise_multiplier or a budget per round decides the noise, got both; leave one out."
        )
    check_method(config)
