"""Methods by name: from settings, plan and data to the algorithm object."""

from fedspd.algorithms import (
    DPADMM,
    DPSGD,
    Algorithm,
    Constant,
    FedAvg,
    FedPD,
    FedSPD,
    FedSPDPublished,
    Huang,
    Schedule,
    SquareRoot,
)
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.errors import InputError
from fedspd.experiment.build import averaged_clients, required
from fedspd.experiment.rules import Proposal
from fedspd.privacy import ProvedPlan, Published, PublishedPlan
from fedspd.problem import Objective

ONE_STEP = ("dp-sgd", "dp-sgd-published", "dp-admm", "dp-admm-published")
WHOLE_SHARD_ONLY = ("dp-admm", "dp-admm-published")


def make_proved(config: Config, objective: Objective, plan: ProvedPlan, proposal: Proposal) -> Algorithm:
    """A method under a plan whose epsilon is a theorem: every condition is checked here or in the method."""
    name, row_norm = config.algorithm.name, required(config.data.row_norm, "data.row_norm")
    bounded = Objective(objective.loss, objective.regularizer, objective.gradient_bound(row_norm))
    constant = Constant(proposal.inverse_step)
    match name:
        case "dp-sgd":
            return DPSGD(bounded, constant, relation=plan.relation)
        case "dp-admm":
            return DPADMM(bounded, averaged_clients(config), proposal.penalty, constant, plan.relation)
        case "dp-fedavg":
            return FedAvg(
                objective, config.algorithm.local_steps, constant, proposal.penalty, row_norm, plan.relation,
                proposal.crowding,
            )  # fmt: skip
        case _:
            return FedSPD(
                objective=objective,
                clients=averaged_clients(config),
                penalty=proposal.penalty,
                local_steps=config.algorithm.local_steps,
                inverse_step=proposal.inverse_step,
                row_norm=row_norm,
                start_at=config.algorithm.start,  # pyright: ignore[reportArgumentType]
                relation=plan.relation,  # pyright: ignore[reportArgumentType]
                crowding=proposal.crowding,
            )


def make_published(
    config: Config,
    objective: Objective,
    holdings: Holdings,
    columns: int,
    plan: PublishedPlan,
    formulas: Published | None,
) -> Algorithm:
    """A method as its authors have it, or without privacy."""
    algorithm = config.algorithm
    match algorithm.name:
        case "dp-sgd-published":
            return DPSGD(objective, SquareRoot(_given_step(config)), clipping="median")
        case "dp-fedavg-published":
            return FedAvg(objective, algorithm.local_steps, SquareRoot(_given_step(config)))
        case "dp-admm-published":
            penalty = required(algorithm.penalty, "algorithm.penalty")
            return DPADMM(
                objective, averaged_clients(config), penalty, _huangs(config, objective, holdings, columns, plan)
            )
        case "fedavg" | "fedprox":
            penalty = required(algorithm.penalty, "algorithm.penalty") if algorithm.name == "fedprox" else 0.0
            return FedAvg(objective, algorithm.local_steps, Constant(_given_step(config)), penalty)
        case "fedpd":
            _check_everyone(config)
            penalty = required(algorithm.penalty, "algorithm.penalty")
            return FedPD(objective, holdings.clients, penalty, algorithm.local_steps, Constant(_given_step(config)))
        case _:
            assert formulas is not None
            gamma = algorithm.inverse_step
            return FedSPDPublished(
                objective, averaged_clients(config), formulas.penalty, algorithm.local_steps,
                formulas if gamma is None else Constant(gamma),
            )  # fmt: skip


def check_method(config: Config) -> None:
    """Refuse local steps or batches that a method does not have."""
    algorithm = config.algorithm
    if algorithm.name in ONE_STEP and algorithm.local_steps != 1:
        raise InputError(
            f"{algorithm.name} takes one local step, got {algorithm.local_steps}; set algorithm.local_steps = 1."
        )
    if algorithm.name in WHOLE_SHARD_ONLY and algorithm.batch_size is not None:
        raise InputError(
            f"{algorithm.name} uses the whole shard, got batch_size = {algorithm.batch_size}; leave "
            "algorithm.batch_size out."
        )


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


def _check_everyone(config: Config) -> None:
    if config.run.participants != config.partition.clients:
        raise InputError(
            f"fedpd needs every client in every round, got run.participants = {config.run.participants} of "
            f"{config.partition.clients}; set it to {config.partition.clients}."
        )
