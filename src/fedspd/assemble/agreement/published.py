"""Agree on a method as published, with the paper's plan, or on one without privacy."""

from math import inf

from fedspd.assemble.agreement.common import Agreed, averaged_clients, public_numbers
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, PublishedPlan, plan_as_published
from fedspd.target import Target


def agree(config: Config, holdings: Holdings, columns: int, target: Target) -> Agreed[PublishedPlan]:
    """Method, plan and rounds."""
    _check(config)
    plan = make_plan(config, holdings)
    public = public_numbers(config, holdings, columns, target, plan)
    return Agreed(config.algorithm.method.make(public, config.algorithm.settings), plan)


def make_plan(config: Config, holdings: Holdings) -> PublishedPlan:
    """The paper's plan, with the paper's average shard size and expected participations."""
    method, work, rounds = config.algorithm.method, config.algorithm.work, config.run.rounds
    if rounds is None:
        raise InputError("run.rounds is needed by this method, got none; set it.")
    share = config.participants / averaged_clients(config)
    return plan_as_published(
        config.privacy.epsilon if method.guarantee != "none" else inf,
        config.privacy.budget,
        config.privacy.delta,
        WHOLE_SHARD if work.batch_size is None else work.sampling,
        work.local_steps * (work.batch_size or 0),
        holdings.sizes,
        rounds * share,
        method.kind.law,
    )


def check_scaling(config: Config) -> None:
    """Refuse moments whose noise nothing pays for."""
    method = config.algorithm.method
    if config.data.scaling == "noisy-moments":
        raise InputError(
            f"data.scaling must be z-score, min-max or none with {method.name}, got noisy-moments, which is charged to "
            f"a proved budget, and its guarantee is {method.guarantee!r}; set data.scaling = z-score."
        )


def _check(config: Config) -> None:
    check_scaling(config)
    if (config.problem.clip_norm or 0.0) < inf or config.algorithm.method.guarantee == "none":
        return
    if config.privacy.epsilon < inf:
        raise InputError(
            "problem.clip_norm must be finite when privacy.epsilon is, since noise must cover the largest gradient, "
            "got inf; set a finite clip_norm, or epsilon = inf for no privacy."
        )
