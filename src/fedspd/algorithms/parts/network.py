r"""Who hears what in ADMM on a graph, and the same on a star, where a server relays the mean of all clients.

On a graph client i hears $\sum_j f_j$ of its neighbors, one row each. On a star it hears the mean $\bar f$ of all
N clients, which is the complete graph: $\sum_{j\ne i} f_j = N\bar f - f_i$ and $V_i = N-1$. Edges have the weight η;
`penalty` is $2\eta\bar V$, $\bar V$ the mean degree, so that it means the same on every graph: the curvature that the
augmented Lagrangian adds to a client's sub-problem.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, mean_of_latest
from fedspd.algorithms.method import Public
from fedspd.algorithms.parts.topology import Topology, make_topology
from fedspd.errors import InputError
from fedspd.typing import Array, PerClient, array_namespace


class Neighbors(NamedTuple):
    """What a client hears."""

    weights: Any  # the mean of all clients; on a graph, of each client, the sum over its neighbors
    degrees: Any  # V_i
    inverse_step: Any  # 2 η V̄ of the round


class Heard(NamedTuple):
    """The same for either."""

    total: Any  # Σ_j f_j over the neighbors
    degree: Any  # V_i
    edge: Any  # η


class SubProblem(NamedTuple):
    r"""A client's $2\lambda_i^\top f + \eta\sum_j\|f - \frac12(f_i + f_j)\|^2$ as $\frac\mu2\|f\|^2 - p^\top f$."""

    curvature: Any  # μ = 2 η V_i
    pull: Any  # p = η Σ_j (f_i + f_j) - 2 λ_i
    dual: Any  # λ_i, after the step that what was heard asks for
    apart: Any  # η Σ_j (f_i - f_j)


@dataclass(frozen=True)
class Network:
    """A star or a graph of all clients, all of whom take part in every round."""

    clients: int  # N
    topology: Topology | None = None  # None: a star

    def __post_init__(self) -> None:
        """Refuse a network of one, and a graph of others."""
        if self.clients < 2:
            raise InputError(f"consensus needs at least 2 clients, got {self.clients}; raise partition.clients.")
        if self.topology is not None and self.topology.clients != self.clients:
            raise InputError(
                f"a network of {self.clients} clients needs a topology of as many, got {self.topology.clients}; "
                "make one for them."
            )

    @property
    def mean_degree(self) -> float:
        """V̄."""
        return self.clients - 1.0 if self.topology is None else sum(self.topology.degrees) / self.clients

    @property
    def least_share(self) -> float:
        """The least degree over the mean: of the penalty, what every client has at least."""
        return 1.0 if self.topology is None else min(self.topology.degrees) / self.mean_degree

    def start(self, zeros: Array) -> Array:
        """What the server keeps: the mean, or on a graph everybody's weights."""
        return zeros[0, ...] if self.topology is None else zeros

    def tell(self, server: Array, penalty: Any) -> Neighbors:
        """The mean, or every client's own neighbors."""
        if self.topology is None:
            return Neighbors(server, self.mean_degree, penalty)
        xp = array_namespace(server)
        degrees = xp.asarray(self.topology.degrees, dtype=server.dtype)[:, None, None]
        return Neighbors(PerClient(self.topology.sums(server)), PerClient(degrees), penalty)

    def listen(self, told: Neighbors, own: Array) -> Heard:
        """What clients hear that have released their `own` weights last."""
        edge = told.inverse_step / (2 * self.mean_degree)
        if self.topology is None:
            return Heard(self.clients * told.weights - own, told.degrees, edge)
        return Heard(told.weights.rows, told.degrees.rows, edge)

    def sub_problem(self, told: Neighbors, weights: Array, dual: Array, penalty: Any, own: Any = None) -> SubProblem:
        r"""After the dual step $\lambda_i + \frac\eta2\sum_j (f_i - f_j)$, of weights as they were released.

        Args:
            told: what was heard.
            weights: what the clients released last.
            dual: theirs, before the step.
            penalty: 2 η V̄ of the dual step.
            own: what a client puts in the middle for itself; absent: what it released.
        """
        heard = self.listen(told, weights)
        away = heard.degree * weights - heard.total
        moved = dual + penalty / (4 * self.mean_degree) * away
        pull = heard.edge * (heard.degree * (weights if own is None else own) + heard.total) - 2 * moved
        return SubProblem(2 * heard.edge * heard.degree, pull, moved, heard.edge * away)

    def merge(self, server: Array, replies: Array, previous: Array, present: Array) -> Array:
        """The new mean, or everybody's new weights."""
        if self.topology is None:
            return mean_of_latest(server, replies, previous, present, self.clients)
        return array_namespace(server).where(present[:, None, None] > 0, replies, server)

    def model(self, server: Array) -> Array:
        """The mean of all clients; on a graph nobody has it, a simulator measures it."""
        return server if self.topology is None else array_namespace(server).mean(server, axis=0)


def make_network(public: Public, topology: str, edge_probability: float) -> Network:
    """The star or the graph that a configuration names."""
    clients = public.holdings.clients
    return Network(clients, make_topology(topology, clients, edge_probability, public.graphs))


def point_of(weights: Array, dual: Array) -> PrimalDual:
    """Released weights and dual, in the sign and size of the paper's augmented Lagrangian."""
    return PrimalDual(weights, -2 * dual)
