"""What users bring: methods, losses and partitions of their own, under the same contracts as the package's."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedspd.algorithms import METHODS, Algorithm, Method
from fedspd.data import KINDS
from fedspd.data.holding.partition import Owner
from fedspd.errors import InputError
from fedspd.problem import LOSSES, Maker

if TYPE_CHECKING:
    from fedspd.audit.replay import Found


class Brought(NamedTuple):
    """All of it, for other processes: each imports it from where it stands."""

    methods: tuple[Method, ...]
    losses: dict[str, Maker]
    partitions: dict[str, Callable[..., Owner]]


_LOSSES: dict[str, Maker] = {}
_PARTITIONS: dict[str, Callable[..., Owner]] = {}


def register(method: Method) -> None:
    """Make a method known by its name, for configurations, studies and the command line of this process."""
    METHODS.register(method)


def register_loss(name: str, maker: Maker) -> None:
    """Make a loss known by its name; the maker takes what is predicted, a `Target`, and refuses what it is not for."""
    _enter(name, maker, LOSSES, _LOSSES, "loss")


def register_partition(name: str, deal: Callable[..., Owner]) -> None:
    """Make a way of dealing records known by its name; see `data.partition` for what it is handed and returns."""
    _enter(name, deal, KINDS, _PARTITIONS, "partition")


def _enter(name: str, made: Any, known: dict[str, Any], brought: dict[str, Any], what: str) -> None:
    if name in known and known[name] is not made:
        raise InputError(f"a {what} needs a name of its own, got {name!r}, which is taken; rename it.")
    known[name] = brought[name] = made


def brought() -> Brought:
    """What was registered in this process."""
    return Brought(METHODS.brought, dict(_LOSSES), dict(_PARTITIONS))


def bring(things: Brought) -> None:
    """Register what another process has registered."""
    for method in things.methods:
        register(method)
    for name, maker in things.losses.items():
        register_loss(name, maker)
    for name, deal in things.partitions.items():
        register_partition(name, deal)


def source_of_brought() -> bytes:
    """The text of the files that it stands in: what is remembered of runs depends on it."""
    things = [*(method.make for method in METHODS.brought), *_LOSSES.values(), *_PARTITIONS.values()]
    files = {inspect.getsourcefile(thing) for thing in things}
    return b"".join(Path(file).read_bytes() for file in sorted(filter(None, files)))


def check_proof(method: Method, algorithm: Algorithm, row_norm: float, unit: str = "record") -> None:
    """Refuse a user's proof that does not survive the replay attack; the package's own are attacked by its tests."""
    if METHODS.own(method.name) is not None:
        return
    found = _attacked(algorithm, row_norm, unit)
    if not found.survived:
        raise InputError(
            f"{method.name} is called proved, but the replay attack broke it: {_words(found, unit)}; mend its "
            "sensitivity or its states, or set guarantee = 'as published'."
        )


@lru_cache(maxsize=256)  # a sweep makes the same algorithm for every seed
def _attacked(algorithm: Algorithm, row_norm: float, unit: str) -> "Found":
    from fedspd.audit.replay import attack  # nobody attacks the package's own methods in a run

    return attack(algorithm, row_norm, unit=unit)


def _words(found: "Found", unit: str) -> str:
    if found.state_differs:
        return f"what it keeps or sends depends on a {unit} beside the release"
    if found.most_moved > 1:
        return f"a {unit} moves more than one release of a round"
    if found.worst_ratio > 1:
        return f"a {unit} moves its query {found.worst_ratio:.3g} times as far as its sensitivity says"
    return "a minimizer that it releases is not exact"
