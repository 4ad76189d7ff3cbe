"""A plan fixes noise, sampling, neighbor relation and cost together, so that they cannot disagree."""

from typing import Any, Protocol

import numpy as np

WITHOUT_REPLACEMENT = "without-replacement"
WITH_REPLACEMENT = "with-replacement"
POISSON = "poisson"
WHOLE_SHARD = "whole-shard"


class Plan(Protocol):
    """What an engine needs to know about privacy. Clients are numbers, from 0."""

    @property
    def guarantee(self) -> str:
        """How far the stated epsilon can be relied on: "proved", "as published" or "none"."""
        ...

    @property
    def sampling(self) -> str:
        """How a client draws its records in a round."""
        ...

    @property
    def unit(self) -> str:
        """What neighbors differ in."""
        ...

    @property
    def relation(self) -> str:
        """Which data sets are neighbors."""
        ...

    @property
    def law(self) -> str:
        """Of the noise."""
        ...

    @property
    def delta(self) -> float:
        """The failure probability that every epsilon refers to."""
        ...

    @property
    def most_participations(self) -> np.ndarray | None:
        """How often each client may take part; None where nothing is enforced."""
        ...

    def noise_scale(self, clients: np.ndarray, sensitivity: Any) -> Any:
        """Noise standard deviation of each client for a query with this sensitivity."""
        ...

    def is_charged(self, participations: np.ndarray) -> np.ndarray:
        """Whether clients that have taken part so often are charged when they do again."""
        ...

    def spent(self, clients: np.ndarray, participations: np.ndarray) -> np.ndarray:
        """Epsilon of clients after these numbers of participations (at the plan's delta)."""
        ...
