r"""How good several models are on the same held-out records: one score each, between 0 and 1 for every record.

Classes: 1 where the prediction is right. A number or a count: 1 less the absolute residual over the target's range.

Released: the sums of all $k$ scores with Gaussian noise; the best of them is post-processing. Claimed: proved. A
record, or person, moves each sum by at most 1, so all of them by at most $\sqrt k$, attained where all models are right
about one record and wrong about the other (`docs/proofs/evaluation.md`).
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedspd.data import Table
from fedspd.data.holding.held_out import STEPS
from fedspd.evaluate.counting import residuals
from fedspd.scoring.model import Model
from fedspd.target import Classes
from fedspd.typing import Query


def scores_of(model: Model, table: Table) -> NDArray[np.float64]:
    """Of every record, from 0 to 1."""
    scores = model.scores(table.features)
    if isinstance(model.target, Classes):
        return (np.asarray(model.loss.predict(scores)).astype(int) == table.labels).astype(float)
    return 1.0 - np.abs(residuals(model, scores, table.labels))


def score_query(
    scores: NDArray[np.float64], weights: NDArray[np.float64], owners: NDArray[np.int64], clients: int
) -> Query:
    """Sums of each client, a row for each and a column for each model, in steps that are summed exactly.

    Args:
        scores: of records (rows) by models (columns).
        weights: of records: those of a person add up to one at most.
        owners: the client of each.
        clients: how many there are.
    """
    sums = np.zeros((clients, scores.shape[1]))
    np.add.at(sums, owners, np.floor(weights[:, None] * np.clip(scores, 0.0, 1.0) * STEPS) / STEPS)
    return Query(sums, np.zeros(clients))


def score_sensitivity(models: int) -> float:
    """L2 bound of one client's sums, for replaced and for zeroed-out neighbors."""
    return sqrt(models)
