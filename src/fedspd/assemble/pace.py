"""Rounds for records that no rule was tuned on.

The rule of few uploads was measured on Adult, where features spread a record's length over many directions. For any
table a step is safe only up to the inverse of the loss's curvature, so the path of the rule is walked in as many rounds
as that takes. More rounds cost nothing: noise grows with the path, not with its steps.
"""

from collections.abc import Collection
from math import ceil

from fedspd.algorithms.parts.rules import noise_per_path, path_length
from fedspd.assemble.agreement import client_objective
from fedspd.config import Config, changed
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.problem import is_regression
from fedspd.target import Target

ROUNDS = (20, 500)
"""Fewest, and most: beyond, the path is cut short."""
OWN_PACE = {"run.rounds", "run.most_participations", "algorithm.step_scale", "algorithm.inverse_step"} | {
    "algorithm.penalty", "privacy.budget", "privacy.noise_multiplier",
}  # fmt: skip


def paced(config: Config, records: int, clients: int, target: Target, given: Collection[str]) -> Config:
    """The configuration with rounds of safe steps, where the method steps along gradients and nobody set a pace.

    Args:
        config: what is to run.
        records: on all clients.
        clients: how many there are.
        target: what is predicted.
        given: the settings that somebody chose.
    """
    method = config.algorithm.method
    steps = method.guarantee == "proved" and "step_scale" in method.keys and not method.kind.exact
    if not steps or method.needs.one_round or OWN_PACE & {*given}:
        return config
    objective, row_norm, privacy = client_objective(config, target), config.data.row_norm or 1.0, config.privacy
    bound = min(config.problem.clip_norm, objective.loss.slope_bound * row_norm)
    multiplier = calibrate(Gaussian, 1, privacy.epsilon, privacy.delta)
    path = path_length(noise_per_path(bound, multiplier, records / clients, clients), row_norm)
    fewest, most = ROUNDS
    needed = path * objective.smoothness(row_norm)
    cut = 1.0 if is_regression(objective.loss) else min(1.0, most / needed)  # of numbers the rule cuts steps itself
    return changed(config, {"run.rounds": min(max(ceil(needed), fewest), most), "algorithm.step_scale": cut})
