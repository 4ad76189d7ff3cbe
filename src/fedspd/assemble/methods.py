"""Methods by name: from settings, plan and data to the algorithm object."""

from math import exp

from fedspd.algorithms import (
    DPAADMM,
    DPADMM,
    DPFTRL,
    DPLRADMM,
    DPMADMM,
    DPRADMM,
    DPSCAFFOLD,
    DPSGD,
    METHODS,
    PSADMM,
    Algorithm,
    Constant,
    DDPADMMDual,
    DDPADMMPrimal,
    FedAvg,
    FedPD,
    FedSPD,
    FedSPDPublished,
    Geometric,
    Huang,
    MultiStepDPADMM,
    Network,
    NoisyProximalGradient,
    OneShot,
    PrivateADMM,
    Schedule,
    SquareRoot,
    make_topology,
)
from fedspd.algorithms.registry import EXACT, ONE_GD, SEVERAL
from fedspd.assemble.build import averaged_clients, deal_seed, required
from fedspd.assemble.rules import Proposal
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.engine import stream
from fedspd.errors import InputError
from fedspd.privacy import PaperFormulas, PublishedPlan
from fedspd.problem import FlippedLabels, Objective

ON_GRAPHS = ("ddp-admm-dvp", "ddp-admm-pvp", "ddp-admm-pvp-published", "dp-madmm", "dp-radmm", "dp-lr-admm")


def make_proved(config: Config, objective: Objective, relation: str, proposal: Proposal) -> Algorithm:
    """A method whose epsilon is a theorem: every condition is checked here or in the method."""
    name, row_norm = config.algorithm.name, required(config.data.row_norm, "data.row_norm")
    bounded = Objective(objective.loss, objective.regularizer, objective.gradient_bound(row_norm))
    constant, clients, steps = Constant(proposal.inverse_step), averaged_clients(config), config.algorithm.local_steps
    match name:
        case "dp-sgd":
            return DPSGD(bounded, constant, relation=relation)
        case "dp-admm":
            return DPADMM(bounded, clients, proposal.penalty, constant, relation)
        case "ps-admm":
            return PSADMM(bounded, clients, proposal.penalty, constant, relation)
        case "multi-step-dp-admm":
            return MultiStepDPADMM(bounded, clients, proposal.penalty, steps, constant, relation)
        case "dp-scaffold":
            return DPSCAFFOLD(bounded, clients, steps, constant, relation)
        case "noisy-prox-gd":
            return NoisyProximalGradient(bounded, constant, config.algorithm.momentum, relation)
        case "dp-ftrl":
            return DPFTRL(bounded, proposal.inverse_step, config.algorithm.bands)
        case "private-admm":
            return PrivateADMM(bounded, clients, proposal.penalty, row_norm, config.algorithm.relaxation)
        case "one-shot":
            return OneShot(bounded, proposal.penalty, row_norm)
        case "dp-fedavg":
            return FedAvg(objective, steps, constant, proposal.penalty, row_norm, relation, proposal.crowding)
        case "fedspd":
            return FedSPD(
                objective=objective,
                clients=clients,
                penalty=proposal.penalty,
                local_steps=steps,
                inverse_step=proposal.inverse_step,
                row_norm=row_norm,
                start_at=config.algorithm.start,  # pyright: ignore[reportArgumentType]
                relation=relation,  # pyright: ignore[reportArgumentType]
                crowding=proposal.crowding,
            )
        case _:
            return _on_graph(config, bounded, proposal, row_norm)


def _on_graph(config: Config, objective: Objective, proposal: Proposal, row_norm: float) -> Algorithm:
    network, penalty = _network(config), proposal.penalty
    match config.algorithm.name:
        case "ddp-admm-dvp":
            return DDPADMMDual(objective, network, penalty, row_norm)
        case "ddp-admm-pvp":
            return DDPADMMPrimal(objective, network, penalty, row_norm)
        case "dp-madmm":
            return DPMADMM(objective, network, penalty, Geometric(penalty, config.algorithm.growth), row_norm)
        case "dp-radmm":
            return DPRADMM(objective, network, penalty, proposal.inverse_step, row_norm)
        case _:
            flipped = FlippedLabels(flip_chance(config))
            return DPLRADMM(Objective(flipped, objective.regularizer, objective.clip_norm), network, penalty, row_norm)


def flip_chance(config: Config) -> float:
    """Of a label, under randomized response."""
    return 1 / (1 + exp(config.algorithm.label_epsilon))


def make_published(
    config: Config,
    objective: Objective,
    holdings: Holdings,
    columns: int,
    plan: PublishedPlan,
    formulas: PaperFormulas | None,
) -> Algorithm:
    """A method as its authors have it, or without privacy."""
    algorithm = config.algorithm
    match algorithm.name:
        case "dp-sgd-published":
            return DPSGD(objective, SquareRoot(_given_step(config)), clipping="median")
        case "dp-fedavg-published":
            return FedAvg(objective, algorithm.local_steps, SquareRoot(_given_step(config)))
        case "dp-admm-published":
            schedule = _huangs(config, objective, holdings, columns, plan)
            return DPADMM(objective, averaged_clients(config), _given_penalty(config), schedule)
        case "ddp-admm-pvp-published":
            return DDPADMMPrimal(objective, _network(config), _given_penalty(config), None)
        case "dp-aadmm":
            return DPAADMM(objective, averaged_clients(config), _given_penalty(config), config.run.participants)
        case "fedavg" | "fedprox":
            penalty = _given_penalty(config) if algorithm.name == "fedprox" else 0.0
            return FedAvg(objective, algorithm.local_steps, Constant(_given_step(config)), penalty)
        case "fedpd":
            step = Constant(_given_step(config))
            return FedPD(objective, holdings.clients, _given_penalty(config), algorithm.local_steps, step)
        case _:
            assert formulas is not None
            gamma = algorithm.inverse_step
            return FedSPDPublished(
                objective, averaged_clients(config), formulas.penalty, algorithm.local_steps,
                formulas if gamma is None else Constant(gamma),
            )  # fmt: skip


def check_method(config: Config) -> None:
    """Refuse local steps, batches, participants or topologies that a method does not have."""
    algorithm, method = config.algorithm, METHODS[config.algorithm.name]
    if method.local_updates != SEVERAL and algorithm.local_steps != 1:
        raise InputError(
            f"{algorithm.name} takes one local step, got {algorithm.local_steps}; set algorithm.local_steps = 1."
        )
    if method.local_updates in (EXACT, ONE_GD) and algorithm.batch_size is not None:
        raise InputError(
            f"{algorithm.name} uses the whole shard, got batch_size = {algorithm.batch_size}; leave "
            "algorithm.batch_size out."
        )
    if algorithm.name == "one-shot" and (config.run.rounds or 1) != 1:
        raise InputError(f"one-shot has one round, got run.rounds = {config.run.rounds}; set it to 1.")
    if algorithm.topology != "star" and algorithm.name not in ON_GRAPHS:
        raise InputError(
            f"{algorithm.name} has a server, got topology = {algorithm.topology!r}; set algorithm.topology = star, or "
            f"use one of {', '.join(ON_GRAPHS)}."
        )
    if not method.partial and config.run.participants != config.partition.clients:
        raise InputError(
            f"{algorithm.name} needs every client in every round, got run.participants = {config.run.participants} of "
            f"{config.partition.clients}; set it to {config.partition.clients}."
        )


def _network(config: Config) -> Network:
    algorithm, clients = config.algorithm, config.partition.clients
    rng = stream(deal_seed(config), "topology")
    return Network(clients, make_topology(algorithm.topology, clients, algorithm.edge_probability, rng))


def _huangs(config: Config, objective: Objective, holdings: Holdings, columns: int, plan: PublishedPlan) -> Schedule:
    if config.algorithm.inverse_step is not None:
        return Constant(config.algorithm.inverse_step)
    return Huang(
        epsilon=plan.epsilon_per_round,
        delta=plan.delta,
        dimension=columns * objective.loss.outputs,
        records=holdings.records / holdings.clients,
        gradient_bound=objective.clip_norm,
        diameter=config.algorithm.diameter,
    )


def _given_step(config: Config) -> float:
    return required(config.algorithm.inverse_step, "algorithm.inverse_step")


def _given_penalty(config: Config) -> float:
    return required(config.algorithm.penalty, "algorithm.penalty")
