"""Every setting with its default, its meaning and its limits; `config` reads them from TOML."""

from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from fedspd.algorithms import METHODS, Method, Work
from fedspd.config.conditions import lacks
from fedspd.config.measuring import ROUNDS, Evaluation, Metrics
from fedspd.data import KINDS, SOURCES
from fedspd.errors import InputError
from fedspd.problem import LOSSES
from fedspd.reading import SIZES, nearest, parse_section, setting
from fedspd.typing import UNITS

DEFAULT_METHOD = "fedspd"


@dataclass(frozen=True)
class Data:
    """Where records come from and how they become features."""

    name: str = setting("adult", "data set; adult is embedded; it may have keys of its own", choices=SOURCES)
    encode: str = setting(
        "declared", "how columns become features; auto: those that the schema leaves open are cut as finely as noise "
        "allows, by public numbers; declared: as the schema says",
        choices=("auto", "declared"),
    )  # fmt: skip
    scaling: str = setting(
        "noisy-moments",
        "noisy-moments: charged to the budget; min-max: by public bounds; z-score: on training statistics, not private",
        choices=("noisy-moments", "min-max", "z-score", "none"),
    )
    moments_share: float = setting(0.1, "noisy-moments: their part of the squared budget", above=0, below=1)
    deviation_floor: float = setting(
        0.3, "noisy-moments: least deviation a column is divided by", above=0, within=(0, 1e6)
    )
    bias: float = setting(0.0, "value of an added constant column; 0 adds none")
    row_norm: float | None = setting(
        None, "rows longer than this are shortened to it; absent: never", at_least=1e-6, at_most=1e6
    )
    split: str = setting(
        "test", "what models are measured on; validation: a fifth of the training records, held out of training",
        choices=("test", "validation"),
    )  # fmt: skip
    source: Any = field(default_factory=lambda: SOURCES["adult"].settings())  # what the data set has of its own

    @classmethod
    def of(cls, keys: Any) -> "Data":
        """A table of keys, of which `name` decides which others there are."""
        table, general = _table("data", keys), declared_keys(cls)
        source = SOURCES.get(str(table.get("name", "adult")))
        own = declared_keys(source.settings) if source else {}
        for key in table:
            if key not in general | own:
                raise InputError(f"unknown key data.{key}; {nearest(key, general | own)}")
        parsed = parse_section({"data": cls}, "data", {key: table[key] for key in table if key in general})
        special = {key: table[key] for key in table if key in own}
        return replace(parsed, source=parse_section({"data": SOURCES[parsed.name].settings}, "data", special))


@dataclass(frozen=True)
class Partition:
    """Which client holds which record."""

    kind: str = setting("iid", "how records are dealt to clients", choices=KINDS)
    clients: int = setting(100, "number of clients, N; of their own: as many as the table names", at_least=1)
    alpha: float | None = setting(None, "dirichlet: concentration, small is skewed", above=0)
    at_least: int | None = setting(None, "dirichlet: records dealt to every client first", at_least=0)
    shards_per_client: int | None = setting(None, "label-shards: shards dealt to a client", at_least=1)
    column: str | None = setting(None, "by-column: the categorical column")
    exponent: float | None = setting(None, "power-law: sizes fall like rank^-exponent", at_least=0)
    seed: int | None = setting(None, "of the deal alone; absent: run.seed", at_least=0)


@dataclass(frozen=True)
class Problem:
    """What is minimized."""

    loss: str | None = setting(
        None, "loss of a record; absent: softmax for classes, least-squares for a number, poisson for a count",
        choices=LOSSES,
    )  # fmt: skip
    threshold: float = setting(
        0.5, "huber: residuals beyond this pull no harder, where the number's bounds are -1 and 1", above=0,
        within=SIZES,
    )  # fmt: skip
    clip_norm: float | None = setting(
        None, "record gradients are clipped to this norm, G; inf: never; absent: by rule", above=0, infinite=True,
        within=SIZES,
    )  # fmt: skip
    regularizer: str = setting(
        "l1", "convex regularizer", choices=("none", "l1", "squared-l2", "elastic-net", "group-l1", "box")
    )
    strength: float = setting(0.01, "its weight lambda_R (for box: the radius)", above=0, within=SIZES)
    counts: str = setting(
        "clients", "what counts the same in the objective: every client, or every record",
        choices=("clients", "records"),
    )  # fmt: skip
    ratio: float = setting(0.5, "elastic-net: share of the l1 part", at_least=0, at_most=1)
    per_client: str = setting(
        "share",
        "what strength weighs; full: the mean loss, whatever N is; share: the sum over clients, each of which carries "
        "1/N of the regularizer",
        choices=("share", "full"),
    )


@dataclass(frozen=True)
class Algorithm:
    """How it is minimized: the method, and its own settings, which no other method need have."""

    name: str
    settings: Any

    @classmethod
    def of(cls, keys: Any) -> "Algorithm":
        """A table of keys, of which `name` decides which others there are."""
        table = _table("algorithm", keys)
        name = table.get("name", DEFAULT_METHOD)
        if not isinstance(name, str):
            raise InputError(f"algorithm.name must be a string, got {name!r}.")
        method, own = METHODS.find(name), {key: value for key, value in table.items() if key != "name"}
        for key in own:
            if key not in method.keys:
                raise InputError(_foreign(name, method.keys, key))
        return cls(name, parse_section({"algorithm": method.settings}, "algorithm", own))

    @property
    def method(self) -> Method:
        """The method behind the name."""
        return METHODS.find(self.name)

    @property
    def work(self) -> Work:
        """How a client goes through its records in a round."""
        return self.method.work(self.settings)


def _foreign(name: str, known: Collection[str], key: str) -> str:
    """What to say of a key that this method does not have."""
    others = [other for other, method in METHODS.items() if key in method.keys]
    if others:
        return (
            f"algorithm.{key} is no setting of {name}, got it; leave it out, or use a method that has it: "
            f"{', '.join(others)}."
        )
    return f"unknown key algorithm.{key}; {nearest(key, ['name', *known])}"


@dataclass(frozen=True)
class Privacy:
    """How much may be learned about a record."""

    epsilon: float = setting(1.0, "privacy loss; inf adds no noise", at_least=1e-6, at_most=1e4, infinite=True)
    budget: str = setting("total", "whether epsilon is of the whole run or of a round", choices=("total", "round"))
    delta: float = setting(1e-5, "failure probability; of a proof below 1 / records", above=0, below=1)
    allow_large_delta: bool = setting(False, "prove claims with a delta of 1 / records or more too")
    noise_multiplier: float | None = setting(
        None, "noise over sensitivity, instead of a budget; epsilon becomes what it costs", above=0
    )
    unit: str = setting(
        "record",
        "what is protected; person: all rows of one at a client, by the schema's column; client: all of its "
        "rows, with secure-sums",
        choices=UNITS,
    )
    accountant: str = setting("pld", "pld: tight; rdp: Renyi, looser", choices=("pld", "rdp"))
    trust: str = setting(
        "each-upload",
        "what the server may see; each-upload: every upload carries all of its noise; secure-sums: sums of cohorts, "
        "whose members share the noise",
        choices=("each-upload", "secure-sums"),
    )
    cohorts: int | None = setting(
        None, "secure-sums: into how many the clients are dealt; absent: one takes part in a round", at_least=1
    )
    threshold: int | None = setting(
        None, "secure-sums: members that any sum holds; absent: four fifths of a cohort", at_least=1
    )
    colluders: int | None = setting(
        None, "secure-sums: members that may tell their noise; absent: all but two thirds of a cohort", at_least=0
    )
    epsilon_alone: float | None = setting(
        None,
        "secure-sums: most privacy loss if everybody else colludes, kept by more noise; absent: any",
        at_least=1e-6,
    )


@dataclass(frozen=True)
class Run:
    """How long, with whom, from which seed."""

    rounds: int | None = setting(None, "communication rounds, T; absent: by rule", at_least=1, within=ROUNDS)
    rounds_at_most: int = setting(300, "most rounds that the rule may choose", at_least=1, within=ROUNDS)
    participants: int | None = setting(None, "clients per round, K; absent: all", at_least=1)
    selection: str = setting(
        "uniform", "who takes part: drawn anew every round, or the same clients in all", choices=("uniform", "fixed")
    )
    most_stale: int | None = setting(
        None,
        "rounds within which every client takes part at least once; absent: no such bound",
        at_least=1,
        within=ROUNDS,
    )
    most_participations: int | None = setting(
        None, "rounds a client may take part in; absent: as many as all rounds need", at_least=1, within=ROUNDS
    )
    absence: float = setting(
        0.0, "secure-sums: chance that a member's part of a sum does not arrive, simulated", at_least=0, below=1
    )
    min_participants: int = setting(1, "the run ends when fewer clients have budget left", at_least=1)
    average_last: int | None = setting(
        None, "rounds whose models are averaged beside the last one; absent: a quarter", at_least=1, within=ROUNDS
    )
    seed: int | None = setting(
        None, "root of all random streams; absent: drawn from the operating system and kept nowhere", at_least=0
    )
    engine: str = setting(
        "auto",
        "what computes the rounds; auto: numpy for small runs, jax for many of one shape or on a GPU; from one seed "
        "the two draw other numbers",
        choices=("auto", "numpy", "jax"),
    )


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    data: Data = field(default_factory=Data)
    partition: Partition = field(default_factory=Partition)
    problem: Problem = field(default_factory=Problem)
    algorithm: Algorithm = field(default_factory=lambda: Algorithm.of({}))
    privacy: Privacy = field(default_factory=Privacy)
    run: Run = field(default_factory=Run)
    metrics: Metrics = field(default_factory=Metrics)
    evaluation: Evaluation = field(default_factory=Evaluation)

    @property
    def participants(self) -> int:
        """K."""
        return self.partition.clients if self.run.participants is None else self.run.participants

    @property
    def cohorts(self) -> int | None:
        """Into how many cohorts the clients are dealt; None where every upload is its client's own."""
        if self.privacy.trust == "each-upload":
            return None
        return self.privacy.cohorts or max(1, self.partition.clients // self.participants)

    @property
    def seed(self) -> int:
        """The root of all draws, of a run that is settled."""
        assert self.run.seed is not None, "settled"
        return self.run.seed

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Every key that is read, with its value, those that are absent left out: reading it back gives the same."""
        return {
            section: {
                key: value
                for key, value in self.section(section).items()
                if value is not None and lacks(self, f"{section}.{key}") is None
            }
            for section in SECTIONS
        }

    def section(self, name: str) -> dict[str, Any]:
        """Keys and values of a section, as they stand in a file."""
        if name == "algorithm":
            return {"name": self.algorithm.name} | vars(self.algorithm.settings)
        if name == "data":
            return {key: value for key, value in vars(self.data).items() if key != "source"} | vars(self.data.source)
        return dict(vars(getattr(self, name)))

    def declared(self, section: str) -> dict[str, Field[Any]]:
        """Where the keys of a section are declared."""
        if section == "algorithm":
            return declared_keys(self.algorithm.settings)
        if section == "data":
            return declared_keys(Data) | declared_keys(self.data.source)
        return declared_keys(SECTIONS[section])


SECTIONS: dict[str, Any] = {section.name: section.type for section in fields(Config)}


def declared_keys(kind: Any) -> dict[str, Field[Any]]:
    """Fields of a dataclass that are settings."""
    return {key.name: key for key in fields(kind) if "doc" in key.metadata}


def _table(name: str, keys: Any) -> Mapping[str, Any]:
    if not isinstance(keys, Mapping):
        raise InputError(f"[{name}] must be a table of keys, got {keys!r}; write [{name}] on its own line.")
    return keys
