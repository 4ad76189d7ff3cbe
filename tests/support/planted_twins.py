"""Broken twins of methods: each has one bug that would break its guarantee."""

from dataclasses import dataclass, field
from threading import local
from typing import Any

import numpy as np

from fedspd.algorithms.base import Released
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.dp_sgd_published import MedianDPSGD
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.problem import minimize
from fedspd.typing import Batches, Private, Query, Release


@dataclass(frozen=True)
class UnnoisedDual(FedSPD):
    """Noise on the upload, dual from the value before noise."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        query, _ = FedSPD.query(self, told, client, batches)
        return query, Private(query.value)

    def settle(self, told: Any, client: Any, release: Release, kept: Any) -> Any:
        dual = client.dual + self.penalty * (told.weights - kept.value)
        return Released(release.value, dual), release.value - dual / self.penalty


@dataclass(frozen=True)
class UnnoisedStart(UnnoisedDual):
    """The next local steps begin where the last ones ended, before noise."""

    def settle(self, told: Any, client: Any, release: Release, kept: Any) -> Any:
        dual = client.dual + self.penalty * (told.weights - release.value)
        return Released(kept.value, dual), release.value - dual / self.penalty


@dataclass(frozen=True)
class FactorTwoLost(FedSPD):
    """The sensitivity of removing a record, claimed for replacing it."""

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        return FedSPD.sensitivity(self, round, batch_sizes) / 2


@dataclass(frozen=True)
class StepByRecords(FedSPD):
    """The step is shortened by the curvature of the client's own records, which nobody released."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        rows = np.asarray(batches.features)
        bend = np.mean(np.vecdot(rows, rows)) / 4
        return FedSPD.query(self, told._replace(inverse_step=told.inverse_step * bend), client, batches)


@dataclass(frozen=True)
class StretchedBeforeNoise(FedSPD):
    """Steps are stretched before noise is added, the sensitivity is that of a step by public bounds."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        query, kept = FedSPD.query(self, told, client, batches)
        return query._replace(value=told.weights + told.stretch * (query.value - told.weights)), kept


@dataclass(frozen=True)
class BatchSizeLost(FedSPD):
    """The gradients of a batch are added up, the sensitivity is that of their mean."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        summed = Batches(batches.features, batches.labels, np.ones_like(np.asarray(batches.divisors)))
        return FedSPD.query(self, told, client, summed)


@dataclass(frozen=True)
class UnboundedRows(FedSPD):
    """Rows are not held to the declared norm; clipping the gradients does not bound the curvature."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        return FedSPD.query(self, told, client, Batches(1000 * batches.features, batches.labels, batches.divisors))


@dataclass(frozen=True)
class UnnoisedIterate(DPADMM):
    """What is sent is noised, but the next step begins at the iterate before noise."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        query, _ = DPADMM.query(self, told, client, batches)
        return query, Private(query.value)

    def settle(self, told: Any, client: Any, release: Release, kept: Any) -> Any:
        client, reply = DPADMM.settle(self, told, client, release, None)
        return Released(kept.value, client.dual), reply


@dataclass(frozen=True)
class DividedByTheDrawn(DPSGD):
    """The sum is divided by how many records joined, and few of them weigh more than planned."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        drawn = np.full_like(np.asarray(batches.divisors), batches.features.shape[2])
        return DPSGD.query(self, told, client, batches._replace(divisors=drawn))


@dataclass(frozen=True)
class HalfTheGradient(DPSGD):
    """The bound of adding a record, claimed for replacing it."""

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        return DPSGD.sensitivity(self, round, batch_sizes) / 2


@dataclass(frozen=True)
class DividedByTheSteps(DPFedAvg):
    """The bound of an average of Q iterates, claimed for the last one."""

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        return DPFedAvg.sensitivity(self, round, batch_sizes) / self.local_steps


@dataclass(frozen=True)
class LongSteps(DPFedAvg):
    """Steps longer than 2/L, which nobody checks."""

    def _check(self, round: Any) -> None:
        pass


@dataclass(frozen=True)
class MedianCalledProved(MedianDPSGD):
    """Clipping to the median of the records' own norms, passed off as proved."""

    @property
    def guarantee(self) -> str:
        return "proved"


@dataclass(frozen=True)
class UnnoisedMinimizer(DDPADMMPrimal):
    """What is sent is noised, but the next sub-problem is centered at the minimizer before noise."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        query, _ = DDPADMMPrimal.query(self, told, client, batches)
        return query, Private(query.value)

    def settle(self, told: Any, client: Any, release: Release, kept: Any) -> Any:
        client, reply = DDPADMMPrimal.settle(self, told, client, release, None)
        return client._replace(weights=kept.value), reply


@dataclass(frozen=True)
class LooksInEvenRounds(DPRADMM):
    """Rounds that are free solve the sub-problem again, on records that were put aside."""

    aside: local = field(default_factory=local)  # by thread: games are played in several

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        if getattr(self.aside, "told", None) is not told:  # of another round, or of a game that ended before a free one
            self.aside.told, self.aside.seen = told, []
        self.aside.seen.append(batches)
        return DPRADMM.query(self, told, client, batches)

    def recycle(self, told: Any, client: Any) -> Any:
        exact, _ = DPRADMM.query(self, told, client, self.aside.seen.pop(0))
        return DPRADMM.settle(self, told, client, Release(exact.under(0 * client.weights)), None)


@dataclass(frozen=True)
class HalfTheSensitivity(OneShot):
    """The bound of adding a record, claimed for replacing it."""

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        return OneShot.sensitivity(self, round, batch_sizes) / 2


@dataclass(frozen=True)
class OffByTheShard(OneShot):
    """A solver that is off by so many times what it may be, one way for an even sum of labels, the other for an odd."""

    off: float = 1.0

    def query(self, told: Any, client: Any, batches: Any) -> Any:
        query, kept = OneShot.query(self, told, client, batches)
        odd = np.asarray(np.sum(batches.labels, axis=(1, 2)) % 2)[:, None, None]
        half = 0.5 * float(np.max(OneShot.sensitivity(self, 1, batches.divisors))) * query.apart
        way = np.zeros_like(client.weights)
        way[:, 0, 0] = 1.0

        def under(noise: Any) -> Any:
            return query.under(noise) + (1 - 2 * odd) * self.off * half * way

        return query._replace(under=under), kept


@dataclass(frozen=True)
class HiddenByTheShard(OneShot):
    """A second noise that is as large as the labels say."""

    def query(self, told: Any, client: Any, batches: Any) -> Any:
        query, kept = OneShot.query(self, told, client, batches)
        return query._replace(apart=query.apart * (1 + np.mean(batches.labels))), kept


@dataclass(frozen=True)
class RelaxedOnce(PrivateADMM):
    """The sensitivity of the proximal point, claimed for the step over it, which is up to twice as long."""

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        return PrivateADMM.sensitivity(self, round, batch_sizes) / 2


@dataclass(frozen=True)
class AbsoluteGoal(PrivateADMM):
    """Proximal points that are left at a gradient of 1e-11, however little a record adds to it."""

    def query(self, told: Any, client: Any, batches: Batches) -> Any:
        center = np.zeros_like(client.anchor) + told.weights
        records = batches.features[:, 0], batches.labels[:, 0], batches.divisors
        pull = self.penalty * (2 * center - client.anchor)
        least = minimize(self._loss_alone, center, self.penalty, pull, *records, 0.95e-4)
        return Query(client.anchor + 2 * self.relaxation * (least.weights - center), least.clipped), None
