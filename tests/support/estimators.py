"""Records that two features decide, and estimators for them."""

from typing import Any

import numpy as np
import pandas as pd

from fedspd import FedSPDClassifier, FedSPDRegressor

RECORDS = 400
FAST = {"run.rounds": 20, "algorithm.step_scale": 0.3}


def records(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table of numbers, truth values and levels, labels, and the clients by name."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.uniform(20, 80, RECORDS), "dose": rng.uniform(0, 1, RECORDS)})
    table["smoker"] = rng.random(RECORDS) < 0.5
    table["blood"] = pd.Categorical(rng.choice(["A", "B", "O"], RECORDS), categories=["A", "B", "AB", "O"])
    labels = np.where((table["age"] - 50) / 30 + 2 * table["dose"] - 1 > 0, "ill", "well")
    return table, labels, np.array(["north", "south", "east", "west"])[rng.integers(0, 4, RECORDS)]


BOUNDS = {"age": (20, 80), "dose": (0, 1)}


def classifier(**changes: Any) -> FedSPDClassifier:
    """One that is fast and repeatable."""
    return FedSPDClassifier(
        **{"epsilon": 20.0, "delta": 1e-5, "bounds": BOUNDS, "random_state": 0, "settings": FAST, **changes}
    )


def regressor(**changes: Any) -> FedSPDRegressor:
    """One that is repeatable."""
    return FedSPDRegressor(**{"epsilon": 20.0, "delta": 1e-5, "bounds": BOUNDS, "random_state": 0, **changes})
