"""The distinguishing game on everything that one client releases: many runs on each of two neighboring shards.

Many copies of the attacked client are one stack, so that the engine's own round plays thousands of runs at once. The
server sends what the attacker likes. The attacker follows the method under both hypotheses from what it has seen
released, as the replay does, and adds up log-likelihood ratios: the best statistic there is (Neyman and Pearson 1933)
where a client's state follows from its releases. Where a client hides state, it follows the mean of what that may be.
Of a minimizer with a small Gaussian on it the attacker takes what it sees for the minimizer itself, which it nearly is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fedspd.algorithms.base import RemembersNoise, at_weights, draws_shape
from fedspd.audit.keeping import Kept
from fedspd.audit.moments import moments_scores
from fedspd.audit.replay import releases, told_by
from fedspd.audit.target import Pair, Target
from fedspd.data import Shards
from fedspd.engine import draws
from fedspd.engine.batches import gather_batches
from fedspd.engine.client_tables import heard
from fedspd.engine.release import Drawn, release
from fedspd.engine.round import play, play_free
from fedspd.typing import Argmin, Batches, Query, Release

STACK = 4096  # runs that are played together
LARGE = 1 << 22  # numbers in a stack of batches, at most about
CERTAIN = 1e6  # a score that leaves no doubt: something depends on the record without any noise


def play_game(
    target: Target, pair: Pair, runs: int, seed: int, advance: Callable[[], Any] = lambda: None,
    kept: Kept | None = None, name: str = "",
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Scores of as many runs on the first shard and on the second; large ones speak for the second.

    Args:
        target: what is attacked.
        pair: the neighboring shards, and what the server sends.
        runs: on each of the shards.
        seed: of the client's draws; the attacker does not know them.
        advance: called whenever a stack of runs is done on both, `stacks(target, runs)` times.
        kept: scores of an earlier attempt at the same game; those that it has are not played again.
        name: of the game, among those that are kept.
    """
    kept = kept or Kept()
    sizes = [len(part) for part in np.array_split(np.arange(runs), stacks(target, runs))]
    scores: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for number, size in enumerate(sizes):
        for second in (False, True):
            play = partial(_stack, target, pair, second, size, (seed, number, second))
            scores[second].append(kept.of(f"{name}.{number}.{int(second)}", play))
        advance()
    return np.concatenate(scores[0]), np.concatenate(scores[1])


def stacks(target: Target, runs: int) -> int:
    """How many stacks so many runs are played in."""
    drawn = target.batch_size or -(-target.held // target.algorithm.local_steps)
    numbers = target.algorithm.local_steps * drawn * target.columns
    return -(-runs // max(1, min(STACK, LARGE // numbers)))


def _stack(target: Target, pair: Pair, second: bool, runs: int, key: tuple[int, int, bool]) -> np.ndarray:
    algorithm, rng = target.algorithm, np.random.default_rng(key)
    clients = algorithm.network.clients if hasattr(algorithm, "network") else 1
    server = at_weights(algorithm.start(np.zeros((clients, *target.matrix)))[0], pair.weights)
    client = algorithm.start(np.zeros((runs, *target.matrix)))[1]
    hypotheses = [Hypothesis(target, pair, guess, client) for guess in (False, True)]
    scores = moments_scores(target, second, runs, rng)
    shard = pair.second if second else pair.first
    for turn in range(1, target.participations + 1):
        told = heard(algorithm.broadcast(server, turn), np.zeros(runs, int))
        bound = float(np.max(algorithm.sensitivity(turn, np.array([target.divisor]))))
        free = play_free(algorithm, told, client) if bound == 0 else None
        if free is not None:
            client = free.client
            for hypothesis in hypotheses:
                hypothesis.recycle(told)
            continue
        seen: list[Any] = []
        scale = target.multiplier * bound
        client = play(
            algorithm, told, client, _batches(target, shard, runs, rng), watched(algorithm.law, scale, seen),
            unit_noise(target, runs, key[0], turn, 2 * key[1] + key[2]),
        ).client  # fmt: skip
        likelihoods = [hypothesis.hear(told, seen, scale) for hypothesis in hypotheses]
        scores = scores + (likelihoods[1] - likelihoods[0])
    return scores


def _batches(target: Target, shard: Any, runs: int, rng: np.random.Generator) -> Batches:
    """The engine's own draw of records, for every run anew."""
    units = None if target.rows == 1 else target.units(target.held, target.rows)
    sizes = np.full(runs, target.held if units is None else len(units.starts) - 1)
    drawn = target.sample(rng, sizes, target.sampling, target.batch_size, target.algorithm.local_steps)
    table, labels = (np.repeat(rows, target.rows, axis=0) for rows in (shard.features, shard.labels))
    whole = Shards(table, labels, np.array([0, len(labels)]), None, units=units)
    return gather_batches(whole, np.zeros(runs, int), drawn, np.full(runs, target.divisor))


def unit_noise(target: Target, runs: int, seed: int, turn: int, client: int) -> np.ndarray:
    """Unit noise by the engine's streams; of noise that is no part of the claim, nothing: the attacker may know it."""
    algorithm, rng = target.algorithm, target.stream(seed, "noise", turn, client)
    noise = draws.unit_noise(rng, algorithm.law, (runs, *draws_shape(algorithm, target.matrix)))
    if isinstance(algorithm, RemembersNoise) and algorithm.more_draws:
        noise[:, target.algorithm.releases :] = 0.0
    return noise


def watched(law: str, scale: float, seen: list[Any]) -> Callable[[Query | Argmin, Any], Release]:
    """The one door, with an attacker who sees what comes out of it."""

    def perturb(query: Query | Argmin, unit: Any) -> Release:
        seen.append(release(query, Drawn(law, scale, unit)))
        return seen[-1]

    return perturb


class Hypothesis:
    """A client as it would be if its shard were this one, followed from what was released."""

    def __init__(self, target: Target, pair: Pair, second: bool, client: Any) -> None:
        self.target, self.client = target, client
        chances = target.chances()
        rows = [
            (np.log(chance), pair.batches(second, step - 1 if step else None, target))
            for step, chance in enumerate(chances)
            if chance > 0
        ]
        self.cases = [(weight, *batch) for weight, batch in rows]

    def recycle(self, told: Any) -> None:
        """A round without records."""
        played = play_free(self.target.algorithm, told, self.client)
        assert played is not None, "the real one was free"
        self.client = played.client

    def hear(self, told: Any, seen: list[Release], scale: float) -> np.ndarray:
        """The log-likelihood of a round's releases; the state moves on."""
        algorithm, runs = self.target.algorithm, len(np.asarray(seen[0].value))
        found = np.stack([np.full(runs, weight) for weight, *_ in self.cases])
        blank = np.zeros((runs, *draws_shape(algorithm, self.target.matrix)))
        for (step, fresh), heard_of in zip(releases(algorithm, blank), seen, strict=True):
            outcomes = [self._case(told, step, fresh, heard_of, scale, *batch) for _, *batch in self.cases]
            found = found + np.stack([likelihood for likelihood, _ in outcomes])
            shares = np.exp(found - np.max(found, axis=0))
            self.client = mixed([state for _, state in outcomes], shares / shares.sum(axis=0))
        most = np.max(found, axis=0)
        return most + np.log(np.exp(found - most).sum(axis=0))

    def _case(
        self, told: Any, step: slice, fresh: np.ndarray, heard_of: Release, scale: float, features: np.ndarray,
        labels: np.ndarray,
    ) -> tuple[np.ndarray, Any]:  # fmt: skip
        """Likelihood and next state if the round's batches were these."""
        target, runs = self.target, len(fresh)
        fresh = fresh[:, 0, ...] if target.algorithm.law == "objective" else fresh  # and none on the minimizer
        rows, kinds = (np.repeat(one, target.rows, axis=1) for one in (features, labels))
        shares = None if target.rows == 1 else np.full((runs, *kinds.shape), 1 / target.rows)
        whole = Batches(
            np.broadcast_to(rows, (runs, *rows.shape)), np.broadcast_to(kinds, (runs, *kinds.shape)),
            np.full(runs, target.divisor), shares,
        )  # fmt: skip
        stirred, offset = _stirred(target.algorithm, self.client, fresh)
        query, kept = target.algorithm.query(told, stirred, whole.steps(step))
        noise = -np.asarray(told_by(query, heard_of.value))
        noise = noise if isinstance(query, Argmin) else noise + np.asarray(heard_of.value)
        if scale > 0:
            unit = _undone(target.algorithm, noise / scale - offset, fresh)
            likelihood = _log_density(target.algorithm.law, unit)
            stirred, _ = _stirred(target.algorithm, self.client, _filled(fresh, unit))
        else:
            likelihood = np.where(np.abs(noise).max(axis=(-2, -1)) > 1e-9, -CERTAIN, 0.0)
        return likelihood, target.algorithm.settle(told, stirred, heard_of, kept)[0]


def _stirred(algorithm: Any, client: Any, unit: np.ndarray) -> tuple[Any, Any]:
    """State and noise of a release; without memory the noise is the draw itself."""
    return algorithm.stir(client, unit) if isinstance(algorithm, RemembersNoise) else (client, unit)


def _undone(algorithm: Any, noise: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """The draw that a remembered noise was made of, beside what was taken back."""
    start = algorithm.start(np.zeros((1, *noise.shape[1:])))[1]
    if not isinstance(algorithm, RemembersNoise):
        return noise
    return noise / np.asarray(algorithm.stir(start, _filled(fresh[:1], np.ones((1, *noise.shape[1:]))))[1])


def _filled(fresh: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The draws of a release whose first is this one and whose others are zero."""
    if fresh.shape == unit.shape:
        return unit
    filled = np.zeros_like(fresh)
    filled[:, 0] = unit
    return filled


def _log_density(law: str, unit: np.ndarray) -> np.ndarray:
    """Of unit noise, but for a constant."""
    squares = np.einsum("rij,rij->r", unit, unit)
    return -squares / 2 if law == "gaussian" else -np.sqrt(squares)


def mixed(states: list[Any], shares: np.ndarray) -> Any:
    """The mean of what a state may be; itself where it follows from what was released."""
    first = states[0]
    if len(states) == 1:
        return first
    if isinstance(first, tuple):
        fields = [mixed(list(field), shares) for field in zip(*states, strict=True)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if all(state is first for state in states):
        return first
    return sum(share.reshape(-1, *[1] * (first.ndim - 1)) * state for share, state in zip(shares, states, strict=True))
