"""Real vectors as integers modulo 2^64, the ring in which masked vectors are summed.

A coordinate is rounded to the nearest multiple of a public `step` and kept in two's complement, so a sum modulo 2^64
is the true sum as long as that lies within 2^63 steps of zero. The step is a power of two: then dividing by it is
exact, and a client knows to the last bit what it has sent. Choose it far below the noise.

A coordinate too large for its part of the ring is moved to the nearest one that fits. What is encoded is noised
already, so this is post-processing; a refusal would depend on records, and come after they were paid for.
"""

from math import frexp

import numpy as np
from numpy.typing import NDArray

from fedspd.errors import InputError

STEP = 2.0**-40  # of uploads: weights are of order one, and their noise far above this
MOMENTS_STEP = 2.0**-30  # of sums over records: there may be billions
RANGE = 2**63  # steps on either side of zero
LARGEST_EXPONENT = 960  # 2^63 steps of at most 2^960 are still a float64, and so is the smallest step


def encode(values: NDArray[np.float64], step: float, summands: int = 1) -> NDArray[np.uint64]:
    """The nearest multiples of `step` that fit, counted in steps, modulo 2^64.

    Args:
        values: finite numbers.
        step: a power of two.
        summands: how many vectors are to be summed.

    Guarantees:
        Sums of as many vectors as announced do not wrap around.
        Finite values are never refused, and a refusal does not tell the values.
    """
    _check_step(step)
    limit = largest(summands)
    if not np.all(np.isfinite(values)):
        raise InputError("a vector to be masked must be finite in every coordinate, got one that is not; leave it out.")
    with np.errstate(over="ignore"):  # a quotient beyond float64 is clipped with the others
        steps = np.rint(np.asarray(values, np.float64) / step)
    return np.clip(steps, -limit, limit).astype(np.int64).view(np.uint64)


def decode(total: NDArray[np.uint64], step: float) -> NDArray[np.float64]:
    """The real vector of a sum of encoded ones; beyond 2^53 steps, the nearest float64 to it."""
    _check_step(step)
    return np.ascontiguousarray(total, np.uint64).view(np.int64).astype(np.float64) * step


def rounded(values: NDArray[np.float64], step: float, summands: int = 1) -> NDArray[np.float64]:
    """What a client has really sent when it has encoded `values`: within half a step of them, or the largest."""
    return decode(encode(values, step, summands), step)


def largest(summands: int) -> float:
    """The most steps that a coordinate may have, so that the sum of so many stays below 2^63 of them."""
    if summands < 1:
        raise InputError(f"summands must be at least 1, got {summands}; give the number of vectors in the sum.")
    limit = (RANGE - 1) // summands
    nearest = float(limit)
    return nearest if int(nearest) <= limit else float(np.nextafter(nearest, 0.0))


def _check_step(step: float) -> None:
    mantissa, exponent = frexp(step)
    if mantissa != 0.5 or abs(exponent) > LARGEST_EXPONENT:
        raise InputError(
            f"step must be a power of two from 2^-{LARGEST_EXPONENT} to 2^{LARGEST_EXPONENT}, got {step}; "
            "take the nearest, for instance 2^-30."
        )
