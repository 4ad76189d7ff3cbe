"""Games of audits on all cores: how many runs a row has, and how fast they are played."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from fedspd.audit.bounds import CONFIDENCE, Claim, Lower, lower_bound
from fedspd.audit.game import STACK, play_game
from fedspd.audit.target import worst_pair
from fedspd.audit.verdict import Contest

LEAST, MOST = 2000, 200_000  # runs of a row
NUMBERS = 2.5e6  # that a minute is enough for
OVERHEAD = 50  # numbers beside a batch
EXACT = 10  # times as many where minima are exact

Scores = tuple[np.ndarray, np.ndarray]


class Played(NamedTuple):
    """So many runs on each of two shards, and what they took; processes are started on the clock."""

    scores: Scores
    cores: int
    wall: float
    processor: float

    @property
    def pairs(self) -> int:
        """Runs on each of the shards."""
        return len(self.scores[0])

    @property
    def in_a_minute(self) -> float:
        """Pairs that all cores bring if nobody else uses them."""
        return 60 * self.cores * self.pairs / self.processor


def scores_of(contest: Contest, minutes: float) -> Scores:
    """As many runs as the row's size leaves for the time, the same on every machine."""
    target = contest.target
    drawn = target.algorithm.local_steps * (target.batch_size or -(-target.held // target.algorithm.local_steps))
    numbers = OVERHEAD + drawn * target.columns * (2 + target.algorithm.local_steps)
    numbers *= target.participations * (EXACT if target.algorithm.exact else 1)
    runs = int(np.clip(NUMBERS * minutes / numbers, LEAST, MOST))
    return play_game(target, worst_pair(target), runs, 0)


def bound_of(scores: Scores, claim: Claim, share: float) -> Lower:
    """What scores prove; rows share the error."""
    return lower_bound(*scores, claim, 1 - (1 - CONFIDENCE) * share)


def played(contest: Contest, minutes: float, share: float) -> tuple[Lower, int]:
    """What a row proves, and by how many runs."""
    scores = scores_of(contest, minutes)
    return bound_of(scores, contest.claim, share), len(scores[0])


def on_all_cores(work: Callable[..., Any], *games: Iterable[Any]) -> Iterator[Any]:
    """What comes of each game, in their order."""
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        yield from pool.map(work, *games)


def timed(contest: Contest, pairs: int) -> Played:
    """One game in parts, each with draws of its own, so that all cores have the same to do."""
    cores = os.cpu_count() or 1
    begin = time.perf_counter()
    sizes = [len(part) for part in np.array_split(np.arange(pairs), cores * -(-pairs // (cores * STACK)))]
    parts = list(on_all_cores(partial(_part, contest), sizes, range(len(sizes))))
    wall = time.perf_counter() - begin
    scores = [np.concatenate([part[world] for part, _ in parts]) for world in (0, 1)]
    return Played((scores[0], scores[1]), cores, wall, sum(seconds for _, seconds in parts))


def _part(contest: Contest, pairs: int, seed: int) -> tuple[Scores, float]:
    begin = time.process_time()
    scores = play_game(contest.target, worst_pair(contest.target), pairs, seed)
    return scores, time.process_time() - begin
