"""What a user leaves open, filled in by rules that use public numbers only: never the records, never a test set.

How far to go and in which steps stands in `way`; here are rounds, and what each kind of method makes of both.
"""

from dataclasses import replace
from functools import lru_cache
from math import ceil, expm1, inf, sqrt
from typing import NamedTuple

from fedspd.algorithms.method import Public, Work
from fedspd.algorithms.parts.exactness import least_curvature
from fedspd.algorithms.parts.way import WORTHWHILE, Pull, lengthened, longest_step, momentum_for, path_length
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.privacy.accounting.minimizers import longest_noise
from fedspd.privacy.plans.sampling import largest_batch
from fedspd.privacy.sensitivity import RECORD_MOVES

PARTICIPATIONS = 5  # uploads per client when the rounds are left open, and each costs
FEWEST_ROUNDS = 20  # when they are left open, and free
AMPLE = 2.0  # room for so many times the noise in an objective, since determinants take a part of the budget too
SHORT_ROUNDS = 2  # before anything is known of curvature, where steps may grow


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
    momentum: float = 0.0
    max_batch: int | None = None  # most records in a batch, for Poisson sampling with several local steps
    crowding: float = 1.0  # most records in a batch over what its sum is divided by
    stretch: float = 1.0  # how much longer than safe steps they may grow, where releases allow it
    averaging: float = 0.0  # 1: the model is the mean of all rounds, 0: the last one


class Counts(NamedTuple):
    """How long, and how often a client."""

    rounds: int
    participations: int


def gradient_steps(
    public: Public,
    work: Work,
    wishes: Wishes,
    *,
    primal_dual: bool = False,
    averaged: bool = False,
    momentum: float | None = 0.0,
    averaging: bool | None = False,
    stretched: bool = False,
) -> Steps:
    """For methods that step along gradients.

    Args:
        public: numbers of the run.
        work: of a client in a round.
        wishes: what was set.
        primal_dual: uploads add up a client's increments; other servers move every round.
        averaged: the average of the local iterates is released, not the last one.
        momentum: of the server; None: as much as the way needs.
        averaging: whether the model is the mean of all rounds; None: where that is better, and no step size is set.
        stretched: the server lengthens steps as far as releases allow (`moves`), where no step size is set.
    """
    row_norm, is_open = public.row_norm or 1.0, wishes == Wishes(penalty_share=wishes.penalty_share)
    reach = (work.local_steps + 1) / 2 if averaged else work.local_steps
    share = (wishes.penalty_share or penalty_share(public.share)) if primal_dual else 0.0
    pull = Pull(public.participants, public.share, share if primal_dual else None)
    longest = longest_step(public.objective, row_norm, pull)
    averaging = (None if stretched and is_open else False) if averaging is None else averaging
    count = _counts(public, work, reach, longest * pull.per_round, averaging is not False)
    noise = _noise(public, work, reach, count.participations)
    way, longer = path_length(public.objective, noise, row_norm) / reach, lengthened(public.objective, noise)
    if averaging is None:
        most = pull.most_within(count.rounds) if momentum is None else momentum
        averaging = longer > 1 and longest * pull.reached(count.rounds, most) >= WORTHWHILE * way
    way *= longer if averaging else 1.0
    if momentum is None:
        momentum = 0.0 if wishes.inverse_step else momentum_for(way / longest, count.rounds, pull)
    step = wishes.step_scale * min(way / pull.reached(count.rounds, momentum), longest)
    max_batch = _max_batch(public, work, count.participations)
    crowding = _crowding(public, work, max_batch)
    inverse_step = wishes.inverse_step or (1 - share) / step
    if work.local_steps > 1 and wishes.inverse_step is None:
        inverse_step = max(inverse_step, crowding * public.objective.loss.curvature * row_norm**2 / 2)
    penalty = (wishes.penalty or share / step) if primal_dual else 0.0
    stretch = 1.0
    if stretched and is_open:
        stretch = max(1.0, way / longest / pull.reached(max(count.rounds - SHORT_ROUNDS, 1), momentum))
    return Steps(*count, inverse_step, penalty, momentum, max_batch, crowding, stretch, float(averaging))


def exact_steps(public: Public, wishes: Wishes, *, pure: bool = False, count: Counts | None = None) -> Steps:
    """For exact sub-problems one number is left: the curvature that is added to them, the penalty.

    It is never less than what double precision can solve for, by the same public numbers that refuse it.

    Args:
        public: numbers of the run.
        wishes: what was set.
        pure: the noise is that of pure privacy: where it goes into an objective, curvature is at least so much that
            determinants take a quarter of a round's budget.
        count: rounds and participations, where they are not the usual ones.
    """
    rounds, participations = count or counts(public)
    row_norm, records = public.row_norm or 1.0, public.holdings.records / public.holdings.clients
    multiplier, longest = (_pure_noise if pure else _whole_noise)(public, int(records), participations)
    noise = noise_per_path(_bound(public), multiplier, records, public.clients)
    step = wishes.step_scale * path_length(public.objective, noise, row_norm) / 2 / participations
    smoothness, penalty = public.objective.loss.curvature * row_norm**2, 1 / step
    if pure:
        one_round = public.epsilon / (participations if public.budget == "total" else 1)
        penalty = max(penalty, smoothness / (float(public.holdings.divisors.min()) * expm1(one_round / 4)))
    least = least_curvature(
        public.objective, row_norm, int(public.holdings.sizes.max()), public.holdings.divisors, public.columns, longest
    )
    penalty = max(penalty, least) if least < inf else penalty  # what nothing helps is refused when it is checked
    return Steps(rounds, participations, wishes.inverse_step or smoothness, wishes.penalty or penalty)


def counts(public: Public, one_round: bool = False, paid: int = 1) -> Counts:
    """Rounds, and participations that are paid for.

    Args:
        public: numbers of the run.
        one_round: where rounds are left open there is one.
        paid: one of so many rounds uses records.
    """
    usual = 1 if one_round else rounds_for(PARTICIPATIONS, public.participants, public.clients)
    rounds = public.rounds or min(usual, public.most_rounds)
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


def _counts(public: Public, work: Work, reach: float, each: float, averaged: bool) -> Counts:
    """Rounds and participations; where rounds are left open and free, as many as safe steps need for the way."""
    if public.rounds or public.most_participations or public.budget != "total":
        return counts(public)
    noise = _noise(public, work, reach, PARTICIPATIONS)
    way = path_length(public.objective, noise, public.row_norm or 1.0) / reach
    way *= lengthened(public.objective, noise) if averaged else 1.0
    rounds = min(max(ceil(way / each), FEWEST_ROUNDS), public.most_rounds)
    return counts(replace(public, rounds=rounds))


def _noise(public: Public, work: Work, reach: float, participations: int) -> float:
    """On the model, for each unit of its way."""
    records, members = public.holdings.records / public.holdings.clients, public.members or 1.0
    multiplier = _multiplier(public, work, int(records / members), participations)
    batch = work.batch_size * members if work.batch_size else records / work.local_steps
    return noise_per_path(_bound(public), public.spread * multiplier, batch, public.clients, reach)


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


def _whole_noise(public: Public, records: int, participations: int) -> tuple[float, float]:
    """That multiplier, and how long noise in an objective may be: there is none."""
    return _whole_multiplier(public, records, participations), 0.0


def _pure_noise(public: Public, records: int, participations: int) -> tuple[float, float]:
    """The same of pure noise, and how long it may amply be."""
    dimension = public.dimension
    drawn = RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=2)
    scale = _calibrated(public, drawn, records, participations)
    moved = RECORD_MOVES["replace-one"] * _bound(public) / float(public.holdings.divisors.min())
    multiplier = scale * sqrt((dimension + 1) / participations)  # the squared length has the mean d (d + 1) times that
    return multiplier, AMPLE * scale * moved * longest_noise(dimension)


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
