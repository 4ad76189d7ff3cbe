"""Scores of a game that are kept while it is played, so that an audit that was cut off does not play them again.

Every stack of runs draws from streams of its own, so one that comes from the disk is the one that would be played.
"""

import time
from collections.abc import Callable

import numpy as np

from fedspd.results import Checkpoints

SHARE = 20  # at most one part in so many of the time goes into keeping


class Kept:
    """Scores by name; on the disk too, where there is a folder for them."""

    def __init__(self, checkpoints: Checkpoints | None = None) -> None:
        self.checkpoints = checkpoints
        self.scores = (checkpoints and checkpoints.read()) or {}
        self.due = time.monotonic()

    def of(self, name: str, play: Callable[[], np.ndarray]) -> np.ndarray:
        """Those of this name, which are played if nobody has."""
        if name not in self.scores:
            self.scores[name] = play()
            self._keep()
        return self.scores[name]

    def _keep(self) -> None:
        begin = time.monotonic()
        if self.checkpoints is not None and begin >= self.due:
            self.checkpoints.write(self.scores)
            end = time.monotonic()
            self.due = end + SHARE * (end - begin)
