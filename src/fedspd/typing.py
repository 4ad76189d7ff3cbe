"""The few types every room shares. `Query` and `Argmin` become `Release` in `privacy.mechanism` and `privacy.exact`
only."""

from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np


class Array(Protocol):
    """An array of any library that follows the array API standard (NumPy, JAX)."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def dtype(self) -> Any: ...  # noqa: D102

    def __array__(self) -> np.ndarray: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...


State = TypeVar("State")
Law = Literal["gaussian", "laplace", "objective"]
"""Of noise: normals; density falling with the L2 norm of a whole matrix, for pure privacy; or the second in what is
minimized and the first on the minimizer."""

Unit = Literal["record", "person", "client"]
"""What is protected: one row, all that a client has of a person, or all that it has."""
UNITS: tuple[str, ...] = get_args(Unit)

EVALUATION, INFERENCE, SELECTION = "evaluation", "inference", "selection"
"""What ledgers call the releases that come after a run: counts, sums for a Newton step, scores of several models."""


class Query(NamedTuple):
    """What a client computed from its records. It must not leave the client.

    A wrapper rather than a type alias, so that doing arithmetic on it or sending it fails at run
    time too, and a named tuple, so that a compiler of array programs sees through it.
    """

    value: Array  # stacked: one row per participating client
    clipped: Array  # share of gradients that were clipped, per client: a simulator's diagnostic


class Argmin(NamedTuple):
    """What a client would minimize, for noise that goes into the objective. It must not leave the client."""

    under: Callable[[Array], Array]  # from noise on the linear term to the minimizer
    slope: Callable[[Array], Array]  # the gradient without that noise, at any point
    apart: Any  # how far apart two computed minimizers may be that should be one, if a record moves the slope by 1
    clipped: Array  # as in a query


class Release(NamedTuple):
    """A query with noise on it, free to be sent.

    Made by `engine.release` alone.
    """

    value: Array


class Private(NamedTuple, Generic[State]):
    """Client state that was computed from records and carries no noise.

    A method that keeps such a state between rounds shows it in its types, and its guarantee is
    "as published", never "proved".
    """

    value: State


class PerClient(NamedTuple):
    """A part of what a server tells that differs from participant to participant: one row for each, in their order."""

    rows: Array


class Batches(NamedTuple):
    """The records that stacked clients draw in one round, split into their local steps.

    Where batches differ in length they are filled up with rows of zeros, whose gradients are zero.
    """

    features: Array  # (clients, local steps, batch size, columns)
    labels: Array  # (clients, local steps, batch size)
    divisors: Array  # (clients,): what a batch's sum of gradients is divided by, the nominal batch size
    shares: Any = None  # (clients, local steps, batch size): 1 / rows of the row's person; None: every row is one

    def steps(self, some: slice) -> "Batches":
        """Those of some local steps."""
        shares = None if self.shares is None else self.shares[:, some, ...]
        return Batches(self.features[:, some, ...], self.labels[:, some, ...], self.divisors, shares)

    def step(self, number: int) -> tuple[Array, Array, Array, Any]:
        """Features, labels, divisors and shares of one local step, as `Objective.gradient` takes them."""
        shares = None if self.shares is None else self.shares[:, number, ...]
        return self.features[:, number, ...], self.labels[:, number, ...], self.divisors, shares


def array_namespace(array: Any) -> Any:
    """The library that an array comes from, by the array API standard."""
    if isinstance(array, np.ndarray | np.generic):
        return np  # follows the standard by itself; array-api-compat's copy of it takes 0.1 s to import
    from array_api_compat import array_namespace

    return array_namespace(array)
