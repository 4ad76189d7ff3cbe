"""Federated methods, one file each, all keeping the contract of `base`.

A method knows its objective and its privacy formulas; it knows no engine, no data source and draws
nothing at random.
"""

from fedspd.algorithms.base import Algorithm, PrimalDual
from fedspd.algorithms.fedspd import FedSPD
from fedspd.algorithms.fedspd_published import FedSPDPublished
from fedspd.algorithms.moments import Moments, choose_levels

__all__ = ["Algorithm", "FedSPD", "FedSPDPublished", "Moments", "PrimalDual", "choose_levels"]
