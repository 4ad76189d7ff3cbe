"""Build a method as published, with the paper's plan, or one without privacy."""

from dataclasses import asdict
from math import inf

from fedspd.algorithms import METHODS
from fedspd.algorithms.registry import LAWS
from fedspd.assemble.build import (
    Agreed,
    Experiment,
    averaged_clients,
    deal,
    measured_on,
    problem_parts,
    required,
    settings_of,
)
from fedspd.assemble.methods import check_method, make_published
from fedspd.config import Config
from fedspd.data import Holdings, prepare
from fedspd.engine import Simulation
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, PaperFormulas, PublishedPlan, plan_as_published
from fedspd.problem import Objective

PREPARE_OPTIONS = ("name", "columns", "log_capital", "scaling", "bias", "row_norm")


def build(config: Config) -> Experiment:
    """Data, method and the paper's plan."""
    options = asdict(config.data)
    train, test = measured_on(config, *prepare(**{key: options[key] for key in PREPARE_OPTIONS}))
    shards = deal(config, train)
    agreed = agree(config, shards.holdings, len(train.columns), len(train.classes))
    simulation = Simulation(
        shards=shards,
        test=test,
        algorithm=agreed.algorithm,
        plan=agreed.plan,
        rounds=agreed.rounds,
        **settings_of(config),
    )
    simulation.check()
    return Experiment(config, simulation, agreed.plan, agreed.formulas, train.columns, train.classes)


def agree(config: Config, holdings: Holdings, columns: int, classes: int) -> Agreed:
    """Method, plan and rounds."""
    _check(config)
    loss, regularizer = problem_parts(config, classes)
    plan = make_plan(config, holdings)
    papers_own = config.algorithm.name == "fedspd-published"
    formulas = make_formulas(config, plan, holdings, columns * loss.outputs) if papers_own else None
    objective = Objective(loss, regularizer, config.problem.clip_norm)
    algorithm = make_published(config, objective, holdings, columns, plan, formulas)
    return Agreed(algorithm, plan, required(config.run.rounds, "run.rounds"), formulas)


def make_plan(config: Config, holdings: Holdings) -> PublishedPlan:
    """The paper's plan, with the paper's average shard size and expected participations."""
    algorithm, rounds = config.algorithm, required(config.run.rounds, "run.rounds")
    share = config.run.participants / averaged_clients(config)
    return plan_as_published(
        config.privacy.epsilon if METHODS[algorithm.name].guarantee != "none" else inf,
        config.privacy.budget,
        config.privacy.delta,
        WHOLE_SHARD if algorithm.batch_size is None else algorithm.sampling,
        algorithm.local_steps * (algorithm.batch_size or 0),
        holdings.sizes,
        rounds * share,
        LAWS[METHODS[algorithm.name].noise],
    )


def make_formulas(config: Config, plan: PublishedPlan, holdings: Holdings, dimension: int) -> PaperFormulas:
    """The public numbers behind the paper's γ, σ and Theorem 2."""
    return PaperFormulas(
        epsilon=plan.epsilon_per_round,
        delta=plan.delta,
        penalty=required(config.algorithm.penalty, "algorithm.penalty"),
        local_steps=config.algorithm.local_steps,
        batch_size=required(config.algorithm.batch_size, "algorithm.batch_size"),
        dimension=dimension,
        participation=config.run.participants / holdings.clients,
        gradient_bound=config.problem.clip_norm,
        diameter=config.algorithm.diameter,
        dual_diameter=config.algorithm.dual_diameter,
        gradient_deviation=config.algorithm.gradient_deviation,
    )


def _check(config: Config) -> None:
    check_method(config)
    if config.algorithm.name == "fedspd-published":
        required(config.algorithm.batch_size, "algorithm.batch_size")
    if config.data.scaling == "noisy-moments":
        raise InputError(
            "data.scaling = noisy-moments belongs to the proved method, got it with the published one; use z-score."
        )
    if config.algorithm.sampling == "poisson":
        raise InputError("the paper has no Poisson sampling, got it; use without-replacement or with-replacement.")
    if config.problem.clip_norm < inf or METHODS[config.algorithm.name].guarantee == "none":
        return
    if config.privacy.epsilon < inf:
        raise InputError(
            "problem.clip_norm must be finite when privacy.epsilon is, since noise must cover the largest gradient, "
            "got inf; set a finite clip_norm, or epsilon = inf for no privacy."
        )
    if config.algorithm.inverse_step is None:
        raise InputError(
            "problem.clip_norm must be finite when algorithm.inverse_step is absent, since Theorem 2's step size "
            "depends on it, got inf; set a finite clip_norm or an inverse_step."
        )
