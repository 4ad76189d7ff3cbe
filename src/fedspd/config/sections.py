"""Every setting with its default, its meaning and its limits; `config` reads them from TOML."""

from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any

from fedspd.algorithms import METHODS, TOPOLOGIES
from fedspd.data import KINDS
from fedspd.problem import LOSSES
from fedspd.reading import setting


@dataclass(frozen=True)
class Data:
    """Where records come from and how they become features."""

    name: str = setting("adult", "data set; adult is embedded", choices=("adult",))
    columns: str = setting("published", "published: 81 columns; all: 105", choices=("published", "all"))
    log_capital: bool = setting(False, "take log(1 + x) of capital gain and loss")
    scaling: str = setting(
        "noisy-moments",
        "noisy-moments: charged to the budget; min-max: by public bounds; z-score: on training statistics, not private",
        choices=("noisy-moments", "min-max", "z-score", "none"),
    )
    moments_share: float = setting(0.1, "noisy-moments: their part of the squared budget", above=0, below=1)
    deviation_floor: float = setting(0.3, "noisy-moments: least deviation a column is divided by", above=0)
    bias: float = setting(0.0, "value of an added constant column; 0 adds none")
    row_norm: float | None = setting(None, "rows longer than this are shortened to it; absent: never", above=0)
    split: str = setting(
        "test",
        "what models are measured on; validation: a fifth of the training records, held out of training",
        choices=("test", "validation"),
    )


@dataclass(frozen=True)
class Partition:
    """Which client holds which record."""

    kind: str = setting("iid", "how records are dealt to clients", choices=tuple(KINDS))
    clients: int = setting(100, "number of clients, N", at_least=1)
    alpha: float | None = setting(None, "dirichlet: concentration, small is skewed", above=0)
    at_least: int | None = setting(None, "dirichlet: records dealt to every client first", at_least=0)
    shards_per_client: int | None = setting(None, "label-shards: shards dealt to a client", at_least=1)
    column: str | None = setting(None, "by-column: the categorical column")
    exponent: float | None = setting(None, "power-law: sizes fall like rank^-exponent", at_least=0)
    seed: int | None = setting(None, "of the deal alone; absent: run.seed", at_least=0)


@dataclass(frozen=True)
class Problem:
    """What is minimized."""

    loss: str = setting("softmax", "loss of a record", choices=tuple(LOSSES))
    clip_norm: float = setting(1.0, "record gradients are clipped to this norm, G; inf: never", above=0, infinite=True)
    regularizer: str = setting(
        "l1", "convex regularizer", choices=("none", "l1", "squared-l2", "elastic-net", "group-l1", "box")
    )
    strength: float = setting(0.01, "its weight lambda_R (for box: the radius)", above=0)
    counts: str = setting(
        "clients",
        "what counts the same in the objective: every client, or every record",
        choices=("clients", "records"),
    )
    ratio: float = setting(0.5, "elastic-net: share of the l1 part", at_least=0)
    per_client: str = setting(
        "share",
        "share: each client carries 1/N of the regularizer; full: all of it",
        choices=("share", "full"),
    )


@dataclass(frozen=True)
class Algorithm:
    """How it is minimized."""

    name: str = setting(
        "fedspd",
        "the method, see fedspd methods; -published: as its authors have it, the last three: without privacy",
        choices=tuple(METHODS),
    )
    penalty: float | None = setting(
        None, "penalty rho of the augmented Lagrangian, mu of fedprox; absent: by rule", above=0
    )
    local_steps: int = setting(1, "local steps per round, Q", at_least=1)
    batch_size: int | None = setting(None, "records per local step, b; absent: a pass over the whole shard", at_least=1)
    sampling: str = setting(
        "without-replacement",
        "how a client draws its records in a round",
        choices=("without-replacement", "poisson", "with-replacement"),
    )
    max_batch: int | None = setting(None, "poisson: most records in a batch the proof allows for; absent: by rule")
    start: str = setting("server", "where local steps begin", choices=("server", "own"))
    inverse_step: float | None = setting(
        None,
        "gamma, 1 / step size; absent: by rule, or as published; grows like sqrt(t) in dp-sgd-published and "
        "dp-fedavg-published",
        above=0,
    )
    step_scale: float = setting(1.0, "what the rule's step size is multiplied by", above=0)
    penalty_share: float | None = setting(None, "part of gamma + rho that is rho; absent: by rule", above=0, below=1)
    topology: str = setting(
        "star", "ADMM methods for graphs: who hears whom; star: all others, through the server", choices=TOPOLOGIES
    )
    edge_probability: float = setting(0.2, "erdos-renyi: of an edge between two clients", above=0, at_most=1)
    growth: float = setting(1.02, "dp-madmm: what the penalty is multiplied by from round to round", at_least=1)
    label_epsilon: float = setting(3.0, "dp-lr-admm: labels are flipped with chance 1 / (1 + exp(this))", above=0)
    bands: int = setting(
        4, "dp-ftrl: blocks that records come in by turns, and rounds that noise is taken back in", at_least=1
    )
    relaxation: float = setting(0.5, "private-admm: lambda; 0.5 is plain ADMM", above=0, at_most=1)
    momentum: float = setting(0.0, "noisy-prox-gd: share of the last move that is made again", at_least=0, below=1)
    diameter: float = setting(1.0, "d_X of Theorem 2, c_w of dp-admm-published", above=0)
    dual_diameter: float = setting(1.0, "d_lambda of Theorem 2", above=0)
    gradient_deviation: float = setting(1.0, "phi of Theorem 2", at_least=0)


@dataclass(frozen=True)
class Privacy:
    """How much may be learned about a record."""

    epsilon: float = setting(1.0, "privacy loss; inf adds no noise", at_least=1e-6, infinite=True)
    budget: str = setting("total", "whether epsilon is of the whole run or of a round", choices=("total", "round"))
    delta: float = setting(1e-5, "failure probability", above=0, below=1)
    noise_multiplier: float | None = setting(
        None, "noise over sensitivity, instead of a budget; epsilon becomes what it costs", above=0
    )
    accountant: str = setting("pld", "pld: tight; rdp: Renyi, looser", choices=("pld", "rdp"))


@dataclass(frozen=True)
class Run:
    """How long, with whom, from which seed."""

    rounds: int | None = setting(None, "communication rounds, T; absent: by rule", at_least=1)
    participants: int = setting(20, "clients per round, K", at_least=1)
    selection: str = setting(
        "uniform", "who takes part: drawn anew every round, or the same clients in all", choices=("uniform", "fixed")
    )
    most_stale: int | None = setting(
        None, "rounds within which every client takes part at least once; absent: no such bound", at_least=1
    )
    most_participations: int | None = setting(
        None, "rounds a client may take part in; absent: as many as all rounds need", at_least=1
    )
    min_participants: int = setting(1, "the run ends when fewer clients have budget left", at_least=1)
    average_last: int | None = setting(
        None, "rounds whose models are averaged beside the last one; absent: a quarter", at_least=1
    )
    seed: int = setting(0, "root of all random streams", at_least=0)
    engine: str = setting(
        "auto",
        "what computes the rounds; auto: numpy for small runs, jax for many of one shape or on a GPU; from one seed "
        "the two draw other numbers",
        choices=("auto", "numpy", "jax"),
    )


@dataclass(frozen=True)
class Metrics:
    """What is measured besides."""

    objective_every: int = setting(
        1, "rounds between evaluations of the objective on all records; 0: never", at_least=0
    )
    spent_every_round: bool = setting(True, "evaluate the privacy spent after every round, not only after the last")
    lagrangian: bool = setting(
        True, "follow the augmented Lagrangian, which reads all records of every participant in every round"
    )
    criterion: bool = setting(True, "compute the criterion H against scikit-learn's optimum at the end")


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    data: Data = field(default_factory=Data)
    partition: Partition = field(default_factory=Partition)
    problem: Problem = field(default_factory=Problem)
    algorithm: Algorithm = field(default_factory=Algorithm)
    privacy: Privacy = field(default_factory=Privacy)
    run: Run = field(default_factory=Run)
    metrics: Metrics = field(default_factory=Metrics)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Every key with its value, those that are absent left out: reading it back gives the same config."""
        return {
            section: {key: value for key, value in keys.items() if value is not None}
            for section, keys in asdict(self).items()
        }


SECTIONS: dict[str, Any] = {section.name: section.default_factory for section in fields(Config)}


def describe() -> list[tuple[str, str, str]]:
    """Name, default and meaning of every setting."""
    return [
        (f"{section}.{key.name}", "" if key.default is None else str(key.default), _meaning(key))
        for section, kind in SECTIONS.items()
        for key in fields(kind)
    ]


def _meaning(key: Field[Any]) -> str:
    choices = key.metadata.get("choices", ())
    return key.metadata["doc"] + (f" ({' | '.join(choices)})" if len(choices) > 1 else "")
