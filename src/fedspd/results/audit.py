"""What an audit left behind: `audit.json` in a run's folder. Who writes it stands beside who reads it."""

from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

from fedspd.errors import InputError
from fedspd.results.files import own_file, to_json, write_whole
from fedspd.results.summary import Number
from fedspd.results.typed_json import made, read_json

AUDIT = "audit.json"


@dataclass(frozen=True)
class Attacked:
    """One attack by many runs, and what it proved."""

    attack: str  # what was tried, in words
    claimed_epsilon: float
    lower_bound: float  # the larger of the two below
    lower_direct: float  # whatever the mechanism is
    lower_family: float | None  # among claims like the one attacked; None where there is no such family
    runs: int  # in each of two worlds


@dataclass(frozen=True)
class Moved:
    """How far a record moved a query, in the worst of all replays."""

    round: int  # counted from 1
    release: int  # of the round, counted from 1
    ratio: Number  # to the declared sensitivity; None: endless, where nothing may move


@dataclass(frozen=True)
class Replayed:
    """What replays on neighboring shards found."""

    pairs: int
    worst_ratio: Number  # of a query's movement to its declared sensitivity; None: endless
    state_differs: bool  # something kept or sent depends on the record beside the release
    most_moved: int  # releases of one round that depend on the record
    survived: bool
    ratios: tuple[Moved, ...]  # of every release of every round that is not free

    @property
    def worst(self) -> Moved | None:
        """Where a record moved a query furthest, first of all."""
        return max(self.ratios, key=lambda moved: inf if moved.ratio is None else moved.ratio, default=None)


@dataclass(frozen=True)
class AuditRecord:
    """The statement of a run, and the best that attackers could do against it."""

    claimed_epsilon: float
    delta: float
    guarantee: str  # "proved" or "as published"
    lower_bound: float  # epsilon that is certainly leaked, but for a chance of one minus the confidence
    confidence: float
    attack: str  # the one that reached it
    runs: int  # of that attack, in each of two worlds
    refuted: bool  # the statement does not hold
    attacks: tuple[Attacked, ...]
    replay: Replayed
    noise_is_fresh: bool  # no draw comes back in another round or client, or follows from another seed

    def write(self, folder: Path) -> None:
        """Into a run's folder; an earlier one is replaced."""
        write_whole(folder / AUDIT, (to_json(asdict(self)) + "\n").encode())


def read_audit(folder: Path) -> AuditRecord | None:
    """The audit of a run's folder; None where there is none.

    Raises:
        InputError: it cannot be read, or is of another version.
    """
    if not (folder / AUDIT).is_file():
        return None
    try:
        return made(AuditRecord, read_json(own_file(folder, AUDIT)))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{folder / AUDIT} must be as this version of fedspd audit writes it, got: {error}; audit the run again."
        ) from error
