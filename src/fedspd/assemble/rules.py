r"""What a user leaves open, filled in by rules that use public numbers only: never the records, never a test set.

The rules rest on two facts about whole-shard rounds begun at the server's weights. A client's
uploads add up its increments, so after n participations the model has moved by about $n\eta$ times a
gradient, $\eta = 1/(\gamma+\rho)$; and calibrated noise grows like $\sqrt n$ per upload and adds up
like $\sqrt n$ again, so the noise on the model grows like $n\eta$ too. What matters is therefore the
*path length* $n\eta$, not n: few rounds do as well as many, and a smaller budget wants a shorter path.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, expm1, inf, sqrt

from fedspd.algorithms import METHODS
from fedspd.algorithms.registry import EXACT
from fedspd.assemble.build import averaged_clients
from fedspd.config import Config
from fedspd.data import Holdings
from fedspd.engine import check_participants
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.privacy.plans.proved import largest_batch
from fedspd.problem import Loss

PARTICIPATIONS = 5  # uploads per client when the rounds are left open
# uploads add up a client's increments; other servers move every round
PRIMAL_DUAL = ("fedspd", "dp-admm", "ps-admm", "multi-step-dp-admm")
PATH = 2.0  # the path length n eta is PATH / noise^(2/3)


@dataclass(frozen=True)
class Proposal:
    """Rounds and step sizes."""

    rounds: int
    participations: int  # the most a client may have
    inverse_step: float  # gamma
    penalty: float  # rho
    max_batch: int | None  # most records in a batch, for Poisson sampling with several local steps
    crowding: float  # most records in a batch over what its sum is divided by
    contraction: float  # by which a later local step shrinks a record's part in the query; 0: not counted on


def propose(config: Config, holdings: Holdings, loss: Loss, dimension: int) -> Proposal:
    """Keep what the configuration sets and fill in the rest.

    Args:
        config: the settings.
        holdings: how many records each client has.
        loss: of a record.
        dimension: number of weights.
    """
    algorithm, run = config.algorithm, config.run
    clients = averaged_clients(config)
    rounds = run.rounds or (
        1 if algorithm.name == "one-shot" else rounds_for(PARTICIPATIONS, run.participants, clients)
    )
    paid = (rounds + 1) // 2 if algorithm.name == "dp-radmm" else rounds
    participations = run.most_participations or ceil(paid * run.participants / clients)
    row_norm = config.data.row_norm or 1.0
    exact = METHODS[algorithm.name].local_updates == EXACT
    primal_dual = algorithm.name in PRIMAL_DUAL or exact
    averaged = algorithm.name == "fedspd"  # releases the average of its local iterates, the others the last one
    reach = (algorithm.local_steps + 1) / 2 if averaged else algorithm.local_steps
    records = holdings.records / holdings.clients
    multiplier = _multiplier(config, int(records), participations, dimension)
    batch = algorithm.batch_size or records / algorithm.local_steps
    bound = min(config.problem.clip_norm, loss.slope_bound * row_norm)
    if bound == inf:
        raise InputError("record gradients must be bounded, got problem.clip_norm = inf; set it.")
    noise = noise_per_path(bound, multiplier, batch, clients, reach)
    moves = reach * (participations if primal_dual else rounds)
    step = algorithm.step_scale * path_length(noise, row_norm) / moves
    share = (algorithm.penalty_share or penalty_share(run.participants / clients)) if primal_dual else 0.0
    if exact:
        return _exact(config, holdings, loss, Proposal(rounds, participations, 0.0, 1 / step, None, 1.0, 0.0))
    max_batch = _max_batch(config, holdings, participations)
    crowding = _crowding(config, holdings, max_batch)
    inverse_step = algorithm.inverse_step or (1 - share) / step
    if algorithm.local_steps > 1 and algorithm.inverse_step is None:
        inverse_step = max(inverse_step, crowding * loss.curvature * row_norm**2 / 2)
    penalty = (algorithm.penalty or share / step) if primal_dual else 0.0
    # an average of local iterates counts early steps more than late ones
    contraction = inverse_step / (inverse_step + penalty) if averaged else 0.0
    return Proposal(rounds, participations, inverse_step, penalty, max_batch, crowding, contraction)


def _exact(config: Config, holdings: Holdings, loss: Loss, proposal: Proposal) -> Proposal:
    """For exact sub-problems one number is left: the curvature that is added to them.

    Where noise goes into the objective it is at least so much that determinants take a quarter of a round's budget.
    """
    algorithm, smoothness = config.algorithm, loss.curvature * (config.data.row_norm or 1.0) ** 2
    penalty = proposal.penalty
    if METHODS[algorithm.name].noise == "spherical Laplace":
        one_round = config.privacy.epsilon / (proposal.participations if config.privacy.budget == "total" else 1)
        penalty = max(penalty, smoothness / (float(holdings.divisors.min()) * expm1(one_round / 4)))
    return replace(proposal, inverse_step=algorithm.inverse_step or smoothness, penalty=algorithm.penalty or penalty)


def _crowding(config: Config, holdings: Holdings, max_batch: int | None) -> float:
    """Above 1 with Poisson sampling, where a shard does not divide evenly among the local steps, or counts more."""
    steps, batch_size = config.algorithm.local_steps, config.algorithm.batch_size
    sizes, heaviest = holdings.sizes, float((holdings.sizes / holdings.divisors).max())
    if batch_size is not None:
        return heaviest * (max_batch or batch_size) / batch_size
    return float((-(-sizes // steps) * steps / holdings.divisors).max())


def _max_batch(config: Config, holdings: Holdings, participations: int) -> int | None:
    algorithm = config.algorithm
    if algorithm.sampling != POISSON or algorithm.local_steps == 1 or algorithm.batch_size is None:
        return None
    return algorithm.max_batch or largest_batch(
        int(holdings.sizes.max()), algorithm.batch_size, algorithm.local_steps, participations, config.privacy.epsilon,
        config.privacy.delta,
    )  # fmt: skip


def rounds_for(participations: int, participants: int, clients: int) -> int:
    """Rounds after which every client has taken part so often on average."""
    check_participants(participants, clients)
    return ceil(participations * clients / participants)


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


def _multiplier(config: Config, records: int, participations: int, dimension: int) -> float:
    """Noise of a coordinate over sensitivity, divided by the root of the participations."""
    algorithm, privacy = config.algorithm, config.privacy
    if METHODS[algorithm.name].noise == "spherical Laplace":
        drawn = RecordSampling(WHOLE_SHARD, law="laplace", dimension=dimension, directions=2)
        counted = 1 if privacy.budget == "round" else participations
        scale = multiplier_for(drawn, records, counted, privacy.epsilon, privacy.delta)
        return scale * sqrt((dimension + 1) / participations)  # the squared length has the mean d (d + 1) times that
    if algorithm.batch_size is None and privacy.budget == "total":
        return calibrate(Gaussian, 1, privacy.epsilon, privacy.delta)  # whatever the participations
    drawn = RecordSampling(WHOLE_SHARD)
    if algorithm.batch_size is not None:
        drawn = RecordSampling(WITHOUT_REPLACEMENT, algorithm.batch_size, algorithm.local_steps)
    counted = 1 if privacy.budget == "round" else participations
    return multiplier_for(drawn, records, counted, privacy.epsilon, privacy.delta) / sqrt(participations)


@lru_cache(maxsize=256)
def multiplier_for(sampling: RecordSampling, records: int, participations: int, epsilon: float, delta: float) -> float:
    """The noise over sensitivity that so many participations need."""
    return calibrate(lambda z: sampling.event(records, z), participations, epsilon, delta)
