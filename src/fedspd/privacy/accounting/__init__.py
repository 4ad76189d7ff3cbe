"""Accountants: from what clients took part in to an (epsilon, delta) that is a theorem.

An event says what one participation costs, `spent` composes a history of them, `calibrate` goes from a
budget to a noise multiplier. Theorems, proofs and roundings: docs/accounting.md.
"""

from fedspd.privacy.accounting.adaptive import fits_adaptively
from fedspd.privacy.accounting.calibration import calibrate, participations_that_fit
from fedspd.privacy.accounting.events import (
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Relation,
    SharedFixedSize,
    SharedGaussian,
    SharedPoisson,
    alone,
    from_dict,
    shared,
    to_dict,
)
from fedspd.privacy.accounting.history import Accountant, History
from fedspd.privacy.accounting.minimizers import Minimizer
from fedspd.privacy.accounting.spending import Bound, delta_at, spent

__all__ = [
    "Accountant",
    "Bound",
    "Event",
    "FixedSize",
    "Gaussian",
    "History",
    "Laplace",
    "Minimizer",
    "Poisson",
    "Relation",
    "SharedFixedSize",
    "SharedGaussian",
    "SharedPoisson",
    "alone",
    "calibrate",
    "delta_at",
    "fits_adaptively",
    "from_dict",
    "participations_that_fit",
    "shared",
    "spent",
    "to_dict",
]
