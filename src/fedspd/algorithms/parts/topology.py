"""Who talks to whom in methods without a server: graphs of clients, connected and without direction."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.typing import Array, array_namespace

TOPOLOGIES = ("star", "complete", "ring", "erdos-renyi")
DRAWS = 1000  # of a random graph, until one is connected


@dataclass(frozen=True)
class Topology:
    """A connected graph of clients, which can be compared and hashed: it is compiled into programs."""

    name: str
    neighbors: tuple[tuple[int, ...], ...]  # of every client

    def __post_init__(self) -> None:
        edges = {(client, other) for client, others in enumerate(self.neighbors) for other in others}
        for client, other in edges:
            if client == other or (other, client) not in edges:
                raise InputError(
                    f"neighbors in {self.name} must be two clients that list each other, got {client} with {other}; "
                    "list each edge at both of its ends."
                )
        if not _connected(self._links()):
            raise InputError(f"{self.name} must connect all clients, got a graph in parts; add edges between them.")

    @property
    def clients(self) -> int:
        """N."""
        return len(self.neighbors)

    @property
    def degrees(self) -> tuple[int, ...]:
        """How many neighbors every client has."""
        return tuple(len(others) for others in self.neighbors)

    def sums(self, table: Array) -> Any:
        """For every client the sum over its neighbors of their rows in a table (clients, columns, outputs)."""
        xp = array_namespace(table)
        links = xp.asarray(self._links(), dtype=table.dtype)
        return xp.reshape(xp.matmul(links, xp.reshape(table, (self.clients, -1))), table.shape)

    def _links(self) -> np.ndarray:
        links = np.zeros((self.clients, self.clients), bool)
        for client, others in enumerate(self.neighbors):
            links[client, list(others)] = True
        return links


def make_topology(name: str, clients: int, probability: float, rng: np.random.Generator) -> Topology | None:
    """The graph a configuration names; None for a star, whose center is the server.

    Args:
        name: one of `TOPOLOGIES`.
        clients: N.
        probability: of every edge of an erdos-renyi graph, which is drawn until it is connected.
        rng: what it is drawn with; other graphs draw nothing.
    """
    if name not in TOPOLOGIES:
        raise InputError(f"topology must be one of {', '.join(TOPOLOGIES)}, got {name!r}.")
    if name == "star":
        return None
    if clients < 2:
        raise InputError(f"the topology {name} needs at least 2 clients, got {clients}; add clients, or use star.")
    match name:
        case "complete":
            links = ~np.eye(clients, dtype=bool)
        case "ring":
            links = np.zeros((clients, clients), bool)
            for client, other in pairwise([*range(clients), 0]):
                links[client, other] = links[other, client] = True
        case _:
            links = _drawn(clients, probability, rng)
    return Topology(name, tuple(tuple(np.flatnonzero(row).tolist()) for row in links))


def _drawn(clients: int, probability: float, rng: np.random.Generator) -> np.ndarray:
    if not 0 < probability <= 1:
        raise InputError(f"edges need a probability above 0 and at most 1, got {probability:g}; set one, say 0.2.")
    upper = np.triu_indices(clients, 1)
    for _ in range(DRAWS):
        links = np.zeros((clients, clients), bool)
        links[upper] = rng.random(len(upper[0])) < probability
        links |= links.T
        if _connected(links):
            return links
    raise InputError(
        f"an erdos-renyi graph must connect all {clients} clients, got none that does in {DRAWS} draws with edges of "
        f"probability {probability:g}; raise the probability."
    )


def _connected(links: np.ndarray) -> bool:
    """Whether whoever is heard of by client 0, step by step, is everybody."""
    reached = np.arange(len(links)) == 0
    newest = reached
    while newest.any():
        newest = links[newest].any(axis=0) & ~reached
        reached = reached | newest
    return bool(reached.all())
