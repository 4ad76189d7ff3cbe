r"""What a user leaves open, filled in by rules that use public numbers only: never the records, never a test set.

The rules rest on two facts about whole-shard rounds begun at the server's weights. A client's
uploads add up its increments, so after n participations the model has moved by about $n\eta$ times a
gradient, $\eta = 1/(\gamma+\rho)$; and calibrated noise grows like $\sqrt n$ per upload and adds up
like $\sqrt n$ again, so the noise on the model grows like $n\eta$ too. What matters is therefore the
*path length* $n\eta$, not n: few rounds do as well as many, and a smaller budget wants a shorter path.
"""

from functools import lru_cache
from math import ceil, expm1, inf, sqrt
from typing import NamedTuple

from fedspd.algorithms.method import Public, Work
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.privacy.plans.proved import largest_batch
from fedspd.problem import is_regression

PARTICIPATIONS = 5  # uploads per client when the rounds are left open
PATH = 2.0  # the path length n eta is PATH / noise^(2/3)


class Wishes(NamedTuple):
    """What a user set of the step sizes."""

    inverse_step: float | None = None  # gamma
    penalty: float | None = None  # rho
    step_scale: float = 1.0  # what the rule's step size is multiplied by
    penalty_share: float | None = None  # part of gamma + rho that is rho


class Steps(NamedTuple):
    """Rounds and step sizes, those that were left open filled in."""

    rounds: int
    participations: int  # the most a client may have
    inverse_step: float
    penalty: float
    max_batch: int | None = None  # most records in a batch, for Poisson sampling with several local steps
    crowding: float = 1.0  # most records in a batch over what its sum is divided by


class Counts(NamedTuple):
    """How long, and how often a client."""

    rounds: int
    participations: int


def gradient_steps(
    public: Public, work: Work, wishes: Wishes, *, primal_dual: bool = False, averaged: bool = False
) -> Steps:
    """For methods that step along gradients.

    Args:
        public: numbers of the run.
        work: of a client in a round.
        wishes: what was set.
        primal_dual: uploads add up a client's increments; other servers move every round.
        averaged: the average of the local iterates is released, not the last one.
    """
    count, clients, row_norm = counts(public), public.clients, public.row_norm or 1.0
    reach = (work.local_steps + 1) / 2 if averaged else work.local_steps
    records = public.holdings.records / public.holdings.clients
    multiplier = _multiplier(public, work, int(records), count.participations)
    batch = work.batch_size or records / work.local_steps
    noise = noise_per_path(_bound(public), multiplier, batch, clients, reach)
    moves = reach * (count.participations if primal_dual else count.rounds)
    step = wishes.step_scale * min(path_length(noise, row_norm) / moves, _longest_step(public))
    share = (wishes.penalty_share or penalty_share(public.share)) if primal_dual else 0.0
    max_batch = _max_batch(public, work, count.participations)
    crowding = _crowding(public, work, max_batch)
    inverse_step = wishes.inverse_step or (1 - share) / step
    if work.local_steps > 1 and wishes.inverse_step is None:
        inverse_step = max(inverse_step, crowding * public.objective.loss.curvature * row_norm**2 / 2)
    penalty = (wishes.penalty or share / step) if primal_dual else 0.0
    return Steps(*count, inverse_step, penalty, max_batch, crowding)


def exact_steps(public: Public, wishes: Wishes, *, pure: bool = False, count: Counts | None = None) -> Steps:
    """For exact sub-problems one number is left: the curvature that is added to them, the penalty.

    Args:
        public: numbers of the run.
        wishes: what was set.
        pure: the noise is that of pure privacy: where it goes into an objective, curvature is at least so much that
            determinants take a quarter of a round's budget.
        count: rounds and participations, where they are not the usual ones.
    """
    rounds, participations = count or counts(public)
    row_norm, records = public.row_norm or 1.0, public.holdings.records / public.holdings.clients
    multiplier = (_pure_multiplier if pure else _whole_multiplier)(public, int(records), participations)
    noise = noise_per_path(_bound(public), multiplier, records, public.clients)
    step = wishes.step_scale * path_length(noise, row_norm) / participations
    smoothness, penalty = public.objective.loss.curvature * row_norm**2, 1 / step
    if pure:
        one_round = public.epsilon / (participations if public.budget == "total" else 1)
        penalty = max(penalty, smoothness / (float(public.holdings.divisors.min()) * expm1(one_round / 4)))
    return Steps(rounds, participations, wishes.inverse_step or smoothness, wishes.penalty or penalty)


def counts(public: Public, one_round: bool = False, paid: int = 1) -> Counts:
    """Rounds, and participations that are paid for.

    Args:
        public: numbers of the run.
        one_round: where rounds are left open there is one.
        paid: one of so many rounds uses records.
    """
    rounds = public.rounds or (1 if one_round else rounds_for(PARTICIPATIONS, public.participants, public.clients))
    costly = (rounds + paid - 1) // paid
    return Counts(rounds, public.most_participations or ceil(costly * public.participants / public.clients))


def rounds_for(participations: int, participants: int, clients: int) -> int:
    """Rounds after which every client has taken part so often on average."""
    check_participants(participants, clients)
    return ceil(participations * clients / participants)


def check_participants(count: int, clients: int) -> None:
    """Refuse a number of participants that the clients cannot give."""
    if not 1 <= count <= clients:
        raise InputError(
            f"participants must be between 1 and the number of clients, {clients}, got {count}; "
            "lower run.participants or raise partition.clients."
        )


def penalty_share(participation: float) -> float:
    r"""$\rho/(\gamma+\rho) = p/(1+p)$ where a share p of the clients takes part in a round.

    With everybody it is a half, where duals cancel in the average: any other share only weighs some noisy
    gradients more than others. The fewer take part, the longer a client must remember what it pulled for.
    Chosen on a validation split of Adult at p = 0.2, 0.5 and 1; flat.
    """
    return participation / (1 + participation)


def path_length(noise: float, row_norm: float) -> float:
    r"""$2\,\nu^{-2/3}/R^2$, with $\nu$ the noise on the model per unit of path.

    A longer path leaves less of the optimum undone and more noise; the exponent and the factor come from a
    validation split of Adult at three budgets, and the optimum is flat: half or twice the path costs about
    a quarter of a percentage point.
    """
    return PATH / noise ** (2 / 3) / row_norm**2


def noise_per_path(clip_norm: float, multiplier: float, batch: float, clients: int, reach: float = 1.0) -> float:
    r"""$\nu = 2Gz/(b\,r\sqrt N)$ where a participation moves the model by $r$ steps.

    Args:
        clip_norm: G.
        multiplier: z, noise over sensitivity divided by the root of the participations.
        batch: b, what a batch's sum is divided by.
        clients: N.
        reach: r.
    """
    return 2 * clip_norm * multiplier / (batch * reach * sqrt(clients))


@lru_cache(maxsize=256)
def multiplier_for(sampling: RecordSampling, records: int, participations: int, epsilon: float, delta: float) -> float:
    """The noise over sensitivity that so many participations need."""
    return calibrate(lambda z: sampling.event(records, z), participations, epsilon, delta)


def _longest_step(public: Public) -> float:
    """Of a number or a count $1/L$, beyond which steps overshoot; classes are told apart by ever larger scores."""
    loss = public.objective.loss
    return 1 / public.objective.smoothness(public.row_norm or 1.0) if is_regression(loss) else inf


def _bound(public: Public) -> float:
    bound = min(public.objective.clip_norm, public.objective.loss.slope_bound * (public.row_norm or 1.0))
    if bound == inf:
        raise InputError("record gradients must be bounded, got problem.clip_norm = inf; set it.")
    return bound


def _multiplier(public: Public, work: Work, records: int, participations: int) -> float:
    """Noise of a coordinate over sensitivity, divided by the root of the participations."""
    if work.batch_size is None:
        return _whole_multiplier(public, records, participations)
    drawn = RecordSampling(WITHOUT_REPLACEMENT, work.batch_size, work.local_steps)
    return _calibrated(public, drawn, records, participations) / sqrt(participations)


def _whole_multiplier(public: Public, records: int, participations: int) -> float:
    if public.budget == "total":
        return calibrate(Gaussian, 1, public.epsilon, public.delta)  # whatever the participations
    return _calibrated(public, RecordSampling(WHOLE_SHARD), records, participations) / sqrt(participations)


def _pure_multiplier(public: Public, records: int, participations: int) -> float:
    dimension = public.dimension
    drawn = RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=2)
    scale = _calibrated(public, drawn, records, participations)
    return scale * sqrt((dimension + 1) / participations)  # the squared length has the mean d (d + 1) times that


def _calibrated(public: Public, drawn: RecordSampling, records: int, participations: int) -> float:
    counted = 1 if public.budget == "round" else participations
    return multiplier_for(drawn, records, counted, public.epsilon, public.delta)


def _crowding(public: Public, work: Work, max_batch: int | None) -> float:
    """Above 1 with Poisson sampling, where a shard does not divide evenly among the local steps, or counts more."""
    steps, batch_size = work.local_steps, work.batch_size
    sizes, divisors = public.holdings.sizes, public.holdings.divisors
    if batch_size is not None:
        return float((sizes / divisors).max()) * (max_batch or batch_size) / batch_size
    return float((-(-sizes // steps) * steps / divisors).max())


def _max_batch(public: Public, work: Work, participations: int) -> int | None:
    if work.sampling != POISSON or work.local_steps == 1 or work.batch_size is None:
        return None
    return work.max_batch or largest_batch(
        int(public.holdings.sizes.max()),
        work.batch_size,
        work.local_steps,
        participations,
        public.epsilon,
        public.delta,
    )
