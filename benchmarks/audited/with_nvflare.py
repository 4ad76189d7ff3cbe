"""NVFlare: its two filters of weights. One counts an epsilon of its own; the other declares none."""
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy
from nvflare.app_common.filters.svt_privacy import SVTPrivacy
from releases import Case, write

GAMMA = 0.01  # beyond which both filters clip
ONE = np.array([GAMMA]), np.array([-GAMMA])
HALVES = np.repeat([GAMMA, 0.0], 5), np.repeat([0.0, GAMMA], 5)
np.random.seed(0)  # noqa: NPY002, it draws from the global generator
svt = SVTPrivacy(fraction=1.0, epsilon=0.5, noise_var=0.5, gamma=GAMMA, tau=0.0)
sparse = SVTPrivacy(fraction=0.2, epsilon=2.0, epsilon_release=2.0, gamma=GAMMA, tau=GAMMA)
percentile = PercentilePrivacy(percentile=10, gamma=GAMMA)


def filtered(by: Any, weights: tuple[np.ndarray, np.ndarray], world: int) -> np.ndarray:
    """A client's difference of weights, as it leaves the site."""
    told = DXO(DataKind.WEIGHT_DIFF, {"layer": weights[world].copy()})
    return by.process_dxo(told, Shareable(), FLContext()).data["layer"]


def spent(by: SVTPrivacy) -> float:
    """What the filter itself counts for one call."""
    filtered(by, ONE if by is svt else HALVES, 0)
    return by.get_privacy_ledger()[-1]["epsilon_total"]


write(
    "nvflare",
    [
        Case("`SVTPrivacy` on one weight", {"epsilon": spent(svt)}, lambda world: filtered(svt, ONE, world)),
        Case(
            "`SVTPrivacy`, 2 of 10 weights", {"epsilon": spent(sparse)}, lambda world: filtered(sparse, HALVES, world)
        ),
        Case("`PercentilePrivacy`", {}, lambda world: filtered(percentile, ONE, world)),
    ],
)
