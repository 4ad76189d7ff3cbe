"""Settings that several methods have, each said once. A method's own dataclass lists those that it reads."""

from collections.abc import Callable
from math import inf
from typing import Any

from fedspd.algorithms.parts.topology import TOPOLOGIES
from fedspd.privacy import POISSON, WITH_REPLACEMENT, WITHOUT_REPLACEMENT
from fedspd.reading import SIZES, setting

NO_LARGER = (0, SIZES[1])

When = tuple[Callable[[Any], bool], str]
"""Whether a setting is read, by the others, and what it needs in words."""

IN_BATCHES: When = (lambda settings: settings.batch_size is not None, "algorithm.batch_size")
BY_THE_RULE: When = (lambda settings: settings.inverse_step is None, "that algorithm.inverse_step is left out")


def penalty(doc: str = "penalty rho of the augmented Lagrangian; absent: by rule", **rules: Any) -> Any:
    """A field for rho."""
    return setting(None, doc, above=0, within=NO_LARGER, **rules)


def inverse_step(doc: str = "gamma, 1 / step size; absent: by rule", **rules: Any) -> Any:
    """A field for gamma."""
    return setting(None, doc, above=0, within=NO_LARGER, **rules)


def step_scale(when: When | None = None) -> Any:
    """A field for a factor of what the rule proposes."""
    rules = {} if when is None else {"when": when}
    return setting(1.0, "what the rule's step size is multiplied by", above=0, within=(SIZES[0], inf), **rules)


def momentum() -> Any:
    """A field for what a server repeats of its moves."""
    return setting(None, "share of the last move that is made again; absent: by rule", at_least=0, below=1)


def averaging() -> Any:
    """A field for what the model is: of the last round, or of all."""
    return setting(None, "whether the model is the mean of all rounds, later ones weighing more; absent: by rule")


def penalty_share(when: When) -> Any:
    """A field for the part of gamma + rho that is rho."""
    return setting(None, "part of gamma + rho that is rho; absent: by rule", above=0, below=1, when=when)


def local_steps() -> Any:
    """A field for Q."""
    return setting(1, "local steps per round, Q", at_least=1, within=(1, 1e6))


def batch_size(doc: str = "records per local step, b; absent: a pass over the whole shard", **rules: Any) -> Any:
    """A field for b."""
    return setting(None, doc, at_least=1, **rules)


def sampling(*others: str) -> Any:
    """A field for the way batches are drawn."""
    return setting(
        WITHOUT_REPLACEMENT,
        "how a client draws its records in a round",
        choices=(WITHOUT_REPLACEMENT, *others),
        when=IN_BATCHES,
    )


def proved_sampling() -> Any:
    """Ways that have a proof; the third is refused in a sentence that says why."""
    return sampling(POISSON, WITH_REPLACEMENT)


def published_sampling() -> Any:
    """Ways that the paper has."""
    return sampling(WITH_REPLACEMENT)


def max_batch() -> Any:
    """A field for B_max."""
    return setting(
        None,
        "poisson: most records in a batch the proof allows for; absent: by rule",
        at_least=1,
        when=(
            lambda settings: (
                settings.batch_size is not None and settings.sampling == POISSON and settings.local_steps > 1
            ),
            "algorithm.sampling = poisson with algorithm.local_steps above 1",
        ),
    )


def topology() -> Any:
    """A field for who hears whom."""
    return setting("star", "who hears whom; star: all others, through the server", choices=TOPOLOGIES)


def edge_probability() -> Any:
    """A field for random graphs."""
    return setting(
        0.2,
        "erdos-renyi: of an edge between two clients",
        above=0,
        at_most=1,
        when=(lambda settings: settings.topology == "erdos-renyi", "algorithm.topology = erdos-renyi"),
    )


def open_steps(settings: Any) -> bool:
    """Whether the rule decides something of a primal-dual method's step sizes."""
    return settings.inverse_step is None or settings.penalty is None


RULE_DECIDES: When = (open_steps, "that algorithm.inverse_step or algorithm.penalty is left out")
NO_PENALTY: When = (lambda settings: settings.penalty is None, "that algorithm.penalty is left out")
