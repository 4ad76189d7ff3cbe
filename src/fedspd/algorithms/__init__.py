"""Federated methods: the contract (`base`), one file each (`methods`), what they hold (`parts`), and the list of them.

A method knows its objective and its privacy formulas; it knows no engine, no data source and draws
nothing at random.
"""

from fedspd.algorithms.base import Algorithm, PrimalDual
from fedspd.algorithms.card import Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public, Work
from fedspd.algorithms.moments import Moments, choose_levels
from fedspd.algorithms.registry import METHODS, label

__all__ = [
    "METHODS",
    "Algorithm",
    "Card",
    "Made",
    "Method",
    "Moments",
    "Needs",
    "PrimalDual",
    "Printed",
    "Public",
    "Work",
    "choose_levels",
    "label",
]
