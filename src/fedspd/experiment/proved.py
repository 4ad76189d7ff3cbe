"""Build FedSPD-DP with released state: nothing is computed from records without being charged."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from fedspd.algorithms import FedSPD, Moments, choose_levels
from fedspd.config import Config
from fedspd.data import Declared, Shards, Table, declare, finish
from fedspd.engine import Simulation, stream
from fedspd.errors import InputError
from fedspd.experiment.build import Experiment, deal, problem_parts, required
from fedspd.experiment.gate import LedgerGate, open_gate
from fedspd.experiment.rules import Proposal, propose
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, Sampling, gaussian, plan_proved
from fedspd.privacy.ledger import Ledger
from fedspd.problem import Objective


def build(config: Config, open_ledger: Callable[[], Ledger] | None) -> Experiment:
    """Public schema, plan, charged scaling, method."""
    _check(config)
    declared = declare(config.data.columns, config.data.log_capital)  # pyright: ignore[reportArgumentType]
    shards = deal(config, declared.train)
    loss, regularizer = problem_parts(config, len(declared.train.classes))
    proposal = propose(config, shards, loss)
    sampling = make_sampling(config, proposal)
    plan = plan_proved(
        config.privacy.epsilon,
        config.privacy.delta,
        sampling,
        np.asarray(shards.sizes),
        proposal.participations,
        config.data.moments_share if config.data.scaling == "noisy-moments" else 0.0,
        config.privacy.noise_multiplier,
        config.privacy.accountant,
    )
    crowding = 1.0 if sampling.max_batch is None else sampling.max_batch / required(sampling.batch_size, "batch_size")
    algorithm = FedSPD(
        objective=Objective(loss, regularizer, config.problem.clip_norm),
        clients=shards.clients,
        penalty=proposal.penalty,
        local_steps=config.algorithm.local_steps,
        inverse_step=proposal.inverse_step,
        row_norm=required(config.data.row_norm, "data.row_norm"),
        start_at=config.algorithm.start,  # pyright: ignore[reportArgumentType]
        relation=plan.relation,  # pyright: ignore[reportArgumentType]
        crowding=crowding,
    )
    simulation = Simulation(
        shards=shards,
        test=declared.test,
        algorithm=algorithm,
        plan=plan,
        batch_size=config.algorithm.batch_size,
        participants=config.run.participants,
        rounds=proposal.rounds,
        seed=config.run.seed,
        objective_every=config.metrics.objective_every,
        min_participants=config.run.min_participants,
    )
    simulation.check()
    gate = None if open_ledger is None else open_gate(open_ledger(), plan, config, shards.clients)
    scaled = scale(config, declared, simulation, plan, gate)
    return Experiment(config, scaled, plan, None, scaled.test.columns, scaled.test.classes, gate)


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
        if algorithm.local_steps > 1:
            raise InputError(
                f"algorithm.batch_size is needed for local_steps > 1, got none with {algorithm.local_steps} steps; "
                "set it, or set local_steps = 1 to use the whole shard."
            )
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
    if config.privacy.budget == "round":
        raise InputError('privacy.budget must be "total" for a proved guarantee, got "round"; state the total.')
