r"""What only a simulator can measure, since it needs records: never sent, never used to decide anything.

The augmented Lagrangian function value (ALFV, eq. 4-5) is a sum over all N clients of which only
the participants' terms change in a round. Expanding the square leaves sums that the participants
alone update:

$$\sum_i F_i(x_i) + \langle\textstyle\sum_i\lambda_i, x_0\rangle - \sum_i\langle\lambda_i, x_i\rangle
  + \tfrac\rho2\big(\sum_i\|x_i\|^2 - 2\langle\textstyle\sum_i x_i, x_0\rangle + N\|x_0\|^2\big).$$

The local losses, the only costly part, are evaluated later in blocks, so that a client's records
are read once for many rounds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedspd.algorithms import PrimalDual
from fedspd.data import Shards, Table
from fedspd.engine.parallel import ParallelMap
from fedspd.problem import Loss, Objective
from fedspd.target import Classes
from fedspd.typing import Array, array_namespace

BLOCK = 1 << 17  # scores evaluated at a time: 1 MiB, within a core's cache
PENDING = 1 << 23  # weights kept until their losses are evaluated: 64 MiB

RUNNING = (
    "weights", "dual", "largest_norm", "local", "weights_sum", "dual_sum", "products", "squares", "history_sum",
    "since", "largest_regularizer",
)  # fmt: skip
LISTS = ("quadratic", "consensus", "local_sums")
"""What of an augmented Lagrangian changes from round to round."""


def scores(loss: Loss, features: Array, models: Array) -> Any:
    """(records, models, outputs or their contrast), by one matrix product."""
    xp = array_namespace(features)
    contrasts = loss.contrast(models)
    count, columns, outputs = contrasts.shape
    flat = xp.reshape(xp.moveaxis(contrasts, 0, 1), (columns, count * outputs))
    return xp.reshape(features @ flat, (-1, count, outputs))


def right(loss: Loss, features: Array, labels: Array, models: Array) -> Any:
    """How many records each model predicts the label of."""
    xp = array_namespace(features)
    predicted = loss.predict(scores(loss, features, models))
    # comparing truth values with integers would widen all of them first
    classes: Any = (labels == 1) if predicted.dtype == xp.bool else labels
    return xp.count_nonzero(predicted == classes[:, None], axis=0)


def accuracies(loss: Loss, test: Table | None, models: np.ndarray, each: ParallelMap = map) -> np.ndarray:
    """Share of test records whose label each model predicts; a model that is not finite predicts nothing.

    Not a number where no class is predicted, or nothing measured.
    """
    if test is None or not isinstance(test.predicted, Classes):
        return np.full(len(models), np.nan)
    models = models.astype(test.features.dtype, copy=False)
    parts = blocks(len(test), models)
    counts = each(lambda part: right(loss, test.features[part], test.labels[part], models), parts)
    return shares(sum(counts, np.zeros(len(models), np.int64)), models, len(test))


def shares(counts: np.ndarray, models: np.ndarray, records: int) -> np.ndarray:
    """Accuracies from counts, of a stack of models or of several."""
    return np.where(np.isfinite(models).all(axis=(-2, -1)), counts / records, np.nan)


def losses(loss: Loss, test: Table, weights: np.ndarray) -> np.ndarray:
    """Loss of every test record under one model."""
    return loss.values(scores(loss, test.features, weights[None])[:, 0], test.labels)


def row_weights(shards: Shards) -> np.ndarray:
    """What the loss of each row weighs in the objective of its client."""
    weights = np.repeat(1 / shards.divisors, shards.rows)
    return weights if shards.units is None else weights * shards.units.shares


def objectives(objective: Objective, shards: Shards, models: np.ndarray, each: ParallelMap = map) -> np.ndarray:
    r"""$\sum_i F_i(x)$ for a stack of models."""
    record_weights = row_weights(shards)

    def weighted(block: slice) -> np.ndarray:
        values = objective.loss.values(
            scores(objective.loss, shards.features[block], models), shards.labels[block, None]
        )
        return record_weights[block] @ values

    total = sum(each(weighted, blocks(len(shards.labels), models)), np.zeros(len(models)))
    return total + shards.clients * objective.regularizer.value(models)


def local_objectives(
    objective: Objective, shards: Shards, clients: np.ndarray, weights: np.ndarray, each: ParallelMap = map
) -> np.ndarray:
    """$F_i(x)$ on the whole shard of `clients[k]` at `weights[k]`; quickest when equal clients stand together."""
    contrasts = objective.loss.contrast(weights)
    sizes, divisors = shards.rows[clients], shards.divisors[clients]
    shares = None if shards.units is None else shards.units.shares

    def losses(piece: np.ndarray) -> np.ndarray:
        rows = np.empty((int(sizes[piece].sum()), contrasts.shape[-1]))
        labels = np.empty(len(rows), shards.labels.dtype)
        weights = np.ones(len(rows))
        firsts = piece[np.flatnonzero(np.diff(clients[piece], prepend=-1))]
        owners = clients[firsts]
        ranges = zip(
            firsts.tolist(),
            [*firsts[1:].tolist(), int(piece[-1]) + 1],
            shards.offsets[owners].tolist(),
            shards.offsets[owners + 1].tolist(),
            strict=True,
        )
        begin = 0
        for first, beyond, low, high in ranges:
            shape = (beyond - first, high - low)
            end = begin + shape[0] * shape[1]
            np.matmul(shards.features[low:high], contrasts[first:beyond], out=rows[begin:end].reshape(*shape, -1))
            labels[begin:end].reshape(shape)[:] = shards.labels[low:high]
            weights[begin:end].reshape(shape)[:] = 1.0 if shares is None else shares[low:high]
            begin = end
        starts = np.cumsum(sizes[piece]) - sizes[piece]
        return np.add.reduceat(weights * objective.loss.values(rows, labels), starts) / divisors[piece]

    pieces = np.split(np.arange(len(clients)), np.flatnonzero(np.diff(np.cumsum(sizes) // BLOCK)) + 1)
    return np.concatenate(list(each(losses, pieces))) + objective.regularizer.value(weights)


def _inner(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.vdot(first, second))


def blocks(records: int, models: np.ndarray) -> Iterator[slice]:
    """Rows whose scores are evaluated together."""
    rows = max(1, BLOCK // len(models))
    return (slice(begin, begin + rows) for begin in range(0, records, rows))


@dataclass
class Lagrangian:
    """Running sums of the augmented Lagrangian, and each client's average over rounds for the criterion H."""

    objective: Objective
    shards: Shards
    penalty: float
    each: ParallelMap
    weights: np.ndarray  # table: every client's current local weights, zero at the start
    dual: np.ndarray  # table: every client's current dual, zero at the start
    quadratic: list[float] = field(default_factory=list)  # per round: ALFV without its local objectives
    consensus: list[float] = field(default_factory=list)
    largest_norm: float = 0.0

    def __post_init__(self) -> None:
        clients, columns, outputs = self.weights.shape
        zero_scores = np.zeros((len(self.shards.labels), outputs))
        at_zero = self.objective.loss.values(zero_scores, self.shards.labels)
        at_zero = at_zero if self.shards.units is None else at_zero * self.shards.units.shares
        self.local = np.add.reduceat(at_zero, self.shards.offsets[:-1]) / self.shards.divisors
        self.local_sums = [float(self.local.sum())]
        self.weights_sum, self.dual_sum = np.zeros((2, columns, outputs))
        self.products = self.squares = 0.0
        self.history_sum = np.zeros_like(self.weights)  # of x_i over rounds, up to the one in `since`
        self.since = np.zeros(clients, np.int64)
        self.largest_regularizer = 0.0
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []

    def update(self, participants: np.ndarray, point: PrimalDual, server: np.ndarray, round: int) -> None:
        """Replace the participants' terms after a round that led to these server weights."""
        weights, dual = np.asarray(point.weights), np.asarray(point.dual)
        old_weights, old_dual = self.weights[participants], self.dual[participants]
        elapsed = (round - 1 - self.since[participants])[:, None, None]
        self.history_sum[participants] += elapsed * old_weights
        self.since[participants] = round - 1
        self.weights_sum += (weights - old_weights).sum(axis=0)
        self.dual_sum += (dual - old_dual).sum(axis=0)
        self.products += _inner(dual, weights) - _inner(old_dual, old_weights)
        self.squares += _inner(weights, weights) - _inner(old_weights, old_weights)
        self.weights[participants] = weights
        self.dual[participants] = dual
        self._pending.append((participants, weights))
        if len(self._pending) * weights.size >= PENDING:
            self.evaluate()
        gap = self.squares - 2 * _inner(self.weights_sum, server) + self.shards.clients * _inner(server, server)
        linear = _inner(self.dual_sum, server) - self.products
        self.quadratic.append(linear + 0.5 * self.penalty * gap)
        self.consensus.append(float(np.sqrt(max(gap, 0.0) / self.shards.clients)))

    def evaluate(self) -> None:
        """Evaluate the local objectives of the rounds since the last call, client by client."""
        if not self._pending:
            return
        clients = np.concatenate([chosen for chosen, _ in self._pending])
        rounds = np.repeat(np.arange(len(self._pending)), [len(chosen) for chosen, _ in self._pending])
        steps = np.zeros(len(self._pending))  # stays at zero where nobody is heard in any of the rounds
        if len(clients):
            weights = np.concatenate([values for _, values in self._pending])
            steps = self._replace(clients, rounds, weights)
        self.local_sums.extend((self.local_sums[-1] + np.cumsum(steps)).tolist())
        self._pending.clear()

    def _replace(self, clients: np.ndarray, rounds: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Evaluate the clients' objectives at these weights; by how much each round has changed their sum."""
        order = np.argsort(clients, kind="stable")
        clients, rounds, weights = clients[order], rounds[order], weights[order]
        values = local_objectives(self.objective, self.shards, clients, weights, self.each)
        first = np.diff(clients, prepend=-1) != 0
        before = np.where(first, self.local[clients], np.roll(values, 1))
        self.local[clients] = values  # of equal indices the last, the latest round, stays
        norms = np.einsum("kdc,kdc->k", weights, weights)
        self.largest_norm = max(self.largest_norm, float(np.sqrt(norms.max())))
        regularizers = self.objective.regularizer.value(weights)
        self.largest_regularizer = max(self.largest_regularizer, float(regularizers.max()))
        with np.errstate(invalid="ignore"):  # outside a box a value is infinite
            return np.bincount(rounds, weights=values - before, minlength=len(self._pending))

    def values(self) -> np.ndarray:
        """ALFV after every round: the sum over all clients."""
        self.evaluate()
        return np.asarray(self.local_sums[1:]) + np.asarray(self.quadratic)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that changes, named; points whose losses wait are kept as they are, so that sums are formed alike."""
        named = {f"lagrangian.{name}": np.asarray(getattr(self, name)) for name in (*RUNNING, *LISTS)}
        for place, pair in enumerate(zip(*self._pending, strict=True)):
            named |= {f"lagrangian.pending.{place}": np.concatenate(pair)}
        counts = np.array([len(participants) for participants, _ in self._pending], np.int64)
        return named | {"lagrangian.counts": counts}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Take up what `arrays` gave."""
        for name in RUNNING:
            value = kept[f"lagrangian.{name}"]
            setattr(self, name, value if value.ndim else float(value))
        for name in LISTS:
            setattr(self, name, kept[f"lagrangian.{name}"].tolist())
        if len(counts := kept["lagrangian.counts"]):
            ends = np.cumsum(counts)[:-1]
            parts = (np.split(kept[f"lagrangian.pending.{place}"], ends) for place in (0, 1))
            self._pending = list(zip(*parts, strict=True))

    def average(self, rounds: int) -> np.ndarray:
        r"""$\bar x_i^T = \frac1T\sum_t x_i^t$ of every client, skipped rounds repeating the last value."""
        pending = (rounds - self.since)[:, None, None]
        return (self.history_sum + pending * self.weights) / rounds
