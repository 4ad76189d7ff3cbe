r"""What a user leaves open, filled in by rules that use public numbers only: never the records, never a test set.

The rules rest on two facts about whole-shard rounds begun at the server's weights. A client's
uploads add up its increments, so after n participations the model has moved by about $n\eta$ times a
gradient, $\eta = 1/(\gamma+\rho)$; and calibrated noise grows like $\sqrt n$ per upload and adds up
like $\sqrt n$ again, so the noise on the model grows like $n\eta$ too. What matters is therefore the
*path length* $n\eta$, not n: few rounds do as well as many, and a smaller budget wants a shorter path.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from fedspd.config import Config
from fedspd.data import Shards
from fedspd.engine import check_participants
from fedspd.privacy import POISSON
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.privacy.proved import largest_batch
from fedspd.problem import Loss

PARTICIPATIONS = 5  # uploads per client when the rounds are left open
PENALTY_SHARE = 1 / 3  # rho of gamma + rho
PATH = 2.0  # the path length n eta is PATH / noise^(2/3)


@dataclass(frozen=True)
class Proposal:
    """Rounds and step sizes."""

    rounds: int
    participations: int  # the most a client may have
    inverse_step: float  # gamma
    penalty: float  # rho
    max_batch: int | None  # most records in a batch, for Poisson sampling with several local steps

    @property
    def contraction(self) -> float:
        """c = gamma / (gamma + rho), by which a later local step shrinks a gap."""
        return self.inverse_step / (self.inverse_step + self.penalty)


def propose(config: Config, shards: Shards, loss: Loss) -> Proposal:
    """Keep what the configuration sets and fill in the rest."""
    clients, participants = shards.clients, config.run.participants
    rounds = config.run.rounds or rounds_for(PARTICIPATIONS, participants, clients)
    participations = config.run.most_participations or ceil(rounds * participants / clients)
    mean_records = len(shards.labels) / clients
    step = step_size(
        config.privacy.epsilon, config.privacy.delta, clients, mean_records, participations, config.problem.clip_norm,
        config.data.row_norm or 1.0,
    )  # fmt: skip
    max_batch = _max_batch(config, shards, participations)
    inverse_step = config.algorithm.inverse_step or (1 - PENALTY_SHARE) / step
    if config.algorithm.local_steps > 1 and config.algorithm.inverse_step is None:
        crowding = 1.0 if max_batch is None else max_batch / (config.algorithm.batch_size or 1)
        inverse_step = max(inverse_step, crowding * loss.curvature * (config.data.row_norm or 1.0) ** 2 / 2)
    return Proposal(rounds, participations, inverse_step, config.algorithm.penalty or PENALTY_SHARE / step, max_batch)


def _max_batch(config: Config, shards: Shards, participations: int) -> int | None:
    algorithm = config.algorithm
    if algorithm.sampling != POISSON or algorithm.local_steps == 1 or algorithm.batch_size is None:
        return None
    return algorithm.max_batch or largest_batch(
        int(shards.sizes.max()), algorithm.batch_size, algorithm.local_steps, participations, config.privacy.epsilon,
        config.privacy.delta,
    )  # fmt: skip


def rounds_for(participations: int, participants: int, clients: int) -> int:
    """Rounds after which every client has taken part so often on average."""
    check_participants(participants, clients)
    return ceil(participations * clients / participants)


def step_size(
    epsilon: float, delta: float, clients: int, records: float, participations: int, clip_norm: float, row_norm: float
) -> float:
    r"""$\eta$ for a path of length $2\,\nu^{-2/3}/R^2$, shared by n participations.

    $\nu = 2 G z_1/(m\sqrt N)$ is the noise on the model per unit of path, with $z_1$ the multiplier of a
    single release under the whole budget. A longer path leaves less of the optimum undone and more noise;
    the exponent and the factor come from a validation split of Adult at three budgets, and the optimum is
    flat: half or twice the path costs about a quarter of a percentage point.
    """
    one_shot = calibrate(Gaussian, 1, epsilon, delta)
    noise = 2 * clip_norm * one_shot / (records * sqrt(clients))
    path = PATH / noise ** (2 / 3) / row_norm**2
    return path / participations
