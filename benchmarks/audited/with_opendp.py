"""OpenDP: two measurements on a sum of numbers from 0 to 1."""
# pyright: basic, reportMissingImports=false

from typing import Any

import numpy as np
import opendp.prelude
from releases import Case, write

dp: Any = opendp.prelude  # whose names its types do not export
NUMBERS = np.linspace(0.0, 1.0, 10), np.append(0.0, np.linspace(0.0, 1.0, 10)[:-1])  # 1 is replaced by 0
dp.enable_features("contrib")
space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
laplace, gaussian = dp.m.make_laplace(*space, scale=1.0), dp.m.make_gaussian(*space, scale=2.0)

write(
    "opendp",
    [
        Case("Laplace noise on a sum", {"epsilon": 1.0}, lambda world: laplace(float(np.sum(NUMBERS[world])))),
        Case(
            "Gaussian noise on a sum",
            {"mu": 0.5, "delta": 1e-5},
            lambda world: gaussian(float(np.sum(NUMBERS[world]))),
        ),
    ],
)
