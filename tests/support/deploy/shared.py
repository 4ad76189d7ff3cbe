"""Federations whose sites share the noise of masked sums, and what is known of them from outside and from within."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedspd.algorithms.base import at_weights
from fedspd.data import Shards, finish, read_table
from fedspd.deploy.server.gather import Gathered
from fedspd.deploy.server.run import Server
from fedspd.deploy.site import client as client_module
from fedspd.engine.batches import gather_batches
from fedspd.typing import Query
from tests.support.deploy.sites import Federation, federation

ALONE = 60.0
"""What the sites' owners allow if everybody else colludes."""


def sharing(
    folder: Path, count: int = 5, records: int = 120, protected: bool = True, site: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Federation:  # fmt: skip
    """Sites that are one cohort: any sum holds all but one of them, and one may tell all it knows."""
    numbers = {"federation__threshold": count - 1, "federation__colluders": 1, "federation__quorum": count - 1}
    trust = {"federation__aggregation": "secure", "privacy__trust": "secure-sums", "problem__counts": "records"}
    own = {"budget.epsilon_alone": ALONE} if protected else {}
    return federation(
        folder, count, records, site=own | dict(site or {}), protected=protected, **(numbers | trust | changes)
    )


class Part(NamedTuple):
    """What a site has put under its masks."""

    place: int
    round: int
    attempt: str
    weights: np.ndarray  # that it was sent
    numbers: np.ndarray


class Summed(NamedTuple):
    """What a server has learned in a round."""

    round: int
    weights: np.ndarray
    total: np.ndarray
    arrived: tuple[int, ...]


@dataclass
class Seen:
    """Everything that was masked, and everything that was unmasked."""

    parts: list[Part] = field(default_factory=list)
    sums: list[Summed] = field(default_factory=list)


def watch(monkeypatch: pytest.MonkeyPatch, made: Federation, until: int = 10**6) -> Seen:
    """Serve a run to its end, or to a round's, and look on."""
    seen, truth = Seen(), client_module.part_of_round

    def looking_on(terms: Any, agreed: Any, records: Any, ask: Any, table: Any) -> np.ndarray:
        numbers = truth(terms, agreed, records, ask, table)
        if hasattr(ask, "attempt"):
            seen.parts.append(Part(terms.place, ask.round, ask.attempt, ask.weights, numbers))
        return numbers

    class Watched(Server):
        def _merge(self, found: Gathered, asks: Any, round: int) -> None:
            weights = next(iter(asks.values())).weights
            seen.sums.append(Summed(round, weights, found.stack.sum(axis=0), tuple(found.numbers)))
            super()._merge(found, asks, round)

        def _enough(self) -> bool:
            return self.checkpoint.round < until and super()._enough()

    with monkeypatch.context() as patch:
        patch.setattr(client_module, "part_of_round", looking_on)
        made.run = Watched(made.grid, made.settings, made.said.append).run()
    return seen


def pooled_query(made: Federation, weights: np.ndarray, places: Iterable[int]) -> np.ndarray:
    """The gradients of the records of some sites, clipped and summed, over the records of all."""
    terms = made.terms()
    algorithm, data, total = terms.agreed(made.schema).algorithm, terms.config.data, np.zeros_like(weights)
    assert data.row_norm is not None
    zeros = np.zeros((1, *weights.shape))
    for place in places:
        table = read_table(made.sites[place].parent / "records.csv", made.schema)
        width = table.features.shape[1]
        features = finish(table.features, np.zeros(width), np.ones(width), data.bias, data.row_norm)
        shard = Shards(features, table.labels, np.array([0, len(table)]), None)
        whole = np.array([float(sum(terms.sizes))])
        batches = gather_batches(shard, np.array([0]), np.arange(len(table))[None, None], whole)
        server, state, _ = algorithm.start(zeros)
        query, _ = algorithm.query(algorithm.broadcast(at_weights(server, weights), 1), state, batches)
        assert isinstance(query, Query)
        total = total + np.asarray(query.value)[0]
    return total
