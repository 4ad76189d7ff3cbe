"""What server and clients of a run agree on before any record is seen: method, plan and rounds."""

from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

from fedspd.algorithms import Algorithm, Made, Public
from fedspd.algorithms.parts.rules import multiplier_of_budget, noise_per_path
from fedspd.algorithms.parts.way import clip_norm
from fedspd.assemble.cohorts import Cohorts, asked, cohorts_of
from fedspd.assemble.records.deal import deal_seed
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.engine import stream
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan, PublishedPlan
from fedspd.problem import Loss, Objective, make_loss, make_regularizer
from fedspd.target import Target

PAPERS_CLIP = 1.0  # the paper assumes G = 1
AnyPlan = TypeVar("AnyPlan", bound=PublishedPlan | ProvedPlan)


class Agreed(NamedTuple, Generic[AnyPlan]):
    """What follows from settings and public numbers alone, and is the same for the server and every client."""

    made: Made
    plan: AnyPlan

    @property
    def algorithm(self) -> Algorithm:
        """The method at work."""
        return self.made.algorithm

    @property
    def rounds(self) -> int:
        """T."""
        return self.made.rounds


def agree(
    config: Config, holdings: Holdings, columns: int, target: Target, cohorts: Cohorts | None = None
) -> Agreed[Any]:
    """What server and clients of one run agree on before any record is seen.

    Args:
        config: the settings; `partition.clients` is the number of clients.
        holdings: how many records each client has; where sums are secure, each member of the cohorts.
        columns: of the features, a bias included.
        target: what is predicted.
        cohorts: where sums are secure, who is in which; None: as the settings deal them.
    """
    from fedspd.assemble.agreement import proved, published

    if config.algorithm.method.guarantee == "proved":
        return proved.agree(config, holdings, columns, target, cohorts)
    return published.agree(config, holdings, columns, target)


def public_numbers(
    config: Config, holdings: Holdings, columns: int, target: Target, plan: PublishedPlan | None = None,
    cohorts: Cohorts | None = None,
) -> Public:  # fmt: skip
    """What a method is made from."""
    check_needs(config)
    privacy, run, cohorts = config.privacy, config.run, cohorts or cohorts_of(config)
    return Public(
        objective=client_objective(config, holdings.records / holdings.clients, target),
        row_norm=config.data.row_norm,
        columns=columns,
        holdings=holdings,
        clients=averaged_clients(config),
        participants=asked(config),
        rounds=run.rounds,
        most_rounds=run.rounds_at_most,
        most_participations=run.most_participations,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        budget=privacy.budget,
        graphs=stream(deal_seed(config), "topology"),
        plan=plan,
        members=None if cohorts is None else float(cohorts.sizes.mean()),
        spread=1.0 if cohorts is None else cohorts.spread,
    )


def client_objective(config: Config, held: float, target: Target) -> Objective:
    """The loss, the usual one where none is named, and one client's regularizer; clipped by rule where that is open.

    Args:
        config: with the number of clients.
        held: records of a client, or of a cohort, on average.
        target: what is predicted.
    """
    problem = config.problem
    loss = make_loss(problem.loss, target, problem.threshold)
    regularizer = make_regularizer(problem.regularizer, problem.strength, problem.ratio)
    regularizer = regularizer.scaled(1 / config.partition.clients if problem.per_client == "share" else 1.0)
    return Objective(loss, regularizer, problem.clip_norm or _clip_norm(config, held, loss))


def _clip_norm(config: Config, held: float, loss: Loss) -> float:
    """By rule from the noise that the budget means, where there is one: as published it is the paper's 1."""
    privacy = config.privacy
    if config.algorithm.method.guarantee != "proved":
        return PAPERS_CLIP
    if privacy.budget != "total" or privacy.noise_multiplier is not None or privacy.epsilon == inf:
        return clip_norm(loss, inf, config.data.row_norm or 1.0)
    multiplier = multiplier_of_budget(privacy.epsilon, privacy.delta)
    cohorts = cohorts_of(config)
    spread = 1.0 if cohorts is None else cohorts.spread
    noise = noise_per_path(1.0, spread * multiplier, held, averaged_clients(config))
    return clip_norm(loss, noise, config.data.row_norm or 1.0)


def check_needs(config: Config) -> None:
    """Refuse rounds and participants that a method does not have."""
    method, run = config.algorithm.method, config.run
    if method.needs.one_round and (run.rounds or 1) != 1:
        raise InputError(f"{method.name} has one round, got run.rounds = {run.rounds}; set it to 1.")
    if method.needs.everybody and config.participants != config.partition.clients:
        raise InputError(
            f"{method.name} needs every client in every round, got run.participants = {config.participants} of "
            f"{config.partition.clients}; set it to {config.partition.clients}."
        )


def averaged_clients(config: Config) -> int:
    """How many clients, or cohorts, a server that averages the latest uploads of all averages over."""
    return asked(config) if config.run.selection == "fixed" else config.cohorts or config.partition.clients
