"""The contract every method keeps. Its table stands in `docs/architecture.md`.

A method is a frozen dataclass of public numbers, written once as pure functions of *stacked* arrays
(leading axis: the clients that take part; a real client is a stack of one) against the array API
standard. All randomness is drawn by the engine and handed in.

Tables with one row per client (client states, the latest replies) belong to whoever runs the round:
an engine gathers the rows of the participants, calls these functions and scatters the results, so
that the cost of a round grows with the participants and not with all clients.
"""

from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from fedspd.privacy.rounding import GradientSum
from fedspd.problem import Objective
from fedspd.typing import Argmin, Array, Batches, Query, Release, array_namespace


class Told(NamedTuple):
    """What a server sends: its weights, the round's inverse step size γ, and by how much its step is stretched."""

    weights: Array
    inverse_step: Any
    stretch: Any = 1.0


class Released(NamedTuple):
    """What a client may carry from round to round: functions of its releases, hence public."""

    weights: Array
    dual: Array


class PrimalDual(NamedTuple):
    """A client's point in the augmented Lagrangian, for the simulator's diagnostics."""

    weights: Array
    dual: Array


class Message(Protocol):
    """What history needs to know of what a server tells."""

    @property
    def inverse_step(self) -> Any:
        """γ of the round, or what stands in its place."""
        ...


Server = TypeVar("Server")  # what the server keeps
Client = TypeVar("Client")  # what a client carries from round to round
Words = TypeVar("Words", bound=Message)  # what the server tells
Kept = TypeVar("Kept")  # un-noised state that a query leaves behind: None, or `Private`


class Algorithm(Protocol[Server, Client, Words, Kept]):
    """A federated method in six legs; only `query` sees records.

    Where `sensitivity` is zero, for all clients or for none, a round does not depend on records and is free.
    """

    @property
    def objective(self) -> Objective:
        """What each client minimizes."""
        ...

    @property
    def penalty(self) -> float:
        """The penalty rho of the augmented Lagrangian."""
        ...

    @property
    def local_steps(self) -> int:
        """Steps a client takes in a round, Q."""
        ...

    @property
    def guarantee(self) -> str:
        """The strongest claim this method's privacy may carry: "proved" or "as published"."""
        ...

    @property
    def relation(self) -> str:
        """The neighbors that `sensitivity` speaks of."""
        ...

    @property
    def law(self) -> str:
        """Of the noise: "gaussian", "laplace" for pure privacy, or "objective" where it is in what is minimized."""
        ...

    @property
    def releases(self) -> int:
        """How often a client queries its records and adds noise in a round: 1, or once for each local step."""
        ...

    @property
    def exact(self) -> bool:
        """Whether sub-problems are minimized to rounding, which takes double precision."""
        ...

    @property
    def keeps_replies(self) -> bool:
        """Whether the server averages the latest reply of every client, so that a client may send the difference."""
        ...

    def start(self, zeros: Array) -> tuple[Server, Client, Any]:
        """Server state, table of client states, table of first replies; `zeros` is one matrix per client."""
        ...

    def broadcast(self, server: Server, round: Any) -> Words:
        """What the server tells the participants of a round (counted from 1)."""
        ...

    def query(self, told: Words, client: Client, batches: Batches) -> tuple[Query | Argmin, Kept]:
        """Compute from records what must not leave the client, and the un-noised state it keeps, if any."""
        ...

    def sensitivity(self, round: Any, batch_sizes: Array) -> Any:
        """L2 bound of `query`, derived from the method's public numbers and each client's batch size."""
        ...

    def settle(self, told: Words, client: Client, release: Release, kept: Kept) -> tuple[Client, Array]:
        """Next client state and the reply, from the release."""
        ...

    def merge(self, server: Server, told: Words, replies: Array, previous: Array, present: Array) -> Server:
        """Next server state, from what was told, the participants' replies and the ones they replace.

        `present` is 1 for each participant and 0 where a place in the stack is empty: an engine that compiles
        a round for a fixed number of participants fills up the rounds with fewer.
        """
        ...

    def model(self, server: Server) -> Array:
        """The global weights."""
        ...

    def local_point(self, client: Client) -> PrimalDual:
        """Local weights and dual of stacked clients, for diagnostics."""
        ...


@runtime_checkable
class BoundsRounding(Protocol):
    """A method whose proof covers the rounding of a real client."""

    def rounding(self, told: Any, client: Any, batch: GradientSum) -> float:
        """How far `query` in float64 may be from its real-number value, from public numbers."""
        ...


@runtime_checkable
class PerturbsObjective(Protocol):
    """A method that releases minimizers of noised objectives, whose density has a determinant."""

    @property
    def directions(self) -> int:
        """Dimensions of the space in which a record moves the gradient, whatever the weights."""
        ...

    def jacobian(self, batch_sizes: Any) -> float:
        """What a release costs at most beside the size of the noise, for clients of these batch sizes."""
        ...

    def check_noise(self, longest: float, records: int, divisors: Any, columns: int) -> None:
        """Refuse, by public numbers, noise under which float64 cannot minimize well."""
        ...


@runtime_checkable
class AveragesSteps(Protocol):
    """A method that releases the average of its local steps, so that a record counts less the later it comes."""

    @property
    def contraction(self) -> float:
        """By which a later step shrinks what a record did, at least."""
        ...


@runtime_checkable
class SolvesExactly(Protocol):
    """A method whose sensitivity rests on sub-problems that are solved well."""

    def check_solvable(self, records: int, divisors: Any, columns: int) -> None:
        """Refuse, by public numbers, what float64 cannot solve that well."""
        ...


@runtime_checkable
class RemembersNoise(Protocol):
    """A method whose clients remember draws of their noise: secret, but no function of records."""

    @property
    def more_draws(self) -> int:
        """Unit draws of a round beside one for each release."""
        ...

    def stir(self, client: Any, draws: Array) -> tuple[Any, Array]:
        """Before the query: the state with what is to be remembered, and the unit noise of the release."""
        ...


@runtime_checkable
class HasFreeRounds(Protocol):
    """A method some of whose rounds use no records: they have no query, no noise, and cost nothing."""

    def recycle(self, told: Any, client: Any) -> tuple[Any, Array]:
        """Next client state and the reply of such a round, from what is public already."""
        ...


@runtime_checkable
class OnGraph(Protocol):
    """A method whose clients may hear from their neighbors in a graph, in place of a server."""

    @property
    def network(self) -> Any:
        """Who hears whom."""
        ...


@runtime_checkable
class TakesTurns(Protocol):
    """A method whose records come in blocks by turns: a record is used in one of so many participations."""

    @property
    def blocks(self) -> int:
        """B."""
        ...


@runtime_checkable
class FlipsLabels(Protocol):
    """A method that learns from labels under randomized response."""

    @property
    def flip_chance(self) -> float:
        """Of a label, before the first round."""
        ...


@runtime_checkable
class StretchesSteps(Protocol):
    """A method whose steps grow beyond safe ones where releases allow it."""

    @property
    def stretch(self) -> float:
        """How much longer than safe steps may grow."""
        ...

    @property
    def stretches_uploads(self) -> bool:
        """Whether clients stretch what they upload; else the server stretches its own step."""
        ...


def most_stretched(algorithm: Any) -> float:
    """The longest step of a method, in safe ones."""
    return algorithm.stretch if isinstance(algorithm, StretchesSteps) else 1.0


def draws_shape(algorithm: Algorithm, matrix: tuple[int, int]) -> tuple[int, ...]:
    """Shape of one client's unit draws in a round: weight matrices, stacked if there are several."""
    count = algorithm.releases + getattr(algorithm, "more_draws", 0)  # of `RemembersNoise`
    count += algorithm.law == "objective"  # one for what is minimized, one for the minimizer
    return matrix if count == 1 else (count, *matrix)


def at_weights(server: Any, weights: Array) -> Any:
    """The server's state with these weights for all weights that it keeps, so that it sends them; its counts stay."""
    if isinstance(server, tuple):
        return type(server)(*(at_weights(field, weights) for field in server))
    return 0 * server + weights if server.shape[-2:] == weights.shape else server


def length(array: Array) -> float:
    """The L2 norm of public numbers."""
    xp = array_namespace(array)
    return float(xp.sqrt(xp.sum(array * array)))


def mean_of_latest(server: Array, replies: Array, previous: Array, present: Array, clients: int) -> Any:
    """The mean over the latest replies of all clients, of whom only the participants' changed (line 5)."""
    return server + array_namespace(server).tensordot(present, replies - previous, axes=1) / clients


def mean_of_present(replies: Array, present: Array) -> Any:
    """The mean over the participants' replies."""
    xp = array_namespace(replies)
    return xp.tensordot(present, replies, axes=1) / xp.sum(present)
