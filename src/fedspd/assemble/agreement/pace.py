"""Rounds for records that no rule was tuned on.

The rule of few uploads was measured on Adult, where features spread a record's length over many directions. For any
table a step is safe only up to the inverse of the loss's curvature, so the path of the rule is walked in as many rounds
as that takes. More rounds cost nothing: noise grows with the path, not with its steps.
"""

from dataclasses import fields
from math import ceil

from fedspd.algorithms.parts.rules import noise_per_path, path_length
from fedspd.assemble.agreement.common import client_objective
from fedspd.config import Config, changed
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.problem import is_regression
from fedspd.target import Target

ROUNDS = (20, 500)
"""Fewest, and most: beyond, the path is cut short."""


def paced(config: Config, records: int, clients: int, target: Target) -> Config:
    """The configuration with rounds of safe steps, where the method steps along gradients and nobody set a pace.

    Args:
        config: what is to run.
        records: on all clients.
        clients: how many there are.
        target: what is predicted.
    """
    if not _is_open(config):
        return config
    objective, row_norm, privacy = client_objective(config, target), config.data.row_norm or 1.0, config.privacy
    bound = min(config.problem.clip_norm, objective.loss.slope_bound * row_norm)
    multiplier = calibrate(Gaussian, 1, privacy.epsilon, privacy.delta)
    path = path_length(noise_per_path(bound, multiplier, records / clients, clients), row_norm)
    fewest, most = ROUNDS
    needed = path * objective.smoothness(row_norm)
    cut = 1.0 if is_regression(objective.loss) else min(1.0, most / needed)  # of numbers the rule cuts steps itself
    uploads, share = min(max(ceil(needed), fewest), most), min(1.0, (config.run.participants or clients) / clients)
    return changed(config, {"run.rounds": ceil(uploads / share), "algorithm.step_scale": cut})


def _is_open(config: Config) -> bool:
    """Whether a method steps along gradients, and rounds and steps are left to the rule."""
    method, run, privacy, settings = config.algorithm.method, config.run, config.privacy, config.algorithm.settings
    steps = method.guarantee == "proved" and "step_scale" in method.keys and not method.kind.exact
    chosen = [run.rounds, run.most_participations, privacy.noise_multiplier]
    chosen += [getattr(settings, name, None) for name in ("inverse_step", "penalty")]
    usual = {each.name: each.default for each in fields(method.settings)}
    return (
        steps
        and not method.needs.one_round
        and privacy.budget == "total"
        and all(value is None for value in chosen)
        and settings.step_scale == usual["step_scale"]
    )
