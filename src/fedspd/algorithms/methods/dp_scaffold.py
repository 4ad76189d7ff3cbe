r"""DP-SCAFFOLD (Noble, Bellet and Dieuleveut, AISTATS 2022, arXiv 2111.09278).

Local steps that control variates keep from drifting apart. Participant i, with its $c_i$ and the server's w and c:

    y   <- prox_{R/γ}(y - (g̃_r - c_i + c)/γ),   g̃_r = ∇f_i(y; B_r) + N(0, σ²),   r = 1..Q, from y = w
                                                                      the only access to the records
    c_i <- mean of the Q noised gradients
    w    = mean of y over the participants
    c    = mean of the latest c_i of all clients

The published method is for smooth objectives; a proximal step in every local one keeps the optimum where it is for
any other: there $c_i$ is a client's own gradient, and every y stays. Its code clips to a batch's own median norm,
which is not private: here the bound is fixed. The Q batches of a round are disjoint, so that a record is in one of
them at most.

Released: all Q noised gradients; $c_i$ and y, which are uploaded, are functions of them and of what the server
sent.
Claimed as published: record-level (ε, δ)-DP for an observer of the final model, with amplification by the sampling of
clients and records, and a weaker bound for the server.
Claimed here: **proved** for the server. A record moves one of the Q releases of a round, by $2G/b$, and the later
ones only through that release; so Q releases cost what one does. The sampling of clients is not counted on.
"""

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, mean_of_latest, mean_of_present
from fedspd.algorithms.card import A_TOTAL, Card
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import scale_and
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Steered(NamedTuple):
    """What the server keeps."""

    weights: Array  # w
    control: Array  # c


class Course(NamedTuple):
    """What it sends."""

    weights: Array
    control: Array
    inverse_step: Any


class Controlled(NamedTuple):
    """What a client carries: functions of its releases, hence public."""

    control: Array  # c_i
    point: Array  # y
    total: Array  # of the noised gradients of this round
    steps: Array  # taken in this round


@dataclass(frozen=True)
class DPSCAFFOLD:
    """Local steps along noised gradients, corrected by control variates."""

    objective: Objective
    clients: int  # N
    local_steps: int  # Q
    schedule: Schedule  # γ
    relation: str = "replace-one"

    law = "gaussian"
    exact = False
    penalty = 0.0
    keeps_replies = False

    @property
    def releases(self) -> int:
        """One a step."""
        return self.local_steps

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Steered, Controlled, Array]:
        """All zero: public."""
        replies = array_namespace(zeros).stack([zeros, zeros], axis=1)
        return Steered(zeros[0, ...], zeros[0, ...]), Controlled(zeros, zeros, zeros, zeros[:, :1, :1]), replies

    def broadcast(self, server: Steered, round: Any) -> Course:
        """Weights, control variate and γ."""
        return Course(server.weights, server.control, self.schedule.inverse_step(round))

    def query(self, told: Course, client: Controlled, batches: Batches) -> tuple[Query, None]:
        """The gradient of one step's batch at the point where the step begins."""
        gradient = self.objective.gradient(self._point(told, client), *batches.step(0))
        return Query(gradient.mean, gradient.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most G."""
        return RECORD_MOVES[self.relation] * self.objective.clip_norm / batch_sizes

    def settle(self, told: Course, client: Controlled, release: Release, kept: None) -> tuple[Controlled, Array]:
        """One step along the corrected gradient; after the last, point and new control variate are uploaded."""
        xp = array_namespace(client.point)
        step = 1 / told.inverse_step
        away = self._point(told, client) - step * (release.value - client.control + told.control)
        point = self.objective.regularizer.prox(away, step)
        total, last = client.total + release.value, client.steps == self.local_steps - 1
        control = xp.where(last, total / self.local_steps, client.control)
        total, steps = xp.where(last, 0 * total, total), xp.where(last, 0 * client.steps, client.steps + 1)
        return Controlled(control, point, total, steps), xp.stack([point, control], axis=1)

    def _point(self, told: Course, client: Controlled) -> Any:
        xp = array_namespace(client.point)
        return xp.where(client.steps == 0, xp.zeros_like(client.point) + told.weights, client.point)

    def merge(self, server: Steered, told: Course, replies: Array, previous: Array, present: Array) -> Steered:
        """The mean point of the participants, and the mean of all latest control variates."""
        control = mean_of_latest(server.control, replies[:, 1, ...], previous[:, 1, ...], present, self.clients)
        return Steered(mean_of_present(replies[:, 0, ...], present), control)

    def model(self, server: Steered) -> Array:
        """The server's weights."""
        return server.weights

    def local_point(self, client: Controlled) -> PrimalDual:
        """Where the local steps led; there is no dual."""
        return PrimalDual(client.point, 0 * client.point)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.proved_sampling()
    max_batch: int | None = shared.max_batch()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.BY_THE_RULE)


def work(settings: Settings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling, settings.max_batch)


def make(public: Public, settings: Settings) -> Made:
    """The step size by rule where it is left open."""
    own = work(settings)
    steps = gradient_steps(public, own, Wishes(settings.inverse_step, step_scale=settings.step_scale))
    algorithm = DPSCAFFOLD(public.bounded, public.clients, own.local_steps, Constant(steps.inverse_step), own.relation)
    return Made(algorithm, steps.rounds, steps.participations, max_batch=steps.max_batch)


METHOD = Method(
    name="dp-scaffold",
    card=Card(
        title="DP-SCAFFOLD",
        citation="Noble, Bellet, Dieuleveut 2022, AISTATS, arXiv 2111.09278",
        claimed="(ε, δ)-DP of a record for who sees the last model only, with amplification by sampling.",
        proved=A_TOTAL,
        released="the gradient of every local step; control variates follow from them",
        confidence="high: its update is that of the authors' code",
    ),
    guarantee="proved",
    kind=DPSCAFFOLD,
    settings=Settings,
    make=make,
    work=work,
    grid=scale_and("local_steps", (1, 2, 5)),
)
