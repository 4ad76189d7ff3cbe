"""Federated learning with scikit-learn's conventions: a fit is a run, charged and stated like any other.

Bounds are declared and never read from records, every record has a client, and what would fit more than once needs a
ledger.
"""

from fedspd.estimators.classifier import FedSPDClassifier
from fedspd.estimators.regressor import FedSPDRegressor
from fedspd.estimators.statement import Privacy

__all__ = ["FedSPDClassifier", "FedSPDRegressor", "Privacy"]
