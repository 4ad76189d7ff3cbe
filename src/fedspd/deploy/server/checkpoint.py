"""The server's state on disk: written whole or not at all, after every round."""

import io
import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedspd.errors import InputError
from fedspd.results import write_whole

FILE = "checkpoint.npz"


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
    finished: bool = False
    history: tuple[dict[str, Any], ...] = field(default=())
    recent: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))  # models of the last rounds
    cohort: np.ndarray = field(default_factory=lambda: np.zeros(0))  # where sites share noise: its state and last reply

    def with_member(self, place: int, **changes: Any) -> "Checkpoint":
        """The same with one site changed."""
        roster = list(self.roster)
        roster[place] = replace(roster[place], **changes)
        return replace(self, roster=tuple(roster))


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint.

    Guarantees:
        Whenever the process ends, the folder holds the old checkpoint or the new one, whole.
    """
    public = {
        name: getattr(checkpoint, name) for name in ("settings", "run", "measured", "round", "finished", "history")
    }
    public["roster"] = [asdict(member) for member in checkpoint.roster]
    content = io.BytesIO()
    np.savez(
        content, server=checkpoint.server, mean=checkpoint.mean, deviation=checkpoint.deviation,
        recent=checkpoint.recent, cohort=checkpoint.cohort,
        public=np.frombuffer(json.dumps(public).encode(), np.uint8),
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, content.getvalue(), durable=True, mode=0o600)


def load(folder: Path) -> Checkpoint | None:
    """The checkpoint of a folder, if there is one."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            values = json.loads(stored["public"].tobytes())
            arrays = {
                name: stored[name] for name in ("server", "mean", "deviation", "recent", "cohort") if name in stored
            }
        roster = tuple(Member(**member) for member in values.pop("roster"))
        return Checkpoint(**{**values, "history": tuple(values["history"])}, roster=roster, **arrays)
    except (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(
            f"expected a checkpoint at {path}, got {type(error).__name__}; restore it, or name another folder."
        ) from None
