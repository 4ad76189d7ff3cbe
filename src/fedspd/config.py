"""Configuration: strict TOML into frozen dataclasses. What a key means stands here, once."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from importlib.resources import files
from math import inf, isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args

from fedspd.algorithms import METHODS
from fedspd.data import KINDS
from fedspd.errors import InputError
from fedspd.problem import LOSSES

NUMBERS = {"above": "above", "at_least": "at least", "below": "below"}


def setting(default: Any, doc: str, **rules: Any) -> Any:
    """A key with its meaning and its rules: `choices`, `above`, `at_least`, `below`, `infinite`."""
    return field(default=default, metadata={"doc": doc, **rules})


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
        "the method; -published: as its authors have it, the last three: without privacy",
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


def presets() -> list[str]:
    """Names of the configurations inside the package."""
    return sorted(path.name.removesuffix(".toml") for path in _preset_folder().iterdir() if path.name.endswith(".toml"))


def load(source: str | Path, overrides: Mapping[str, Any] | None = None, absent: Sequence[str] = ()) -> Config:
    """Read a preset by name or a TOML file by path, then apply overrides such as {"run.seed": 1}.

    Args:
        source: the preset or the file.
        overrides: settings to change, by "section.key".
        absent: settings to leave out though the source has them.
    """
    try:
        values = tomllib.loads(_read(source))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not valid TOML: {error}; mend it at that place.") from None
    for name, value in (overrides or {}).items():
        section, dot, key = name.partition(".")
        if not dot:
            raise InputError(f"a setting must be named section.key, got {name!r}; for example run.seed.")
        table = values.setdefault(section, {})
        if isinstance(table, dict):  # what is none is refused by parse
            table[key] = value
    for name in absent:
        section, _, key = name.partition(".")
        values.get(section, {}).pop(key, None)
    return parse(values)


def parse(values: Mapping[str, Any]) -> Config:
    """Check sections, keys, types and ranges."""
    sections = {}
    for name, keys in values.items():
        if name not in SECTIONS:
            raise InputError(f"unknown section [{name}]; {_nearest(name, SECTIONS)}")
        if not isinstance(keys, Mapping):
            raise InputError(f"[{name}] must be a table of keys, got {keys!r}; write [{name}] on its own line.")
        known = {key.name: key for key in fields(SECTIONS[name])}
        for key in keys:
            if key not in known:
                raise InputError(f"unknown key {name}.{key}; {_nearest(key, known)}")
        checked = {key: _checked(f"{name}.{key}", known[key], value) for key, value in keys.items()}
        sections[name] = SECTIONS[name](**checked)
    return Config(**sections)


def changed(config: Config, overrides: Mapping[str, Any]) -> Config:
    """The configuration with some settings changed, by "section.key"."""
    values = config.to_dict()
    for name, value in overrides.items():
        section, _, key = name.partition(".")
        values[section][key] = value
    return parse(values)


def parse_override(text: str) -> tuple[str, Any]:
    """Split "section.key=value"; the value is read as TOML, and as a string where it is none."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"a setting must look like section.key=value, got {text!r}.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def _read(source: str | Path) -> str:
    name, path = str(source), Path(source)
    if name in presets():
        return (_preset_folder() / f"{name}.toml").read_text()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(
            f"expected a TOML file or a preset, got {name!r} ({reason}); {_nearest(name, presets())}"
        ) from None


def _preset_folder() -> Any:
    return files("fedspd") / "presets"


def _meaning(key: Field[Any]) -> str:
    choices = key.metadata.get("choices", ())
    return key.metadata["doc"] + (f" ({' | '.join(choices)})" if len(choices) > 1 else "")


def _nearest(name: str, known: Any) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {match[0]!r}?" if match else f"known are {', '.join(known)}."


def _checked(name: str, key: Field[Any], value: Any) -> Any:
    value = _typed(name, key.type, value)
    rules = key.metadata
    if "choices" in rules and value not in rules["choices"]:
        raise InputError(f"{name} must be one of {', '.join(rules['choices'])}, got {value!r}.")
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = (
            (isfinite(value) or (value == inf and "infinite" in rules))
            and value > rules.get("above", -inf)
            and value >= rules.get("at_least", -inf)
            and ("below" not in rules or value < rules["below"])
        )
        if not fits:
            wanted = [] if isfinite(value) or "infinite" in rules else ["finite"]
            wanted += [f"{word} {rules[rule]:g}" for rule, word in NUMBERS.items() if rule in rules]
            raise InputError(f"{name} must be {' and '.join(wanted)}, got {value}.")
    return value


def _typed(name: str, declared: Any, value: Any) -> Any:
    wanted = [t for t in get_args(declared) if t is not NoneType] if isinstance(declared, UnionType) else [declared]
    if float in wanted and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) not in wanted:
        raise InputError(f"{name} must be {_words(wanted[0])}, got {value!r}.")
    return value


def _words(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[kind]
