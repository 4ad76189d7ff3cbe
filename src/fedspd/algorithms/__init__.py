"""Federated methods, one file each, all keeping the contract of `base`.

A method knows its objective and its privacy formulas; it knows no engine, no data source and draws
nothing at random.
"""

from fedspd.algorithms.base import Algorithm, PrimalDual
from fedspd.algorithms.consensus import Network
from fedspd.algorithms.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.dp_aadmm import DPAADMM
from fedspd.algorithms.dp_admm import DPADMM, Huang
from fedspd.algorithms.dp_ftrl import DPFTRL
from fedspd.algorithms.dp_lr_admm import DPLRADMM
from fedspd.algorithms.dp_madmm import DPMADMM
from fedspd.algorithms.dp_radmm import DPRADMM
from fedspd.algorithms.dp_scaffold import DPSCAFFOLD
from fedspd.algorithms.dp_sgd import DPSGD
from fedspd.algorithms.fedavg import FedAvg
from fedspd.algorithms.fedpd import FedPD
from fedspd.algorithms.fedspd import FedSPD
from fedspd.algorithms.fedspd_published import FedSPDPublished
from fedspd.algorithms.moments import Moments, choose_levels
from fedspd.algorithms.multi_step_dp_admm import MultiStepDPADMM
from fedspd.algorithms.noisy_prox_gd import NoisyProximalGradient
from fedspd.algorithms.one_shot import OneShot
from fedspd.algorithms.private_admm import PrivateADMM
from fedspd.algorithms.ps_admm import PSADMM
from fedspd.algorithms.registry import METHODS, Method, label
from fedspd.algorithms.schedule import Constant, Geometric, Schedule, SquareRoot
from fedspd.algorithms.topology import TOPOLOGIES, Topology, make_topology

__all__ = [
    "DPAADMM",
    "DPADMM",
    "DPFTRL",
    "DPLRADMM",
    "DPMADMM",
    "DPRADMM",
    "DPSCAFFOLD",
    "DPSGD",
    "METHODS",
    "PSADMM",
    "TOPOLOGIES",
    "Algorithm",
    "Constant",
    "DDPADMMDual",
    "DDPADMMPrimal",
    "FedAvg",
    "FedPD",
    "FedSPD",
    "FedSPDPublished",
    "Geometric",
    "Huang",
    "Method",
    "Moments",
    "MultiStepDPADMM",
    "Network",
    "NoisyProximalGradient",
    "OneShot",
    "PrimalDual",
    "PrivateADMM",
    "Schedule",
    "SquareRoot",
    "Topology",
    "choose_levels",
    "label",
    "make_topology",
]
