"""What noised counts say of a model: measures with intervals, from one table of counts or from many at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedspd.evaluate.counting import Counting
from fedspd.evaluate.intervals import QUANTILE, Array, Interval, NoisedTable

LEAST_PROBABILITY = 1e-3  # of a bin: a logarithm of zero would outweigh everything


class Found(NamedTuple):
    """A measure, of what, and where on an axis."""

    name: str
    interval: Interval
    at: float | None = None


def measures(
    counting: Counting, released: Array, variance: float, records: int, probabilities: bool
) -> Iterator[Found]:
    """All measures of all records together.

    Args:
        counting: what was counted.
        released: noised counts (..., cells), all clients together.
        variance: of the noise on each.
        records: that were counted: a public number.
        probabilities: whether scores have that meaning.
    """
    tables = [
        NoisedTable.of(
            table.sum(axis=-len(shape)).reshape(*table.shape[: -len(shape)], -1), variance * shape[0], records
        )
        for table, shape in zip(counting.split(released), counting.shapes, strict=True)
    ]
    if not counting.classes:
        yield from _residuals(counting, tables[0])
    elif len(counting.classes) == 2:
        yield from _two_classes(counting, tables[0], probabilities)
    else:
        yield from _classes(counting, *tables)


def group_measures(
    counting: Counting, released: Array, variance: float, records: int, least: int
) -> Iterator[tuple[str, Found]]:
    """Size and main measure of every subgroup whose noised size is at least `least`."""
    table, shape = counting.split(released)[0], counting.shapes[0]
    noised = NoisedTable.of(table.reshape(*table.shape[: -len(shape)], -1), variance, records)
    for place, name in enumerate(counting.groups):
        whole = np.zeros(shape)
        whole[place] = 1.0
        size = float(noised.sum(whole.ravel()))
        if size < least:
            continue
        half = QUANTILE * float(np.sqrt(noised.noise(whole.ravel(), whole.ravel())))
        yield name, Found("records", Interval(np.array(size), np.array(size - half), np.array(size + half)))
        for measure, part, among in _of_group(counting, whole):
            yield name, Found(measure, noised.share(part.ravel(), among.ravel()))


def _of_group(counting: Counting, whole: Array) -> Iterator[tuple[str, Array, Array]]:
    """Name, cells, and the cells they are a part of."""
    if not counting.classes:
        near = np.abs(counting.middles) <= counting.edges[counting.bins // 2 + 1]
        yield f"within {counting.edges[counting.bins // 2 + 1]:.3g} of the range", whole * near, whole
        return
    correct = _correct(counting)
    yield "accuracy", whole * correct, whole
    for label, name in enumerate(counting.classes):
        row = np.zeros_like(whole)
        row[:, label] = whole[:, label]
        yield f"recall of {name}", row * correct, row


def _correct(counting: Counting) -> Array:
    """Cells of the first table in which the prediction was right."""
    if len(counting.classes) > 2:
        return np.eye(len(counting.classes))
    above = counting.middles > 0.5
    return np.stack([~above, above]).astype(float)


def _two_classes(counting: Counting, table: NoisedTable, probabilities: bool) -> Iterator[Found]:
    bins, correct, everything = counting.bins, _correct(counting), np.ones(2 * counting.bins)
    yield Found("accuracy", table.share(correct.ravel(), everything))
    zero, one = np.repeat([1.0, 0.0], bins), np.repeat([0.0, 1.0], bins)
    yield Found("balanced accuracy", _balanced(table, zero, one, correct.ravel()))
    yield Found("AUC of the binned scores", _auc(table, zero, one, bins))
    if probabilities:
        likely = np.clip(counting.middles, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        lost = -np.concatenate([np.log(1 - likely), np.log(likely)])
        yield Found("log-loss of the binned scores", table.mean(lost, 0.0))
    for label, (name, row) in enumerate(zip(counting.classes, (zero, one), strict=True)):
        yield Found(f"recall of {name}", table.share(row * correct.ravel(), row))
        for guess, predicted in enumerate(counting.classes):
            cell = row * (correct.ravel() if label == guess else 1 - correct.ravel())
            yield Found(f"{name} predicted as {predicted}", table.share(cell, everything))
    for place, edge in enumerate(counting.edges[1:-1].tolist(), 1):
        above = np.tile(np.arange(bins) >= place, 2)
        yield Found("true positive rate", table.share(one * above, one), edge)
        yield Found("false positive rate", table.share(zero * above, zero), edge)
    if probabilities:
        yield from _calibration(counting, table)


def _calibration(counting: Counting, table: NoisedTable) -> Iterator[Found]:
    """How often the second row is true in each bin: the second class, or that the prediction was right."""
    for place, middle in enumerate(counting.middles.tolist()):
        both = np.tile(np.arange(counting.bins) == place, 2).astype(float)
        yield Found("observed share", table.share(both * np.repeat([0.0, 1.0], counting.bins), both), middle)


def _classes(counting: Counting, confusion: NoisedTable, confidence: NoisedTable) -> Iterator[Found]:
    count, correct = len(counting.classes), _correct(counting).ravel()
    everything = np.ones(count * count)
    yield Found("accuracy", confusion.share(correct, everything))
    rows = np.repeat(np.eye(count), count, axis=1)
    recalls = [confusion.share(row * correct, row) for row in rows]
    yield Found("balanced accuracy", _mean_recall(confusion, rows, correct, recalls))
    for name, recall in zip(counting.classes, recalls, strict=True):
        yield Found(f"recall of {name}", recall)
    for place, cell in enumerate(np.eye(count * count)):
        label, predicted = divmod(place, count)
        name = f"{counting.classes[label]} predicted as {counting.classes[predicted]}"
        yield Found(name, confusion.share(cell, everything))
    yield from _calibration(counting, confidence)


def _mean_recall(table: NoisedTable, rows: Array, correct: Array, recalls: list[Interval]) -> Interval:
    """Mean of the shares of every class, by their gradient; nothing is known where a class may be empty."""
    gradient = np.zeros(table.counts.shape)
    for row, recall in zip(rows, recalls, strict=True):
        gradient += row * (correct - recall.value[..., None]) / table.sum(row)[..., None] / len(rows)
    value = np.mean([recall.value for recall in recalls], axis=0)
    half = QUANTILE * np.sqrt(table.spread(gradient))
    known = np.isfinite(value)
    low, high = np.clip(value - half, 0.0, 1.0), np.clip(value + half, 0.0, 1.0)
    return Interval(value, np.where(known, low, 0.0), np.where(known, high, 1.0))


def _balanced(table: NoisedTable, zero: Array, one: Array, correct: Array) -> Interval:
    r"""$\frac{A_0P_1 + A_1P_0}{2P_0P_1}$, correct and all records of each class; less what noise adds to products."""
    right = [table.sum(row * correct) for row in (zero, one)]
    all_of = [table.sum(row) for row in (zero, one)]
    top = right[0] * all_of[1] + right[1] * all_of[0]
    top = top - table.noise(zero * correct, one) - table.noise(one * correct, zero)
    bottom = 2 * (all_of[0] * all_of[1] - table.noise(zero, one))
    up = _outer(all_of[1], zero * correct) + _outer(right[1], zero)
    up = up + _outer(all_of[0], one * correct) + _outer(right[0], one)
    return table.ratio(top, bottom, up, 2 * (_outer(all_of[1], zero) + _outer(all_of[0], one)))


def _auc(table: NoisedTable, zero: Array, one: Array, bins: int) -> Interval:
    """The chance that a record of the second class has the higher bin; equal ones count half."""
    negatives, positives = table.counts[..., :bins], table.counts[..., bins:]
    higher = np.tri(bins, k=-1) + 0.5 * np.eye(bins)  # of the second class's bin over the first's
    below, above = negatives @ higher.T, positives @ higher
    top, all_of = (positives * below).sum(axis=-1), (table.sum(zero), table.sum(one))
    shared = -table.variance / (2 * bins)  # noise of two cells, since their sum is known
    bottom = all_of[0] * all_of[1] - shared * bins**2
    up = np.concatenate([above, below], axis=-1)
    return table.ratio(top - shared * higher.sum(), bottom, up, _outer(all_of[1], zero) + _outer(all_of[0], one))


def _residuals(counting: Counting, table: NoisedTable) -> Iterator[Found]:
    """In parts of the target's range; a record counts as the middle of its bin."""
    middles = counting.middles
    yield Found("mean residual", table.mean(middles, -1.0, 1.0))
    yield Found("mean absolute residual", table.mean(np.abs(middles), 0.0, 1.0))
    squares = table.mean(middles**2, 0.0, 1.0)
    yield Found("root mean squared residual", Interval(*(np.sqrt(np.maximum(each, 0.0)) for each in squares)))
    for edge in counting.edges[counting.bins // 2 + 1 : -1].tolist():
        yield Found("share within", table.share((np.abs(middles) < edge).astype(float), np.ones(len(middles))), edge)
    for place, middle in enumerate(middles.tolist()):
        yield Found("share of residuals", table.share(np.eye(counting.bins)[place], np.ones(len(middles))), middle)


def _outer(numbers: Array, weights: Array) -> Array:
    return np.asarray(numbers)[..., None] * weights
