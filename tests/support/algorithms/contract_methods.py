"""The methods that the contract's tests run, what each claims, and how they are made from one setting."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms import METHODS as REGISTRY
from fedspd.algorithms import Method, Public
from fedspd.algorithms.base import PerturbsObjective
from fedspd.algorithms.methods.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.ddp_admm_pvp_published import DDPADMMPrimalPublished
from fedspd.algorithms.methods.dp_aadmm import DPAADMM
from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_ftrl import DPFTRL
from fedspd.algorithms.methods.dp_lr_admm import DPLRADMM
from fedspd.algorithms.methods.dp_madmm import DPMADMM
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.dp_scaffold import DPSCAFFOLD
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.dp_sgd_published import MedianDPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedpd import FedPD
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.algorithms.methods.multi_step_dp_admm import MultiStepDPADMM
from fedspd.algorithms.methods.noisy_prox_gd import NoisyProximalGradient
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.algorithms.methods.ps_admm import PSADMM
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.algorithms.parts.step_sizes import Constant, Geometric, Schedule, SquareRoot
from fedspd.data import Holdings, Shards, Table
from fedspd.engine import Simulation
from fedspd.privacy import WHOLE_SHARD, RecordSampling
from fedspd.problem import (
    L1,
    Box,
    ElasticNet,
    FlippedLabels,
    GroupL1,
    Huber,
    LeastSquares,
    Loss,
    Objective,
    Poisson,
    Regularizer,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
)
from tests.algorithms.test_fedspd_published import small_problem

LOSSES: list[Loss] = [Softmax(2), LeastSquares(), SquaredHinge(), Huber(0.8), Poisson(1.0, 0.3)]
REGULARIZERS: list[Regularizer] = [
    Unregularized(), L1(0.3), SquaredL2(0.5), ElasticNet(0.4, 0.5), GroupL1(0.2), Box(0.4),
]  # fmt: skip


class Setting(NamedTuple):
    """What the methods below are made from; each takes what it knows. Rows have norm at most 1."""

    objective: Objective = Objective(Softmax(2), L1(0.02), 0.7)
    local_steps: int = 1
    gamma: float = 1.0
    penalty: float = 0.3
    relation: Any = "replace-one"
    crowding: float = 1.0
    clients: int = 3
    grows: bool = True  # γ grows from round to round

    @property
    def schedule(self) -> Schedule:
        return SquareRoot(self.gamma) if self.grows else Constant(self.gamma)

    @property
    def smooth(self) -> Objective:
        """For exact sub-problems: with a square in place of a regularizer that has a kink."""
        if isinstance(self.objective.regularizer, Unregularized | SquaredL2):
            return self.objective
        return replace(self.objective, regularizer=SquaredL2(0.2))

    @property
    def strong(self) -> Objective:
        """For a noise that is divided by the regularizer's strength."""
        return replace(self.smooth, regularizer=SquaredL2(0.2))

    @property
    def flipped(self) -> Objective:
        """Of labels that were flipped, where the loss can be corrected for it."""
        return (
            replace(self.smooth, loss=FlippedLabels(0.1)) if isinstance(self.objective.loss, Softmax) else self.smooth
        )

    @property
    def star(self) -> Network:
        return Network(self.clients)


METHODS: dict[str, Callable[[Setting], Any]] = {
    "FedSPD-DP": lambda s: FedSPD(
        s.objective, s.clients, s.penalty, s.local_steps, s.gamma, 1.0, "server", s.relation, s.crowding
    ),
    "FedSPD-DP from the client's own point": lambda s: FedSPD(
        s.objective, s.clients, s.penalty, s.local_steps, s.gamma, 1.0, "own", s.relation, s.crowding
    ),
    "FedSPD-DP on sums of cohorts": lambda s: SPDOnSums(s.objective, s.penalty, s.gamma, relation=s.relation),
    "FedSPD-DP as published": lambda s: FedSPDPublished(
        s.objective, s.clients, s.penalty, s.local_steps, s.schedule
    ),
    "DP-SGD": lambda s: DPSGD(s.objective, s.schedule, s.relation),
    "DP-SGD with median clipping": lambda s: MedianDPSGD(DPSGD(s.objective, s.schedule)),
    "DP-FedAvg": lambda s: DPFedAvg(
        FedAvg(s.objective, s.local_steps, s.schedule), 1.0, s.relation, s.crowding
    ),
    "DP-FedAvg as published": lambda s: FedAvg(s.objective, s.local_steps, s.schedule),
    "DP-FedProx": lambda s: DPFedAvg(
        FedAvg(s.objective, s.local_steps, s.schedule, s.penalty), 1.0, s.relation, s.crowding
    ),
    "DP-ADMM": lambda s: DPADMM(s.objective, s.clients, s.penalty, s.schedule, s.relation),
    "FedPD": lambda s: FedPD(s.objective, s.clients, s.penalty, s.local_steps, s.schedule),
    "DDP-ADMM with noise on the dual": lambda s: DDPADMMDual(s.smooth, s.star, s.penalty, 1.0),
    "DDP-ADMM with noise on the primal": lambda s: DDPADMMPrimal(s.smooth, s.star, s.penalty, 1.0),
    "DDP-ADMM with noise on the primal as published": lambda s: DDPADMMPrimalPublished(s.strong, s.star, s.penalty),
    "DP-MADMM": lambda s: DPMADMM(s.smooth, s.star, s.penalty, Geometric(1.5 * s.penalty, 1.1), 1.0),
    "DP-RADMM": lambda s: DPRADMM(s.smooth, s.star, s.penalty, s.gamma, 1.0),
    "DP-AADMM": lambda s: DPAADMM(s.objective, s.clients, s.penalty, 2),
    "DP-LR-ADMM": lambda s: DPLRADMM(s.flipped, s.star, s.penalty, 1.0),
    "PS-ADMM": lambda s: PSADMM(s.objective, s.clients, s.penalty, s.schedule, s.relation),
    "Multi-step DP-ADMM": lambda s: MultiStepDPADMM(
        s.objective, s.clients, s.penalty, s.local_steps, s.schedule, s.relation
    ),
    "Private ADMM": lambda s: PrivateADMM(s.objective, s.clients, s.penalty, 1.0, 0.7),
    "DP-SCAFFOLD": lambda s: DPSCAFFOLD(s.objective, s.clients, s.local_steps, s.schedule, s.relation),
    "Noisy proximal gradient": lambda s: NoisyProximalGradient(s.objective, s.schedule, 0.4, s.relation),
    "DP-FTRL": lambda s: DPFTRL(s.objective, s.gamma, 3),
    "One shot": lambda s: OneShot(s.smooth, s.penalty, 1.0),
}  # fmt: skip


def generic(method: Method) -> Callable[[Setting], Any]:
    """How a method that is not written down above is made: by itself, from public numbers."""

    def make(s: Setting) -> Any:
        wishes = {"inverse_step": s.gamma, "penalty": s.penalty, "local_steps": s.local_steps}
        own = method.settings(**{key: value for key, value in wishes.items() if key in method.keys})
        public = Public(
            s.smooth if method.needs.smooth else s.objective, 1.0, 3, Holdings(np.full(s.clients, 24)), s.clients,
            s.clients, 5, 300, None, 1.0, 1e-5, "total", np.random.default_rng(0),
        )  # fmt: skip
        return method.make(public, own).algorithm

    return make


WRITTEN = {type(make(Setting())) for make in METHODS.values()}
NEW = {name: method for name, method in REGISTRY.items() if method.kind not in WRITTEN}
METHODS |= {name: generic(method) for name, method in NEW.items()}
CLAIMS = {name: method.guarantee for name, method in NEW.items()} | {
    "FedSPD-DP": "proved",
    "FedSPD-DP from the client's own point": "proved",
    "FedSPD-DP on sums of cohorts": "proved",
    "FedSPD-DP as published": "as published",
    "DP-SGD": "proved",
    "DP-SGD with median clipping": "as published",
    "DP-FedAvg": "proved",
    "DP-FedAvg as published": "as published",
    "DP-FedProx": "proved",
    "DP-ADMM": "proved",
    "FedPD": "none",
    "DDP-ADMM with noise on the dual": "proved",
    "DDP-ADMM with noise on the primal": "proved",
    "DDP-ADMM with noise on the primal as published": "as published",
    "DP-MADMM": "proved",
    "DP-RADMM": "proved",
    "DP-AADMM": "as published",
    "DP-LR-ADMM": "proved",
    "PS-ADMM": "proved",
    "Multi-step DP-ADMM": "proved",
    "Private ADMM": "proved",
    "DP-SCAFFOLD": "proved",
    "Noisy proximal gradient": "proved",
    "DP-FTRL": "proved",
    "One shot": "proved",
}
PROVED = [name for name, claim in CLAIMS.items() if claim == "proved"]
HIDING = [
    "FedSPD-DP as published",
    "DP-SGD with median clipping",
    "FedPD",
    "DDP-ADMM with noise on the primal as published",
    "DP-AADMM",
]
CONSENSUS = [name for name in METHODS if hasattr(METHODS[name](Setting()), "network")]  # of all clients, in every round
EXACT = [name for name in METHODS if METHODS[name](Setting()).exact]
WHOLE = [*EXACT, "DP-FTRL", *(name for name, method in NEW.items() if method.whole_shard)]
"""Use the whole shard in every round, or a fixed part of it."""

every_method = pytest.mark.parametrize("name", METHODS)
seeds = given(seed=st.integers(0, 2**32), round=st.sampled_from([2, 3]))
light = settings(deadline=None, max_examples=15)


def relations(name: str) -> list[str]:
    """The neighbors that a method has a proof for."""
    algorithm = METHODS[name](Setting())
    return ["replace-one", "zero-out"] if "relation" in {field.name for field in fields(algorithm)} else ["replace-one"]


def whole_shard(algorithm: Any, sizes: np.ndarray, dimension: int = 6) -> RecordSampling:
    """What a plan must know of a method that uses whole shards, with noise in so many dimensions at least."""
    law, blocks = algorithm.law, getattr(algorithm, "bands", 1)
    if isinstance(algorithm, PerturbsObjective):
        jacobian, directions = algorithm.jacobian(sizes), algorithm.directions
        return RecordSampling(WHOLE_SHARD, law=law, jacobian=jacobian, dimension=dimension, directions=directions)
    return RecordSampling(WHOLE_SHARD, law=law, blocks=blocks)


def small_shards() -> tuple[Shards, Table]:
    """Whole shards of unequal size, rows of norm at most 1."""
    shards, table = small_problem(seed=3, clients=5)
    return replace(shards, features=shards.features / np.linalg.norm(shards.features, axis=1).max()), table


def small_run(algorithm: Any, plan: Any, rounds: int = 2) -> Simulation:
    """On these shards, everybody takes part."""
    shards, table = small_shards()
    return Simulation(shards, table, algorithm, plan, None, 5, rounds, seed=0)
