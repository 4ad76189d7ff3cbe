"""Flower: what its LocalDpMod does to a client's parameters, clip the update and add noise."""
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.supercore.differential_privacy import add_localdp_gaussian_noise_to_params, compute_clip_model_update
from releases import Case, write

DELTA, CLIP = 1e-5, 1.0
UPDATES = np.array([5.0, 0.0]), np.array([-5.0, 0.0])  # before they are clipped
np.random.seed(0)  # noqa: NPY002, it draws from the global generator


def noised(epsilon: float, sensitivity: float) -> Any:
    """A client's parameters as they leave it."""

    def release(world: int) -> np.ndarray:
        told, trained = [np.zeros(2)], [UPDATES[world].copy()]
        compute_clip_model_update(trained, told, CLIP)
        parameters = add_localdp_gaussian_noise_to_params(ndarrays_to_parameters(trained), sensitivity, epsilon, DELTA)
        return parameters_to_ndarrays(parameters)[0]

    return release


write(
    "flwr",
    [
        Case(name, {"gaussian": epsilon, "delta": DELTA}, noised(epsilon, sensitivity))
        for name, epsilon, sensitivity in [
            ("local DP, sensitivity twice the clipping norm", 1.0, 2 * CLIP),
            ("the same at epsilon 10", 10.0, 2 * CLIP),
            ("local DP, sensitivity set to the clipping norm", 1.0, CLIP),
        ]
    ],
)
