"""The numbers a run is remembered by, each with its meaning, its unit, and the side on which it is rounded.

Terminal, pages, the table of a sweep and docs/how-to/run-folder.md take words and rounding from here. A number that is
not finite is written as null and comes back as None.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import isnan
from typing import Any, Literal, NamedTuple

from fedspd.errors import InputError
from fedspd.results.history import Kind
from fedspd.results.typed_json import made

Number = float | None  # None: not known, or not finite
Rounding = Literal["up", "down", "nearest"]
Group = Literal["privacy", "test", "run"]
SHARE = "share"  # of one; people read percent
LOST = 1000.0
"""A mean loss, or multiple of the labels' spread, beyond which a model is none: without weights it is about 1."""
FAR = 1e12
"""Beyond this, weights are none: where rows are as short as settings allow (1e-6), a score would be a million."""
SITES = "sites"
"""The engine of a run between real sites."""


class About(NamedTuple):
    """What a reader must know of a field."""

    meaning: str
    unit: str = ""
    kind: Kind = "public"
    rounding: Rounding = "nearest"
    group: Group = "run"


def _run(meaning: str, unit: str = "") -> dict[str, About]:
    return {"about": About(meaning, unit)}


def _privacy(meaning: str, unit: str = "", rounding: Rounding = "nearest") -> dict[str, About]:
    return {"about": About(meaning, unit, rounding=rounding, group="privacy")}


def _epsilon(meaning: str) -> dict[str, About]:
    """An upper bound: rounded up, it is still one."""
    return _privacy(meaning, "ε", "up")


def _test(meaning: str, unit: str = "") -> dict[str, About]:
    return {"about": About(meaning, unit, group="test")}


def _diagnostic(meaning: str, unit: str = "") -> dict[str, About]:
    return {"about": About(meaning, unit, "diagnostic")}


@dataclass(frozen=True)
class Condition:
    """An assumption of Theorem 2 and whether a run met it."""

    holds: bool
    detail: str


@dataclass(frozen=True)
class Convergence:
    """Measured H beside the bound of Theorem 2, with the assumptions the bound rests on."""

    criterion: Number = field(metadata=_diagnostic("criterion H"))
    bound: Number = field(metadata=_diagnostic("right-hand side of Theorem 2; null without the theorem's step size"))
    optimal_objective: Number = field(metadata=_diagnostic("Σ_i F_i(x⋆)"))
    conditions: Mapping[str, Condition] = field(metadata=_diagnostic("what the theorem assumes, and what the run met"))


@dataclass(frozen=True)
class Summary:
    """Privacy first, then what was reached."""

    algorithm: str = field(metadata=_run("name of the method"))
    title: str = field(metadata=_run("what tables and figures call it: its name, and whether it is a reconstruction"))
    guarantee: str = field(metadata=_privacy('"proved", "as published", or "none" for a run without noise'))
    delta: float = field(metadata=_privacy("δ"))
    unit: str = field(metadata=_privacy("what is protected: a record, a person at a client, or a client"))
    relation: str = field(metadata=_privacy("neighbors: replace-one, or zero-out with Poisson sampling"))
    sampling: str = field(metadata=_privacy("how records are drawn in a round"))
    mechanism: str = field(metadata=_privacy(
        "the noise: Gaussian, or spherical Laplace; “in objectives, Gaussian on minimizers” where it is part of what "
        "is minimized, and a small second one hides by how much what is computed is off"
    ))  # fmt: skip
    conversion: str | None = field(metadata=_privacy(
        "how pure privacy of rounds became (ε, δ), for spherical Laplace noise; null for Gaussian noise"
    ))  # fmt: skip
    precision: str = field(
        metadata=_privacy(
            "float64; float32 for noise and clients' states on JAX, whose normals have compact support: for "
            "experiments only"
        )
    )
    adversary: str = field(metadata=_privacy("against whom; for DP-AADMM somebody weaker"))
    epsilon_spent_max: Number = field(
        metadata=_epsilon("epsilon_max after the last round; a bound if releases had no part in who took part")
    )
    epsilon_spent_mean: Number = field(metadata=_epsilon("epsilon_mean after the last round"))
    epsilon: Number = field(metadata=_epsilon(
        "proved: the budget, the largest over the clients. As published: ε̄ that the paper states, Theorem 1 at the "
        "mean shard size and p T rounds"
    ))  # fmt: skip
    epsilon_proved: Number = field(metadata=_epsilon(
        "the ε that is proved; null for the published method, for which none is known"
    ))  # fmt: skip
    unproved_because: str | None = field(metadata=_privacy(
        "why nothing is proved about a run as published; null where epsilon_proved is proved, empty where there is no "
        "privacy"
    ))  # fmt: skip
    epsilon_per_round: Number = field(metadata=_epsilon("ε of one round, if it were the only one"))
    noise_multiplier: Number = field(metadata=_privacy("noise over sensitivity, the largest over the clients"))
    accountant: str = field(metadata=_privacy('"pld", "rdp", or "published" for the paper\'s formula'))
    scaling_charged: bool = field(metadata=_privacy("whether scaling was released with noise and is part of ε"))
    rounds: int = field(metadata=_run("rounds that were made", "rounds"))
    rounds_planned: int = field(metadata=_run("T", "rounds"))
    stopped: str | None = field(metadata=_run("why the run ended early, or null"))
    clients: int = field(metadata=_run("N", "clients"))
    participants: int = field(metadata=_run("K", "clients"))
    participations_max: int = field(metadata=_run("rounds of the client that took part most often", "rounds"))
    uploads: int = field(metadata=_run("uploads of all clients together", "uploads"))
    records_min: int = field(metadata=_run("smallest shard", "records"))
    records_max: int = field(metadata=_run("largest shard", "records"))
    dimension: int = field(metadata=_run("number of weights, d", "weights"))
    penalty: Number = field(metadata=_run("ρ"))
    inverse_step: Number = field(metadata=_run("γ of the last round"))
    test_accuracy: Number = field(metadata=_test("after the last round", SHARE))
    test_accuracy_average: Number = field(metadata=_test(
        "of the mean of the last models, run.average_last of them: post-processing, free of charge", SHARE
    ))  # fmt: skip
    majority_accuracy: Number = field(metadata=_test(
        "accuracy of always predicting the most frequent class of the test set", SHARE
    ))  # fmt: skip
    test_loss: Number = field(metadata=_test(
        "mean loss of the test records after the last round: the log-loss, for softmax"
    ))  # fmt: skip
    bytes_uploaded: int = field(metadata=_run(
        "by all clients together, at eight bytes a number, the release of moments not counted", "bytes"
    ))  # fmt: skip
    objective: Number = field(metadata=_diagnostic("after the last round"))
    alfv: Number = field(metadata=_diagnostic("after the last round"))
    consensus_error: Number = field(metadata=_diagnostic("after the last round"))
    weights_norm: Number = field(metadata=_run("after the last round"))
    clipped_share: Number = field(metadata=_diagnostic("mean over the rounds", SHARE))
    convergence: Convergence | None = field(metadata=_diagnostic(
        "criterion H (criterion), right-hand side of Theorem 2 (bound), Σ_i F_i(x⋆) (optimal_objective), and the "
        "theorem's conditions with what the run met; null if metrics.criterion is off"
    ))  # fmt: skip
    wall_seconds: float = field(metadata=_run(
        "time of the rounds, without loading data and without x⋆; in a sweep on JAX, each run's share of its lot",
        "seconds",
    ))  # fmt: skip
    seed: int | None = field(metadata=_run("root of all draws; null: drawn from the operating system, kept nowhere"))
    columns: Mapping[str, Kind] = field(metadata=_run("kind of every column of history.csv"))
    engine: str = field(metadata=_run("what computed the rounds: numpy or jax, or sites for real ones"))
    test_balanced_accuracy: Number = field(default=None, metadata=_test(
        "mean over the classes of the share predicted correctly, after the last round", SHARE
    ))  # fmt: skip
    test_explained: Number = field(default=None, metadata=_test(
        "after the last round: R² of a number, share of the deviance of a count (D²)", SHARE
    ))  # fmt: skip
    test_mae: Number = field(
        default=None, metadata=_test("of a number: mean absolute error after the last round, in its own units")
    )
    trivial_mae: Number = field(
        default=None, metadata=_test("of a number: mean absolute error of always predicting the test set's mean")
    )
    test_deviance: Number = field(
        default=None, metadata=_test("of a count: mean Poisson deviance after the last round")
    )
    trivial_deviance: Number = field(
        default=None, metadata=_test("of a count: mean deviance of always predicting the test set's mean")
    )
    optimum_accuracy: Number = field(
        default=None, metadata=_diagnostic("test accuracy of x⋆, the optimum without privacy", SHARE)
    )
    optimum_explained: Number = field(default=None, metadata=_diagnostic("test_explained of x⋆", SHARE))
    optimum_loss: Number = field(default=None, metadata=_diagnostic("test_loss of x⋆"))
    test_records: int | None = field(default=None, metadata=_run(
        "records that models were measured on, without noise: the guarantee does not cover them", "records"
    ))  # fmt: skip
    trust: str = field(default="each-upload", metadata=_privacy(
        "what the server sees: each-upload, or secure-sums of cohorts, whose members share the noise"
    ))  # fmt: skip
    cohorts: int | None = field(default=None, metadata=_privacy("secure-sums: into which the clients are dealt"))
    members: int | None = field(default=None, metadata=_privacy("secure-sums: clients in the largest cohort, n"))
    threshold: int | None = field(default=None, metadata=_privacy("secure-sums: members that any sum holds, t"))
    colluders: int | None = field(default=None, metadata=_privacy(
        "secure-sums: members of a cohort that may tell what they know, c; with more of them epsilon does not hold"
    ))  # fmt: skip
    epsilon_alone: Number = field(default=None, metadata=_epsilon(
        "secure-sums: what holds without any assumption on server, other members and cryptography; null where "
        "epsilon holds so"
    ))  # fmt: skip
    clip_norm: Number = field(
        default=None, metadata=_privacy("norm that record gradients are clipped to, G; null: never")
    )
    records: int | None = field(default=None, metadata=_run("of all clients together, that were trained on", "records"))
    run: str | None = field(default=None, metadata=_run("name of a run between real sites; left out of a simulation's"))

    def __getitem__(self, name: str) -> Any:
        """A field by its name, as whoever picks a metric asks for it."""
        return getattr(self, name)

    @property
    def score(self) -> Number:
        """What models are ranked by: accuracy, or the share that is explained of a number or a count."""
        known = self.test_accuracy is not None and not isnan(self.test_accuracy)
        return self.test_accuracy if known or self.test_explained is None else self.test_explained

    @property
    def diverged(self) -> bool:
        """Whether weights or errors grew without bound: what such a model predicts is rounding, right or not."""
        if self.weights_norm is None or not self.weights_norm <= FAR:
            return True
        loss = self.test_loss if self.test_accuracy is not None else None  # that of a count may be any number
        return (loss or 0.0) > LOST or (self.test_explained or 0.0) < -LOST

    @property
    def beaten(self) -> str:
        """What does better on the test set without having learned anything; empty where nothing does."""
        if self.test_explained is not None:
            return "always predicting the mean" if self.test_explained < 0 else ""
        reached, majority = self.test_accuracy, self.majority_accuracy
        worse = reached is not None and majority is not None and reached < majority
        return "always predicting the majority class" if worse else ""

    def to_dict(self) -> dict[str, Any]:
        """Every field that says something about this run, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in MAY_BE_MISSING}


ABOUT: dict[str, About] = {
    each.name: each.metadata["about"] for kind in (Summary, Convergence) for each in fields(kind)
}
MAY_BE_MISSING = {each.name for each in fields(Summary) if each.default is None}


def words(name: str) -> str:
    """What tables call a field."""
    plain = name.replace("_", " ").replace("alfv", "ALFV")
    return f"{plain}, %" if ABOUT[name].unit == SHARE else plain


def from_dict(values: Any) -> Summary:
    """The summary of which `to_dict` was written as JSON.

    Raises:
        InputError: something is missing, unknown or of another kind, as in what another version wrote.
    """
    try:
        return made(Summary, values)
    except ValueError as error:
        raise InputError(f"{error}; make the run again.") from error
