"""Federated methods, one file each, all keeping the contract of `base`.

A method knows its objective and its privacy formulas; it knows no engine, no data source and draws
nothing at random.
"""

from fedspd.algorithms.base import Algorithm, PrimalDual
from fedspd.algorithms.methods.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.dp_aadmm import DPAADMM
from fedspd.algorithms.methods.dp_admm import DPADMM, Huang
from fedspd.algorithms.methods.dp_ftrl import DPFTRL
from fedspd.algorithms.methods.dp_lr_admm import DPLRADMM
from fedspd.algorithms.methods.dp_madmm import DPMADMM
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.dp_scaffold import DPSCAFFOLD
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedpd import FedPD
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.algorithms.methods.multi_step_dp_admm import MultiStepDPADMM
from fedspd.algorithms.methods.noisy_prox_gd import NoisyProximalGradient
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.algorithms.methods.ps_admm import PSADMM
from fedspd.algorithms.moments import Moments, choose_levels
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.step_sizes import Constant, Geometric, Schedule, SquareRoot
from fedspd.algorithms.parts.topology import TOPOLOGIES, Topology, make_topology
from fedspd.algorithms.registry import METHODS, Method, label

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
