"""One attempt at a run that may be cut off: its folder, where it stands, and which run it is when it goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from fedspd.assemble.gate import Identity
from fedspd.assemble.settled import draw_seed
from fedspd.cli.commands.resume import resumed, work_of
from fedspd.config import Config
from fedspd.engine.keeping import EVERY, Keeper
from fedspd.errors import InputError
from fedspd.results import Checkpoints, RunFolder, Work, is_unfinished, read_work, sync_files, unfinished, write_work
from fedspd.studies.jobs import run_key


@dataclass(frozen=True)
class Attempt:
    """At a run, the first or one more."""

    path: Path
    work: Work
    resumed: bool
    every: float | None  # seconds between checkpoints; None: none are made

    @property
    def identity(self) -> Identity:
        """Which run this is."""
        return Identity(self.work.key, self.resumed, self.work.secret)

    def keeper(self) -> Keeper | None:
        """What keeps where the run stands."""
        return None if self.every is None else Keeper(self._checkpoints, self.every)

    @contextmanager
    def folder(self, private: bool) -> Iterator[Path]:
        """The run's folder, marked as unfinished until it is left; nothing is left of one that got nowhere."""
        with unfinished(self.path, self.work, private, lambda error: self.resumed or self.is_kept()) as folder:
            if self.resumed and self.every is None and not self.work.paid:
                self._forget()
            yield folder
            self._clear()

    def is_kept(self) -> bool:
        """Whether there is something to go on from."""
        return self._checkpoints.exist() or (is_unfinished(self.path) and read_work(self.path).paid)

    def keep(self) -> None:
        """Mark the run as paid for and written: whatever comes now, it stays, and nothing is paid for again."""
        sync_files(self.path)
        write_work(self.path, replace(self.work, paid=True, secret=None))

    def _clear(self) -> None:
        """Remove what was kept to go on from, and what a process that was killed has left half written."""
        self._checkpoints.remove()
        for path in self.path.glob(".*"):
            path.unlink()

    def _forget(self) -> None:
        """The draws of the attempt before are gone, and nothing that was made with them was left: begin anew."""
        for path in self.path.glob("ledger.sqlite*"):
            path.unlink()

    @property
    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.path)


def begin_attempt(context: typer.Context, config: Config, folder: Path, every: float | None) -> Attempt:
    """Whether the command goes on with a run, or begins one.

    A run without a seed is drawn from the operating system, and whoever knows the draw can subtract its noise. So its
    seed is kept only where somebody asks for checkpoints, and only until the run is done.

    Raises:
        InputError: the folder cannot be written to; what the run depends on has changed.
    """
    before, key = resumed(context), run_key(config)
    if before is None:
        RunFolder(folder)
        secret = draw_seed() if config.run.seed is None and every is not None else None
        work = work_of(context, key, secret)
    elif before.key != key:
        raise InputError(
            f"expected the settings, the records and the version of fedspd that the run in {folder} was begun with, "
            "got others: the same noise on other records would tell them apart; restore them, or begin a new run."
        )
    else:
        work = before
    if every is None and config.run.seed is not None:
        every = EVERY
    return Attempt(folder, work, before is not None, every)
