"""What one participation of one client costs: the events that the ledger stores and recomposes.

An event holds public numbers only, is hashable, and survives a round trip through JSON. It fixes the
neighbor relation its cost refers to; histories that mix relations are refused by the accountants.
Sampling with replacement has no event: there is no proof for it here (docs/accounting.md).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar

from fedspd.errors import InputError
from fedspd.privacy.accounting.limits import (
    LEAST_PURE_MULTIPLIER,
    Relation,
    require_contraction,
    require_count,
    require_multiplier,
    require_own,
    require_rate,
    require_relation,
)
from fedspd.privacy.accounting.minimizers import Minimizer


def relative_distances(local_steps: int, contraction: float) -> tuple[float, ...]:
    r"""How far a record moves the query from each local step, relative to the first step.

    $d_r/d_1 = (1 - c^{Q-r+1})/(1 - c^Q)$ for $r = 1..Q$, and its limit $(Q-r+1)/Q$ at $c = 1$.
    """
    remaining = range(local_steps, 0, -1)
    if contraction == 0.0:
        return (1.0,) * local_steps
    if contraction == 1.0:
        return tuple(steps / local_steps for steps in remaining)
    rate = math.log(contraction)
    return tuple(math.expm1(steps * rate) / math.expm1(local_steps * rate) for steps in remaining)


def step_chances(records: int, local_steps: int) -> tuple[float, ...]:
    """Of a record to be in each of the batches that a whole shard is dealt out to in turn: their sizes over all.

    Batches differ by one at most, and the longer ones come first.
    """
    each, more = divmod(records, local_steps)
    return tuple((each + (step < more)) / records for step in range(local_steps))


def to_dict(event: "Event") -> dict[str, str | float | int | None]:
    """The event as values JSON can hold; `from_dict` is its inverse."""
    if type(event) not in _NAMES:
        raise InputError(f"expected an event ({_known_kinds()}), got {event!r}; pass one of those.")
    values = {each.name: _plain(getattr(event, each.name)) for each in fields(event)}
    return {"kind": _NAMES[type(event)], **values}


def from_dict(values: Mapping[str, Any]) -> "Event":
    """The event that `to_dict` wrote.

    Guarantees:
        A kind or a field that is unknown, and a field that is missing, is refused.
    """
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"expected an event kind among {_known_kinds()}, got {kind!r}; no accountant here has a proof "
            "for anything else, sampling with replacement included: use one of these."
        )
    given = {name: value for name, value in values.items() if name != "kind"}
    known = {each.name for each in fields(KINDS[kind])}
    if set(given) != known:
        raise InputError(
            f"expected the fields {sorted(known)} for the event {kind!r}, got {sorted(given)}; "
            "write events with to_dict only."
        )
    return KINDS[kind](**given)


def _plain(value: Any) -> str | float | int | None:
    if value is None or isinstance(value, str):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _known_kinds() -> str:
    return ", ".join(sorted(KINDS))


@dataclass(frozen=True)
class Gaussian:
    """One release with Gaussian noise that uses every record: no subsampling.

    Args:
        noise_multiplier: noise std over the sensitivity under `relation`.
    """

    noise_multiplier: float
    relation: Relation = "replace-one"

    def __post_init__(self) -> None:
        require_multiplier(self.noise_multiplier)
        require_relation(self.relation)


@dataclass(frozen=True)
class SharedGaussian:
    """One release of a sum, of which a cohort's members made the Gaussian noise together; every record is used.

    Args:
        noise_multiplier: noise std over the sensitivity, if as few members collude as was assumed.
        own_multiplier: the same, of the one member's own noise: what is left if everybody else colludes.
    """

    noise_multiplier: float
    own_multiplier: float
    relation: Relation = "replace-one"

    def __post_init__(self) -> None:
        require_multiplier(self.noise_multiplier)
        require_relation(self.relation)
        require_own(self.own_multiplier, self.noise_multiplier)


@dataclass(frozen=True)
class Laplace:
    r"""One pure release that uses every record: noise $b$ of density $\propto e^{-\|b\|_2/(zs)}$, no subsampling.

    The noise is added to a query of sensitivity $s$, or to the linear term of an objective whose gradient a record
    moves by at most $s$, and whose exact minimizer is released.

    Args:
        noise_multiplier: $z$, the scale of the noise over the L2 sensitivity under `relation`.
        jacobian: the loss that minimizing adds, a bound on $|\ln(\det/\det')|$ of the two Jacobians; 0 for noise
            on a query.
        dimension: $d$, of the noise; noise in many dimensions leaks less at delta > 0 than its epsilon says.
        directions: $k < d$; what a record adds to the query or to the gradient stays in a subspace of so many
            dimensions, known before the noise is drawn. 1 on a query; 2 in an objective whose records are
            replaced and have gradients of fixed direction. Without these two nothing is assumed.
    """

    noise_multiplier: float
    jacobian: float = 0.0
    relation: Relation = "replace-one"
    dimension: int | None = None
    directions: int | None = None

    def __post_init__(self) -> None:
        require_multiplier(self.noise_multiplier, LEAST_PURE_MULTIPLIER)
        if not isinstance(self.jacobian, Real) or not 0.0 <= self.jacobian < math.inf:
            raise InputError(
                f"jacobian must be finite and at least 0, got {self.jacobian!r}; it bounds the log of a ratio of "
                "determinants, and is 0 for noise on a query."
            )
        require_relation(self.relation)
        if self.dimension is not None or self.directions is not None:
            require_count("directions", self.directions)
            require_count("dimension", self.dimension, least=(self.directions or 1) + 1)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of the release: its privacy loss never exceeds it."""
        return 1.0 / self.noise_multiplier + self.jacobian


@dataclass(frozen=True)
class FixedSize:
    r"""One release from a fresh secret subset of fixed size, drawn without replacement; replace-one.

    Args:
        noise_multiplier: noise std over $s_x = d_1$, the replace-one distance of a record at step 1.
        records: size of the shard.
        drawn: size of the subset, split at random into `local_steps` batches of equal size. If it is the whole shard,
            its records are shuffled and dealt out in turn, and batches may differ by one in length.
        contraction: $c = \gamma/(\gamma+\rho)$, which shrinks a record's distance at later steps; 0 means
            that every step counts like the first. One local step ignores it.
    """

    relation: ClassVar[Relation] = "replace-one"
    noise_multiplier: float
    records: int
    drawn: int
    local_steps: int = 1
    contraction: float = 0.0

    def __post_init__(self) -> None:
        require_multiplier(self.noise_multiplier)
        require_count("records", self.records)
        require_count("drawn", self.drawn)
        require_count("local_steps", self.local_steps)
        require_contraction(self.contraction)
        if self.drawn > self.records:
            raise InputError(
                f"drawn must be at most records = {self.records}, got {self.drawn}; "
                "a subset without replacement is no larger than its shard: draw fewer."
            )
        if self.drawn == self.records and self.drawn < self.local_steps:
            raise InputError(
                f"records must be at least local_steps = {self.local_steps}, got {self.records}; take fewer steps."
            )
        if self.drawn < self.records and self.drawn % self.local_steps:
            raise InputError(
                f"drawn must be a multiple of local_steps = {self.local_steps}, got {self.drawn}; "
                "the proof needs batches of equal size."
            )


@dataclass(frozen=True)
class Poisson:
    r"""One release from records that join independently with probability `rate`; zero-out neighbors.

    With several local steps each joining record goes to a random step, the batch sums are divided by the
    fixed `batch_size`, and the contraction needs every batch to hold at most `max_batch` records: the rare
    exception is charged to delta, never truncated (docs/accounting.md).

    Args:
        noise_multiplier: noise std over $s_x = d_1$, the zero-out distance of a record at step 1.
        records, batch_size, max_batch: $m$, $b$ and $B_{max}$; needed with several local steps only.
    """

    relation: ClassVar[Relation] = "zero-out"
    noise_multiplier: float
    rate: float
    local_steps: int = 1
    contraction: float = 0.0
    records: int | None = None
    batch_size: int | None = None
    max_batch: int | None = None

    def __post_init__(self) -> None:
        require_multiplier(self.noise_multiplier)
        require_rate(self.rate)
        require_count("local_steps", self.local_steps)
        require_contraction(self.contraction)
        if self.local_steps > 1:
            require_count("records", self.records)
            require_count("batch_size", self.batch_size)
            require_count("max_batch", self.max_batch, least=self.batch_size or 1)


@dataclass(frozen=True)
class SharedFixedSize(FixedSize):
    """The same of a sum: a member's subset, and noise that the members of its cohort made together; one local step."""

    own_multiplier: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_own(self.own_multiplier, self.noise_multiplier, self.local_steps)


@dataclass(frozen=True)
class SharedPoisson(Poisson):
    """The same of a sum: a member's records that joined, and noise that the members of its cohort made together."""

    own_multiplier: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_own(self.own_multiplier, self.noise_multiplier, self.local_steps)


Event = Gaussian | SharedGaussian | Laplace | Minimizer | FixedSize | Poisson  # and what is shared of the last two

KINDS: Mapping[str, type[Event]] = {
    "gaussian": Gaussian,
    "shared-gaussian": SharedGaussian,
    "laplace": Laplace,
    "minimizer": Minimizer,
    "fixed-size": FixedSize,
    "poisson": Poisson,
    "shared-fixed-size": SharedFixedSize,
    "shared-poisson": SharedPoisson,
}
_NAMES = {event: kind for kind, event in KINDS.items()}


def shared(event: Event, own_multiplier: float) -> Event:
    """The event with noise that a cohort's members make together, of which the client has so much by itself."""
    match event:
        case Gaussian():
            return SharedGaussian(event.noise_multiplier, own_multiplier, event.relation)
        case FixedSize():
            return SharedFixedSize(event.noise_multiplier, event.records, event.drawn, own_multiplier=own_multiplier)
        case Poisson():
            return SharedPoisson(event.noise_multiplier, event.rate, own_multiplier=own_multiplier)
    raise InputError(f"only Gaussian noise is shared, got {event!r}; set privacy.trust = each-upload.")


def alone(event: Event) -> Event:
    """The event as it is if everybody else colludes: with the client's own noise only."""
    match event:
        case SharedGaussian():
            return Gaussian(event.own_multiplier, event.relation)
        case SharedFixedSize():
            return FixedSize(event.own_multiplier, event.records, event.drawn)
        case SharedPoisson():
            return Poisson(event.own_multiplier, event.rate)
    return event
