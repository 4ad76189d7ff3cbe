"""Bugs that would break a claim, as an audit meets them: a client whose code or draws are broken, and what is claimed.

Their names are those of `tests/test_planted_bugs.py`, where it has the same bug.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from fedspd.algorithms.base import PerturbsObjective
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_ftrl import DPFTRL
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.dp_scaffold import DPSCAFFOLD
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.multi_step_dp_admm import MultiStepDPADMM
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.audit.bounds import Claim
from fedspd.audit.target import Target, units_of
from fedspd.audit.verdict import Contest
from fedspd.data.holding.units import Units
from fedspd.engine import draws
from fedspd.engine.batches import draw_records
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling, SharedNoise, plan_proved
from fedspd.problem import Objective, Softmax, Unregularized
from fedspd.problem.objective import Gradient
from tests.support import planted_twins as twins

EPSILON, DELTA, RECORDS = 4.0, 1e-5, 40
STEEP = Objective(Softmax(2), Unregularized(), 0.05)
FLAT = Objective(Softmax(2), Unregularized(), sqrt(0.5))


def method(kind: type[FedSPD] = FedSPD, steps: int = 1, objective: Objective = STEEP) -> FedSPD:
    """FedSPD-DP with released state."""
    return kind(objective, 1, 0.2, steps, 0.4, row_norm=1.0, start_at="own")


def contest(
    algorithm: Any, batch: int | None = None, *, claimed_records: int = RECORDS, participations: int = 3,
    told: dict[str, Any] | None = None, **changes: Any,
) -> Contest:  # fmt: skip
    """A client of 40 records; its plan may be made for more, or for what else it was told of its method."""
    scheme = WHOLE_SHARD if batch is None else WITHOUT_REPLACEMENT
    law, steps, contraction = algorithm.law, algorithm.local_steps, getattr(algorithm, "contraction", 0.0)
    blocks = getattr(algorithm, "blocks", 1)
    jacobian = algorithm.jacobian(np.array([RECORDS])) if isinstance(algorithm, PerturbsObjective) else 0.0
    sampling = RecordSampling(scheme, batch, steps, contraction, law=law, jacobian=jacobian, blocks=blocks)
    if law == "objective":
        sampling = replace(sampling, dimension=4, directions=2)
    sampling = replace(sampling, **told or {})
    plan = plan_proved(EPSILON, DELTA, sampling, np.array([claimed_records]), participations)
    divisor = float(batch or RECORDS / steps)
    multiplier = float(plan.noise_multipliers[0])
    target = Target(algorithm, scheme, batch, RECORDS, divisor, multiplier, participations, 2, 1.0)
    claim = Claim(EPSILON, DELTA, tuple(plan.history(0, participations)))
    return Contest("a server", replace(target, **changes), claim)


def unmarked(kind: Any) -> Any:
    """Un-noised state that is not marked as such, which the engine would refuse."""

    class Unmarked(kind):
        def query(self, told: Any, client: Any, batches: Any) -> Any:
            query, _ = kind.query(self, told, client, batches)
            return query, query

    return Unmarked


@dataclass(frozen=True)
class ClipsTheBatch(Objective):
    """The mean gradient is clipped, and no record's."""

    def gradient(
        self, weights: Any, features: Any, labels: Any, divisors: Any, shares: Any = None, squares: Any = None
    ) -> Gradient:
        """Of the whole batch."""
        whole = Objective(self.loss, self.regularizer, np.inf).gradient(weights, features, labels, divisors)
        norms = np.linalg.norm(whole.mean, axis=(-2, -1), keepdims=True)
        return whole._replace(mean=whole.mean / np.maximum(norms / self.clip_norm, 1.0))


@dataclass(frozen=True)
class SharesForgotten(FedSPD):
    """Every row of a person weighs 1."""

    def query(self, told: Any, client: Any, batches: Any) -> Any:
        """Of rows without shares."""
        return FedSPD.query(self, told, client, batches._replace(shares=None))


def one_batch_for_all_steps(rng: Any, sizes: np.ndarray, sampling: str, batch: int | None, steps: int) -> np.ndarray:
    """The first one."""
    drawn = draw_records(rng, sizes, sampling, batch, steps)
    return np.repeat(drawn[:, :1], steps, axis=1)


def in_two_batches(rng: Any, sizes: np.ndarray, sampling: str, batch: int | None, steps: int) -> np.ndarray:
    """The first record is in the first batch and in the last."""
    drawn = np.array(draw_records(rng, sizes, sampling, batch, steps))
    drawn[:, 0, 0] = drawn[:, -1, 0] = 0
    return drawn


def dealt_by_number(rng: Any, sizes: np.ndarray, sampling: str, batch: int | None, steps: int) -> np.ndarray:
    """A whole shard that is never shuffled."""
    size = int(sizes[0])
    return np.broadcast_to(np.arange(size).reshape(-1, steps).T, (len(sizes), steps, size // steps))


def same_in_every_round(seed: int, name: Any, round: int = 0, *client: int) -> np.random.Generator:
    """Noise of the first round."""
    return draws.stream(seed, name, 0, *client)


def same_at_every_client(seed: int, name: Any, round: int = 0, *client: int) -> np.random.Generator:
    """Noise of nobody in particular."""
    return draws.stream(seed, name, round)


def from_the_servers_seed(seed: int, name: Any, round: int = 0, *client: int) -> np.random.Generator:
    """Noise that a server can draw again."""
    return draws.stream(0, name, round, *client)


def again_after_a_resume(seed: int, name: Any, round: int = 0, *client: int) -> np.random.Generator:
    """A run that went on after its second round began to count anew."""
    return draws.stream(seed, name, round if round <= 2 else round - 2, *client)


def cut_in_two(persons: int, rows: int) -> Units:
    """Every person goes under two names, with half of its rows each, and is counted twice."""
    return units_of(2 * persons, rows // 2)


def on_sums(honest: int) -> Contest:
    """A cohort of 12 whose claim counts on eight that tell nobody, where so many do not."""
    sharing = SharedNoise(12, 10, 2)
    found = contest(method())
    event = RecordSampling(WHOLE_SHARD, sharing=sharing).event(RECORDS, found.target.multiplier)
    claim = replace(found.claim, history=((event, 3),))
    left = found.target.multiplier * sqrt(honest / sharing.honest)
    return Contest("a server and some members", replace(found.target, multiplier=left), claim)


def variance_for_deviation() -> Contest:
    """Of noise that is smaller than one."""
    found = contest(method(objective=replace(STEEP, clip_norm=0.01)))
    bound = float(np.max(found.target.algorithm.sensitivity(1, np.array([found.target.divisor]))))
    return found._replace(target=replace(found.target, multiplier=found.target.multiplier**2 * bound))


def fedavg(kind: type[DPFedAvg] = DPFedAvg) -> DPFedAvg:
    """Five steps, of which the last iterate is released."""
    return kind(FedAvg(FLAT, 5, Constant(0.25)), 1.0)


def sgd(kind: type[DPSGD] = DPSGD) -> DPSGD:
    """One clipped gradient a round."""
    return kind(STEEP, Constant(0.25))


def steps() -> MultiStepDPADMM:
    """Five releases a round."""
    return MultiStepDPADMM(STEEP, 1, 0.05, 5, Constant(0.25))


def admm(kind: type[DPADMM] = DPADMM) -> DPADMM:
    """One step on all records."""
    return kind(STEEP, clients=1, penalty=0.05, schedule=Constant(0.25))


def primal(kind: type[DDPADMMPrimal] = DDPADMMPrimal) -> DDPADMMPrimal:
    """Noise on a minimizer."""
    return kind(STEEP, Network(2), 0.3, 1.0)


PLANTED: dict[str, Callable[[], Contest]] = {
    "the factor 2 of replace-one is lost": lambda: contest(method(twins.FactorTwoLost)),
    "noise on the upload but the un-noised dual is kept": lambda: contest(method(unmarked(twins.UnnoisedDual))),
    "local steps begin at the un-noised iterate": lambda: contest(method(unmarked(twins.UnnoisedStart))),
    "noise of the last round used again": lambda: contest(method(), stream=same_in_every_round),
    "noise of another client used again": lambda: contest(method(), stream=same_at_every_client),
    "a seed that the server has": lambda: contest(method(), stream=from_the_servers_seed),
    "the same noise is drawn again after a resume": lambda: contest(method(), stream=again_after_a_resume),
    "the accountant is fed the wrong rate": lambda: contest(method(), 4, claimed_records=4 * RECORDS),
    "one batch for all steps": lambda: contest(method(steps=5), 4, sample=one_batch_for_all_steps),
    "clipping the batch": lambda: contest(method(objective=ClipsTheBatch(Softmax(2), Unregularized(), 0.05))),
    "a person is cut in two": lambda: contest(method(), rows=2, units=cut_in_two),
    "noise of fewer than are honest": lambda: on_sums(honest=5),
    "the 1/b of the batch is lost": lambda: contest(method(twins.BatchSizeLost)),
    "the step depends on the client's records": lambda: contest(method(twins.StepByRecords)),
    "steps are stretched before noise is added": lambda: contest(method(twins.StretchedBeforeNoise)),
    "a record is drawn twice in a round": lambda: contest(method(steps=5), sample=in_two_batches),
    "rows are left unbounded with several local steps": lambda: contest(method(twins.UnboundedRows, 5, FLAT)),
    "DP-ADMM carries the un-noised iterate": lambda: contest(admm(unmarked(twins.UnnoisedIterate))),
    "DP-SGD loses the factor 2 of replace-one": lambda: contest(sgd(twins.HalfTheGradient)),
    "DP-FedAvg divides its sensitivity by the local steps": lambda: contest(fedavg(twins.DividedByTheSteps)),
    "the steps of DP-FedAvg are charged like those of an average": lambda: contest(
        fedavg(), 8, told={"contraction": 1.0}
    ),
    "whole shards of DP-FedAvg are charged for a random step of an average": lambda: contest(
        fedavg(), told={"contraction": 1.0}
    ),
    "a whole shard is dealt out to its steps without a shuffle": lambda: contest(
        method(steps=5), sample=dealt_by_number
    ),
    "noise in the objective loses the factor 2 of replace-one": lambda: contest(
        twins.HalfTheSensitivity(STEEP, 1.0, 1.0), participations=1
    ),
    "DDP-ADMM with noise on the primal carries the un-noised minimizer": lambda: contest(
        primal(unmarked(twins.UnnoisedMinimizer))
    ),
    "free rounds of DP-RADMM look at records": lambda: contest(
        twins.LooksInEvenRounds(STEEP, Network(2), 0.3, 1.0, 1.0)
    ),
    "DP-FTRL is charged once for all uses of a record": lambda: contest(
        DPFTRL(STEEP, 1.0, 3), participations=12, told={"blocks": 12}
    ),
    "batches of multi-step DP-ADMM overlap": lambda: contest(steps(), sample=in_two_batches),
    "batches of DP-SCAFFOLD overlap": lambda: contest(DPSCAFFOLD(STEEP, 1, 5, Constant(0.25)), sample=in_two_batches),
    "Private ADMM loses the factor 2 of its relaxed step": lambda: contest(twins.RelaxedOnce(STEEP, 2, 0.3, 1.0, 0.9)),
    "the variance is used as the deviation": variance_for_deviation,
    "every row of a person weighs as much as a record": lambda: contest(method(SharesForgotten), rows=2),
}  # fmt: skip
TRUE: dict[str, Callable[[], Contest]] = {
    "the method": lambda: contest(method()),
    "in batches": lambda: contest(method(), 4),
    "in several steps": lambda: contest(method(steps=5), 4),
    "on persons": lambda: contest(method(), rows=2),
    "on persons in batches": lambda: contest(method(), 4, rows=2),
    "on sums": lambda: on_sums(honest=8),
    "one gradient": lambda: contest(sgd()),
    "the last of several steps": lambda: contest(fedavg(), 8),
    "the whole shard in several steps": lambda: contest(method(steps=5)),
    "several releases a round": lambda: contest(steps()),
    "noise that is remembered": lambda: contest(DPFTRL(STEEP, 1.0, 3), participations=12),
    "noise on a minimizer": lambda: contest(primal()),
    "noise in an objective": lambda: contest(OneShot(STEEP, 1.0, 1.0), participations=1),
    "free rounds": lambda: contest(DPRADMM(STEEP, Network(2), 0.3, 1.0, 1.0)),
}
