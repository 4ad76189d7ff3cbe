"""How good models are on the test set, by the kind of what they predict: classes, a number, or a count.

Explained is a share of how far labels are from their mean: of squares for a number (R²), of the Poisson deviance for a
count (D²). A model that is not finite has no measure.
"""

from typing import Any

import numpy as np

from fedspd.data import Table
from fedspd.engine.measuring.diagnostics import accuracies, blocks, losses, scores
from fedspd.engine.parallel import ParallelMap
from fedspd.problem import Loss
from fedspd.target import Classes, Count, Number, Target

NAN = float("nan")


def explained(loss: Loss, test: Table | None, models: np.ndarray, each: ParallelMap = map) -> np.ndarray:
    """Share that each model explains; not a number for classes, where all labels are the same, or without a test."""
    if test is None or isinstance(test.predicted, Classes):
        return np.full(len(models), np.nan)
    target = test.predicted
    models = models.astype(test.features.dtype, copy=False)

    def missed(block: slice) -> np.ndarray:
        predicted = loss.predict(scores(loss, test.features[block], models))
        return _missed(target, predicted, test.labels[block, None]).sum(axis=0)

    left = sum(each(missed, blocks(len(test), models)), np.zeros(len(models)))
    spread = _missed(target, test.labels.mean(), test.labels).sum()
    known = np.isfinite(models).all(axis=(1, 2)) & (spread > 0)
    return np.where(known, 1 - left / (spread or 1.0), np.nan)


def measures_on(test: Table | None, loss: Loss, weights: np.ndarray, average: np.ndarray) -> dict[str, Any]:
    """What a summary says of models on the test set, beside their accuracy.

    Args:
        test: the records; None where nothing is measured.
        loss: of a record.
        weights: after the last round.
        average: of the last rounds.
    """
    if test is None:
        return dict.fromkeys(("test_accuracy_average", "majority_accuracy", "test_loss"), NAN)
    reached = scores(loss, test.features, weights[None])[:, 0]
    measures = {
        "test_accuracy_average": float(accuracies(loss, test, average[None])[0]),
        "majority_accuracy": NAN,
        "test_loss": float(np.mean(loss.values(reached, test.labels))),
    }
    predicted = loss.predict(reached)
    match test.predicted:
        case Classes():
            majority = float(np.bincount(test.labels).max() / len(test))
            return measures | {
                "majority_accuracy": majority,
                "test_balanced_accuracy": _if_finite(weights, _balanced(predicted, test.labels)),
            }
        case Number() as target:
            return measures | {
                "test_explained": float(explained(loss, test, weights[None])[0]),
                "test_mae": _if_finite(weights, _mean_error(target, predicted, test.labels)),
                "trivial_mae": _mean_error(target, test.labels.mean(), test.labels),
            }
        case Count() as target:
            return measures | {
                "test_explained": float(explained(loss, test, weights[None])[0]),
                "test_deviance": _if_finite(weights, float(_missed(target, predicted, test.labels).mean())),
                "trivial_deviance": float(_missed(target, test.labels.mean(), test.labels).mean()),
            }


def measures_of_many(
    test: Table | None, loss: Loss, weights: np.ndarray, averages: np.ndarray, each: ParallelMap = map
) -> list[dict[str, Any]]:
    """The same for a stack of runs, which read the test set together."""
    if test is None or not isinstance(test.predicted, Classes):
        return [measures_on(test, loss, *one) for one in zip(weights, averages, strict=True)]
    kinds, sizes = np.unique(test.labels, return_counts=True)

    def summed(block: slice) -> tuple[np.ndarray, np.ndarray]:
        reached, labels = scores(loss, test.features[block], weights), test.labels[block, None]
        right = loss.predict(reached) == labels
        return loss.values(reached, labels).sum(axis=0), np.stack([(right & (labels == kind)).sum(0) for kind in kinds])

    parts = list(each(summed, blocks(len(test), weights)))
    losses_of, found = (np.sum([part[place] for part in parts], axis=0) for place in (0, 1))
    average, balanced = accuracies(loss, test, averages, each), (found / sizes[:, None]).mean(axis=0)
    return [
        {
            "test_accuracy_average": float(average[run]),
            "majority_accuracy": float(sizes.max() / len(test)),
            "test_loss": float(losses_of[run] / len(test)),
            "test_balanced_accuracy": _if_finite(weights[run], float(balanced[run])),
        }
        for run in range(len(weights))
    ]


def optimum_measures(loss: Loss, test: Table | None, best: np.ndarray | None) -> dict[str, Any]:
    """What the optimum without privacy reaches on the test set, where both are known."""
    if test is None or best is None:
        return {}
    classes = isinstance(test.predicted, Classes)
    reached = accuracies(loss, test, best[None]) if classes else explained(loss, test, best[None])
    return {
        "optimum_accuracy" if classes else "optimum_explained": float(reached[0]),
        "optimum_loss": float(np.mean(losses(loss, test, best))),
    }


def _missed(target: Target, predicted: Any, labels: np.ndarray) -> np.ndarray:
    """Squares on [-1, 1] for a number, deviances for a count: what is missed of each record."""
    if isinstance(target, Number):
        return np.square(np.clip(predicted, -1, 1) - labels)
    rate = np.maximum(predicted, np.finfo(float).tiny)
    return 2 * (rate - labels + labels * np.log(np.where(labels > 0, labels, rate) / rate))


def _mean_error(target: Number, predicted: Any, labels: np.ndarray) -> float:
    """In the target's own units."""
    return float(np.mean(np.abs(target.values(predicted) - target.values(labels))))


def _balanced(predicted: Any, labels: np.ndarray) -> float:
    """The mean over the classes that occur of the share that is predicted right."""
    return float(
        np.mean([np.mean(predicted[labels == label] == label) for label in np.flatnonzero(np.bincount(labels))])
    )


def _if_finite(weights: np.ndarray, measure: float) -> float:
    return measure if np.isfinite(weights).all() else NAN
