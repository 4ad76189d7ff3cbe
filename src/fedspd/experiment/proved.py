"""Build a method whose privacy is proved: nothing is computed from records without being charged."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from fedspd.algorithms import Moments, choose_levels
from fedspd.config import Config
from fedspd.data import Declared, Shards, Table, declare, finish
from fedspd.engine import Simulation, stream
from fedspd.errors import InputError
from fedspd.experiment.build import Experiment, deal, measured_on, problem_parts, required, settings_of
from fedspd.experiment.gate import LedgerGate, open_gate
from fedspd.experiment.methods import check_method, make_proved
from fedspd.experiment.rules import Proposal, multiplier_for, propose
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, Sampling, gaussian, plan_proved
from fedspd.privacy.ledger import Ledger
from fedspd.problem import Objective


def build(config: Config, open_ledger: Callable[[], Ledger] | None) -> Experiment:
    """Public schema, plan, charged scaling, method."""
    _check(config)
    schema = declare(config.data.columns, config.data.log_capital)  # pyright: ignore[reportArgumentType]
    train, test = measured_on(config, schema.train, schema.test)
    declared = replace(schema, train=train, test=test)
    shards = deal(config, train)
    loss, regularizer = problem_parts(config, len(train.classes))
    proposal = propose(config, shards, loss)
    plan = make_plan(config, shards, make_sampling(config, proposal), proposal)
    objective = Objective(loss, regularizer, config.problem.clip_norm)
    simulation = Simulation(
        shards=shards,
        test=test,
        algorithm=make_proved(config, objective, plan, proposal),
        plan=plan,
        rounds=proposal.rounds,
        **settings_of(config),
    )
    simulation.check()
    gate = None if open_ledger is None else open_gate(open_ledger(), plan, config, shards.clients)
    scaled = scale(config, declared, simulation, plan, gate)
    return Experiment(config, scaled, plan, None, scaled.test.columns, scaled.test.classes, gate)


def make_plan(config: Config, shards: Shards, sampling: Sampling, proposal: Proposal) -> ProvedPlan:
    """Noise for a total budget, or for one round's, of which the total is then what all rounds cost."""
    privacy, sizes = config.privacy, np.asarray(shards.sizes)
    multiplier = privacy.noise_multiplier
    if privacy.budget == "round":
        # The smallest shard has the highest sampling rate, the largest the most crowded batches.
        extremes = {int(sizes.min()), int(sizes.max())}
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


def released_moments(
    config: Config, declared: Declared, shards: Shards, plan: ProvedPlan, gate: LedgerGate | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every column from one noised release per client, paid for before it is made."""
    moments = Moments(declared.numeric, declared.categorical, config.data.deviation_floor, plan.relation)
    largest_multiplier = float(plan.moments_scale(1.0).max())
    moments = choose_levels(moments, largest_multiplier, len(shards.labels), shards.clients)
    if gate is not None and not gate.charge_all(0):
        raise InputError(
            "every client must have budget for the release of moments, got some without; raise the budget, name a "
            "new ledger, or set data.scaling = min-max."
        )
    query = moments.query(shards.features, shards.offsets)
    normals = stream(config.run.seed, "moments").standard_normal(query.value.shape)
    release = gaussian(query, plan.moments_scale(moments.sensitivity)[:, None], normals)
    return moments.scaling(release, len(shards.labels))


def make_sampling(config: Config, proposal: Proposal) -> Sampling:
    """How records are drawn, with what the accounting must know of the local steps."""
    algorithm = config.algorithm
    if algorithm.batch_size is None:
        return Sampling(WHOLE_SHARD)
    return Sampling(
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
