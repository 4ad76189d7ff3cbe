"""Federated methods, one file each, all keeping the contract of `base`.

A method knows its objective and its privacy formulas; it knows no engine, no data source and draws
nothing at random.
"""

from typing import NamedTuple

from fedspd.algorithms.base import Algorithm, PrimalDual
from fedspd.algorithms.dp_admm import DPADMM, Huang
from fedspd.algorithms.dp_sgd import DPSGD
from fedspd.algorithms.fedavg import FedAvg
from fedspd.algorithms.fedpd import FedPD
from fedspd.algorithms.fedspd import FedSPD
from fedspd.algorithms.fedspd_published import FedSPDPublished
from fedspd.algorithms.moments import Moments, choose_levels
from fedspd.algorithms.schedule import Constant, Schedule, SquareRoot


class Method(NamedTuple):
    """What a method may claim, and why no more than that."""

    guarantee: str  # the strongest its runs may carry: "proved", "as published" or "none"
    caveat: str = ""  # why it is not proved
    reconstruction: bool = False  # known by an abstract only


METHODS = {
    "fedspd": Method("proved"),
    "fedspd-published": Method("as published", "un-noised state is carried from round to round"),
    "dp-sgd": Method("proved"),
    "dp-sgd-published": Method("as published", "the clipping bound is an un-noised statistic of the records"),
    "dp-fedavg": Method("proved", reconstruction=True),
    "dp-fedavg-published": Method("as published", "the total is a formula without a proof", reconstruction=True),
    "dp-admm": Method("proved"),
    "dp-admm-published": Method("as published", "the total is a formula without a proof"),
    "fedavg": Method("none"),
    "fedprox": Method("none"),
    "fedpd": Method("none"),
}
"""Every method by the name that configurations use."""

__all__ = [
    "DPADMM",
    "DPSGD",
    "METHODS",
    "Algorithm",
    "Constant",
    "FedAvg",
    "FedPD",
    "FedSPD",
    "FedSPDPublished",
    "Huang",
    "Method",
    "Moments",
    "PrimalDual",
    "Schedule",
    "SquareRoot",
    "choose_levels",
]
