"""Kernels in C for what costs most, of classes; None where there is no kernel for it, and NumPy computes it.

The library is compiled when the package is built, if there is a compiler (`compiling.py`). Its calls release Python's
lock. `FEDSPD_KERNELS=off` leaves it out.
"""

import ctypes
import os
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedspd.problem.fast.compiling import library_file
from fedspd.problem.flipped import FlippedLabels
from fedspd.problem.losses import Loss, Softmax
from fedspd.problem.regularizers import L1, ElasticNet, Regularizer, SquaredL2, Unregularized
from fedspd.typing import Batches, Picked

BLOCK = 16  # as in `kernels.c`: what is computed of records may reach so far beyond the last
KINDS = {np.dtype(np.float64): ctypes.c_double, np.dtype(np.float32): ctypes.c_float}


class Clipped(NamedTuple):
    """A stack's mean gradients, the norms before clipping, and the share that was clipped."""

    mean: np.ndarray
    norms: np.ndarray
    clipped: np.ndarray


class Walked(NamedTuple):
    """Where local steps led: mean, last, and the share of gradients that was clipped."""

    average: np.ndarray
    last: np.ndarray
    clipped: np.ndarray


@cache
def library() -> Any:
    """The kernels; None where they were not compiled, or are not wanted."""
    if os.environ.get("FEDSPD_KERNELS") == "off":
        return None
    try:
        return ctypes.CDLL(str(library_file()))
    except OSError:
        return None


def gradient(
    loss: Loss, bound: Any, weights: Any, features: Any, labels: Any, divisors: Any, shares: Any
) -> Clipped | None:
    """As `Objective.gradient`."""
    if not _fits(loss, weights, features, 3):
        return None
    clients, records, columns = features.shape
    outputs, wide = _places(weights)
    mean, norms, clipped = np.empty_like(weights, order="C"), *_empty(weights, (clients, records), (clients,))
    _call(
        "gradients", weights.dtype, clients, records, columns, outputs, features, _apart(features),
        _targets(loss, labels, weights), None if shares is None else _like(shares, weights), _like(divisors, weights),
        float(bound), _like(weights, weights), mean, norms, clipped,
        np.empty((2 * columns + 5) * wide, weights.dtype),
    )  # fmt: skip
    return Clipped(mean, norms, clipped)


def proximal_steps(
    loss: Loss, regularizer: Regularizer, bound: float, start: Any, center: Any, dual: Any, inverse_step: Any,
    penalty: float, batches: Batches,
) -> Walked | None:  # fmt: skip
    """As `algorithms.parts.proximal.proximal_steps`."""
    labels, divisors, shares = batches[1:]
    features, numbers = _where(batches.rows)
    known = _fits(loss, start, features, 4 if numbers is None else 2)
    if not known or not features.flags.c_contiguous or np.ndim(inverse_step):
        return None
    clients, steps, records, columns = *(features if numbers is None else numbers).shape[:3], features.shape[-1]
    outputs, wide = _places(start)
    step_size = 1 / (float(inverse_step) + penalty)
    prox = _prox(regularizer, step_size)
    if prox is None:
        return None
    x, kind = np.array(start, order="C"), start.dtype
    average, clipped = _empty(x, x.shape, (clients,))
    center, dual = _like(center, x), None if np.ndim(dual) == 0 and dual == 0 else _like(dual, x)
    if any(one is not None and one.shape not in (x.shape, x.shape[1:]) for one in (center, dual)):
        return None
    _call(
        "steps", kind, clients, steps, records, columns, outputs, features, numbers, _targets(loss, labels, x),
        None if shares is None else _like(shares, x), _like(divisors, x), float(bound),
        float(inverse_step) * step_size, *prox, float(penalty), step_size,
        center, _apart(center), dual, _apart(dual),
        x, average, clipped, np.empty((2 * columns + 5) * wide + 2 * columns * outputs, kind),
    )  # fmt: skip
    return Walked(average, x, clipped)


def newton(
    loss: Loss, clip_norm: float, features: Any, labels: Any, lengths: Any, shares: Any, curvature: Any, pull: Any,
    goal: Any, start: Any, exhausted: float, flat: float, most_steps: int, most_tries: int,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """As `problem.minimize._newton`: contrasts (clients, columns), and who has arrived."""
    if not _fits(loss, start, features, 3) or loss.outputs != 2 or start.dtype != np.float64:
        return None
    clients, records, columns = features.shape
    wide = -(-columns // 8) * 8
    found, done = np.array(start, order="C"), np.empty(clients, np.uint8)
    scratch = np.empty(records * (wide + 3) + (wide + 2) * wide + BLOCK)
    _call(
        "newton", None, clients, records, columns, features, _apart(features), _targets(loss, labels, start),
        *(_like(one, start) for one in (lengths, shares, curvature, pull, goal)), float(clip_norm),
        loss.curvature / loss.stretch, exhausted, flat, most_steps, most_tries, found, done, scratch,
    )  # fmt: skip
    return found, done.astype(bool)


def _fits(loss: Loss, weights: Any, features: Any, axes: int) -> bool:
    """Whether there is a kernel: classes, arrays of NumPy of one type, and every batch's rows together."""
    return (
        type(loss) in (FlippedLabels, Softmax)  # and not one that overrides them
        and isinstance(weights, np.ndarray)
        and isinstance(features, np.ndarray)
        and features.ndim == axes
        and weights.dtype == features.dtype
        and weights.dtype in KINDS
        and features[0].flags.c_contiguous
        and library() is not None
    )


def _where(rows: Any) -> tuple[Any, Any]:
    """A table and numbers of its rows; or rows that are together, and no numbers."""
    if not isinstance(rows, Picked):
        return rows, None
    numbers = np.ascontiguousarray(rows.numbers, np.int64)
    inside = numbers.size and numbers.view(np.uint64).max() < len(rows.table)  # where what is negative is largest
    return (rows.table, numbers) if inside else (rows.copied, None)  # which refuses what is outside


def _prox(regularizer: Regularizer, step: float) -> tuple[float, float] | None:
    """By how much weights are soft-thresholded, and divided."""
    match regularizer:
        case Unregularized():
            return 0.0, 1.0
        case L1(strength):
            return step * strength, 1.0
        case SquaredL2(strength):
            return 0.0, 1.0 + step * strength
        case ElasticNet(strength, ratio):
            return step * strength * ratio, 1.0 + step * strength * (1 - ratio)
    return None


def _places(weights: np.ndarray) -> tuple[int, int]:
    """How many outputs there are, and how many places a row of sums has in a kernel: `wide` of `steps.h`."""
    outputs, lanes = weights.shape[-1], 64 // weights.itemsize
    return outputs, 1 if outputs == 2 else -(-outputs // lanes) * lanes


def _targets(loss: Loss, labels: Any, weights: np.ndarray) -> np.ndarray:
    """What is subtracted from a probability: the label, moved outward where labels were flipped."""
    plain = _like(labels, weights)
    return plain + loss.tilt * (2 * plain - 1) if isinstance(loss, FlippedLabels) else plain


def _apart(stack: np.ndarray | None) -> int:
    """Numbers between the first ones of two clients; none where all share them."""
    return 0 if stack is None or stack.ndim < 3 else stack.strides[0] // stack.itemsize


def _like(array: Any, weights: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, weights.dtype)


def _empty(like: np.ndarray, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.empty(shape, like.dtype) for shape in shapes]


def _call(name: str, kind: Any, *values: Any) -> None:
    function, real = _function(library(), name, kind)
    function(*[_argument(value, real) for value in values])


@cache  # a small run calls so often that looking names up would show
def _function(kernels: Any, name: str, kind: Any) -> tuple[Any, Any]:
    """A kernel, and its real numbers as C has them."""
    function = kernels[name if kind is None else f"{name}_{np.dtype(kind).name}"]
    function.restype = None
    return function, KINDS[np.dtype(kind or np.float64)]


def _argument(value: Any, real: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.__array_interface__["data"][0])
    if isinstance(value, int):
        return ctypes.c_long(value)
    return ctypes.c_void_p(None) if value is None else real(value)
