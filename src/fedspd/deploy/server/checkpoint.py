"""The server's state on disk: written whole or not at all, after every round."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.results import Checkpoints

FORMER = "checkpoint.npz"
PUBLIC = ("settings", "run", "measured", "round", "evaluated", "counted", "finished", "history")
ARRAYS = ("server", "mean", "deviation", "recent", "cohort", "counts")


@dataclass(frozen=True)
class Member:
    """A site as the server knows it."""

    site: str
    node: int
    records: int
    terms: str = ""  # digest of the terms it entered under
    planned: int = 0  # charges that the run plans for it
    asked: int = 0  # rounds
    answered: int = 0
    acknowledged: int = 0  # number of its last reply that is part of the server's sum
    merged: int = 0  # round of that reply
    charges: int = 0  # as it last reported
    epsilon: float = float("nan")  # of this run, as it reported at the end
    epsilon_alone: float = float("nan")  # of its charges if everybody else colludes; not a number: it relies on nobody
    retired: str = ""  # why it takes no part any more


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything a run needs to go on."""

    settings: str
    run: str
    roster: tuple[Member, ...]
    server: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    measured: bool  # whether columns have their scales
    round: int = 0  # the last one that was merged
    evaluated: bool = False  # whether sites were asked to measure the model, where they were to be
    counted: tuple[int, ...] = ()  # places whose counts are in the sum
    finished: bool = False
    history: tuple[dict[str, Any], ...] = field(default=())
    recent: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))  # models of the last rounds
    cohort: np.ndarray = field(default_factory=lambda: np.zeros(0))  # where sites share noise: its state and last reply
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))  # sum of what sites released of held-out records

    @property
    def standing(self) -> list[int]:
        """Places that have not retired."""
        return [place for place, member in enumerate(self.roster) if not member.retired]

    def with_member(self, place: int, **changes: Any) -> "Checkpoint":
        """The same with one site changed."""
        roster = list(self.roster)
        roster[place] = replace(roster[place], **changes)
        return replace(self, roster=tuple(roster))


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and keep the one before.

    Guarantees:
        Whenever the process or the machine ends, the folder holds the old checkpoint or the new one, whole.
    """
    public = {name: getattr(checkpoint, name) for name in PUBLIC}
    public["roster"] = [asdict(member) for member in checkpoint.roster]
    arrays = {name: getattr(checkpoint, name) for name in ARRAYS}
    folder.mkdir(parents=True, exist_ok=True)
    Checkpoints(folder).write(arrays | {"public": np.frombuffer(json.dumps(public).encode(), np.uint8)})


def load(folder: Path) -> Checkpoint | None:
    """The latest checkpoint of a folder that is as it was written, if any was written."""
    kept = Checkpoints(folder)
    if (folder / FORMER).exists():
        raise _refused(folder, f"{FORMER} of an earlier version of fedspd")
    if not kept.exist():
        return None
    stored = kept.read()
    if stored is None:
        raise _refused(folder, "none that is as it was written")
    try:
        values = json.loads(stored["public"].tobytes())
        roster = tuple(Member(**member) for member in values.pop("roster"))
        arrays: dict[str, Any] = {name: stored[name] for name in ARRAYS}
        lists = {name: tuple(values[name]) for name in ("history", "counted")}
        return Checkpoint(**{**values, **lists}, roster=roster, **arrays)
    except (ValueError, TypeError, KeyError) as error:
        raise _refused(folder, f"one of another version of fedspd ({type(error).__name__})") from None


def _refused(folder: Path, got: str) -> InputError:
    return InputError(f"expected a checkpoint in {folder}, got {got}; restore it, or name another federation.folder.")
