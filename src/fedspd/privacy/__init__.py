"""Noise, the paper's formulas, and plans. This room knows no data, no loss and no rounds.

`mechanism` in a simulation and `exact` at a real client are the only sources of noise and the only ways from a `Query`
to a `Release`; `engine.release` alone may call them. `rounding` bounds what float64 adds to a sensitivity. `paper`
holds the paper's formulas as printed; a `Plan` ties noise, sampling and cost together.
"""

from fedspd.privacy.paper import PaperFormulas
from fedspd.privacy.plans.base import (
    POISSON,
    WHOLE_SHARD,
    WITH_REPLACEMENT,
    WITHOUT_REPLACEMENT,
    Plan,
)
from fedspd.privacy.plans.proved import ProvedPlan, plan_proved
from fedspd.privacy.plans.published import PublishedPlan, plan_as_published
from fedspd.privacy.plans.sampling import RecordSampling
from fedspd.privacy.rounding import GradientSum, gradient_rounding, steps_rounding, sum_rounding
from fedspd.privacy.shared_noise import SharedNoise

__all__ = [
    "POISSON",
    "WHOLE_SHARD",
    "WITHOUT_REPLACEMENT",
    "WITH_REPLACEMENT",
    "GradientSum",
    "PaperFormulas",
    "Plan",
    "ProvedPlan",
    "PublishedPlan",
    "RecordSampling",
    "SharedNoise",
    "gradient_rounding",
    "plan_as_published",
    "plan_proved",
    "steps_rounding",
    "sum_rounding",
]
