"""A method as the house knows it: everything that it needs stands in one file, gathered in one `Method`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from fedspd.algorithms.base import Algorithm
from fedspd.algorithms.card import EXACT, NON_SMOOTH, ONE_GD, ONE_SGD, SEVERAL, SMOOTH, Card
from fedspd.data import Holdings
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WITHOUT_REPLACEMENT, PaperFormulas, PublishedPlan
from fedspd.problem import Objective

Guarantee = Literal["proved", "as published", "none"]
TuningGrid = tuple[dict[str, Any], ...]
NOISES = {"gaussian": "Gaussian", "laplace": "spherical Laplace", "objective": "spherical Laplace"}


@dataclass(frozen=True)
class Work:
    """How a client goes through its records in a round."""

    local_steps: int = 1  # Q
    batch_size: int | None = None  # b; None: the whole shard, dealt out to the steps
    sampling: str = WITHOUT_REPLACEMENT
    max_batch: int | None = None  # most records in a Poisson batch that the proof allows for; None: by rule

    @property
    def relation(self) -> str:
        """The neighbors that a proof speaks of: Poisson batches are proved for zero-out."""
        return "zero-out" if self.batch_size is not None and self.sampling == POISSON else "replace-one"


def one_step_on_all(settings: Any) -> Work:
    """One step a round on the whole shard, whatever the settings."""
    return Work()


@dataclass(frozen=True, eq=False)
class Public:
    """All that a method is made from: settings and numbers that everybody may know, no record among them."""

    objective: Objective  # of one client
    row_norm: float | None  # every feature row is at most this long; None: not declared
    columns: int
    holdings: Holdings
    clients: int  # that a server averages over which keeps the latest upload of each
    participants: int
    rounds: int | None  # None: by rule
    most_rounds: int  # that a rule may choose
    most_participations: int | None  # None: as many as all rounds need
    epsilon: float
    delta: float
    budget: str  # whether epsilon is of the whole run, "total", or of a "round"
    graphs: np.random.Generator  # draws the graph of clients, where there is one
    plan: PublishedPlan | None = None  # of a method as published, or without privacy
    members: float | None = None  # of a cohort on average, where only its sum is seen and it stands in a client's place
    spread: float = 1.0  # noise in a release over what its claim counts on

    @property
    def declared_norm(self) -> float:
        """R, without which nothing is proved."""
        if self.row_norm is None:
            raise InputError("data.row_norm is needed by this method, got none; set it.")
        return self.row_norm

    @property
    def bounded(self) -> Objective:
        """The objective with the least bound on a record's gradient that clipping and declared rows give."""
        return Objective(
            self.objective.loss, self.objective.regularizer, self.objective.gradient_bound(self.declared_norm)
        )

    @property
    def on_sums(self) -> bool:
        """Whether a cohort stands in a client's place."""
        return self.members is not None

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return self.columns * self.objective.loss.outputs

    @property
    def share(self) -> float:
        """Of the clients that are averaged over, those that take part in a round."""
        return self.participants / self.clients


@dataclass(frozen=True)
class Made:
    """A method made concrete."""

    algorithm: Algorithm
    rounds: int
    participations: int | None = None  # the most that a client may have, where they are counted
    max_batch: int | None = None  # most records in a batch, for Poisson sampling with several local steps
    formulas: PaperFormulas | None = None  # where the step size is that of the paper's Theorem 2
    dual_diameter: float = 1.0  # d_lambda of Theorem 2, for the criterion H


@dataclass(frozen=True)
class Needs:
    """What a method asks of a run beside what its settings say."""

    everybody: bool = False  # all clients in every round
    one_round: bool = False
    own_bound: bool = False  # gradients are clipped to a bound that it finds itself
    smooth: bool = False  # a regularizer without kinks: sub-problems are minimized exactly


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """One entry of the registry.

    Args:
        name: what configurations call it.
        guarantee: the strongest that its runs may carry.
        kind: the class of its algorithm.
        settings: its own settings, a frozen dataclass of `setting`s; the keys of [algorithm].
        make: from public numbers and settings to the algorithm; step sizes that are left open by rule.
        work: how a client goes through its records, by the settings.
        grid: what tuning tries: points of settings by "section.key".
        board_grid: what it tries for the leaderboard, where that is something else.
        needs: of a run.
        compared: settings by "section.key" with which it stands on the leaderboard.
        deploys: whether it may run between real sites.
        by_client: whether it can clip a member's whole contribution to a cohort's sum, to protect whole clients.
        on_sums: whether a round is one Gaussian release of a gradient at the server's weights, so that a cohort's
            sum can be released in place of every member's gradient.
    """

    name: str
    card: Card
    guarantee: Guarantee
    kind: type
    settings: type
    make: Callable[[Public, Any], Made]
    grid: TuningGrid
    work: Callable[[Any], Work] = one_step_on_all
    board_grid: TuningGrid | None = None
    needs: Needs = Needs()
    compared: Mapping[str, Any] = field(default_factory=dict)
    deploys: bool = False
    on_sums: bool = False
    by_client: bool = False

    @property
    def keys(self) -> frozenset[str]:
        """Names of its settings."""
        return frozenset(key.name for key in fields(self.settings))

    @property
    def whole_shard(self) -> bool:
        """Whether it takes all records of a client in every round."""
        return "batch_size" not in self.keys

    @property
    def off_sums(self) -> str | None:
        """Why a cohort's sum cannot be released in place of its members' uploads; None where it can."""
        if self.on_sums:
            return None
        found = {
            "is not proved, and what is not cannot be shared": self.guarantee != "proved",
            "adds noise that is not Gaussian": self.kind.law != "gaussian",
            "minimizes sub-problems, which are no sums over records": self.kind.exact,
            "keeps state at its clients, which no released sum tells": self.kind.keeps_replies,
            "remembers noise at its clients, which no released sum tells": hasattr(self.kind, "stir"),
            "releases more than once in a round": self.kind.releases != 1,
        }
        return next((why for why, so in found.items() if so), "takes several local steps, whose drift nothing corrects")

    @property
    def on_graphs(self) -> bool:
        """Whether it runs without a server, on a graph of clients, too."""
        return "topology" in self.keys

    @property
    def noise(self) -> str:
        """In words."""
        return "none" if self.guarantee == "none" else NOISES[self.kind.law]

    @property
    def local_updates(self) -> str:
        """In the words of Table 1."""
        if self.kind.exact:
            return EXACT
        if "local_steps" in self.keys:
            return SEVERAL
        return ONE_GD if self.whole_shard else ONE_SGD

    @property
    def objective(self) -> str:
        """What it runs on here: non-smooth takes every regularizer."""
        return SMOOTH if self.needs.smooth else NON_SMOOTH

    @property
    def label(self) -> str:
        """What a table or a figure calls it: its title, and whether it is a reconstruction."""
        return f"{self.card.title} (reconstruction)" if self.card.reconstruction else self.card.title
