"""Which settings are read, given the others: one that is not is refused."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedspd.config.sections import Config


def lacks(config: "Config", name: str) -> str | None:
    """What a setting would need so that it is read; None where it is."""
    section, _, key = name.partition(".")
    if section == "algorithm" and key != "name":
        read, needed = config.declared(section)[key].metadata.get("when", (lambda settings: True, ""))
        return None if read(config.algorithm.settings) else needed
    for read, needed in NEEDED.get(name, ()):
        if not read(config):
            return needed
    return None


Condition = tuple[Callable[[Any], bool], str]
_CLAIMS: Condition = (lambda c: c.algorithm.method.guarantee != "none", "a method with privacy")
_PROVED: Condition = (lambda c: c.algorithm.method.guarantee == "proved", "a method whose guarantee is proved")
_SOME: Condition = (lambda c: not c.algorithm.method.needs.everybody, "a method with some of the clients in a round")
_ROUNDS: Condition = (lambda c: not c.algorithm.method.needs.one_round, "a method with several rounds")
_GIVEN_BOUND: Condition = (lambda c: not c.algorithm.method.needs.own_bound, "a method that clips to a given bound")
_BUDGET: Condition = (lambda c: c.privacy.noise_multiplier is None, "that privacy.noise_multiplier is left out")
_TOTAL: Condition = (lambda c: c.privacy.budget == "total", "privacy.budget = total")
_NOISY: Condition = (lambda c: c.data.scaling == "noisy-moments", "data.scaling = noisy-moments")
_SUMS: Condition = (lambda c: c.privacy.trust == "secure-sums", "privacy.trust = secure-sums")
_APART: Condition = (lambda c: c.privacy.trust == "each-upload", "privacy.trust = each-upload")
_REGULARIZED: Condition = (lambda c: c.problem.regularizer != "none", "a problem.regularizer other than none")
NEEDED: dict[str, tuple[Condition, ...]] = {
    "partition.clients": ((lambda c: c.partition.kind != "own", "a partition.kind other than own"),),
    "data.encode": (_PROVED,),
    "data.moments_share": (_NOISY,),
    "data.deviation_floor": (_NOISY,),
    "problem.threshold": ((lambda c: c.problem.loss == "huber", "problem.loss = huber"),),
    "problem.clip_norm": (_GIVEN_BOUND,),
    "problem.strength": (_REGULARIZED,),
    "problem.per_client": (_REGULARIZED,),
    "problem.ratio": ((lambda c: c.problem.regularizer == "elastic-net", "problem.regularizer = elastic-net"),),
    "privacy.epsilon": (_CLAIMS, _BUDGET),
    "privacy.budget": (_CLAIMS, _BUDGET),
    "privacy.delta": (
        _CLAIMS,
        (
            lambda c: c.algorithm.method.guarantee == "proved" or c.algorithm.method.kind.law == "gaussian",
            "a method whose rounds are not pure, or a proof of their total",
        ),
    ),
    "privacy.allow_large_delta": (_PROVED,),
    "privacy.noise_multiplier": (_PROVED,),
    "privacy.accountant": (_PROVED,),
    "privacy.unit": (_PROVED,),
    "privacy.trust": (_PROVED,),
    "privacy.cohorts": (_SUMS,),
    "privacy.threshold": (_SUMS,),
    "privacy.colluders": (_SUMS,),
    "privacy.epsilon_alone": (_SUMS, _BUDGET, _TOTAL),
    "run.rounds_at_most": (_PROVED, _ROUNDS, (lambda c: c.run.rounds is None, "that run.rounds is left out")),
    "run.selection": (_SOME, (lambda c: c.run.most_stale is None, "that run.most_stale is left out")),
    "run.most_stale": (_SOME,),
    "run.most_participations": (_PROVED, _ROUNDS),
    "run.absence": (_SUMS,),
    "run.average_last": (_ROUNDS,),
    "run.min_participants": (_PROVED, _SOME, _ROUNDS, _APART),
    "evaluation.held_out": (_PROVED,),
    "evaluation.share": ((lambda c: c.evaluation.held_out is not None, "evaluation.held_out"),),
    "metrics.spent_every_round": (_CLAIMS, _ROUNDS),
}
"""What a setting needs of the others so that it is read. Those of a method say so themselves."""
