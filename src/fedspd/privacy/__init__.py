"""Noise, the paper's formulas, and plans. This room knows no data, no loss and no rounds.

`mechanism.gaussian` is the only source of noise in the program; `published` holds the paper's
formulas as printed; a `Plan` ties noise, sampling and cost together.
"""

from fedspd.privacy.mechanism import gaussian
from fedspd.privacy.plan import (
    POISSON,
    WHOLE_SHARD,
    WITH_REPLACEMENT,
    WITHOUT_REPLACEMENT,
    Plan,
    PublishedPlan,
    plan_as_published,
)
from fedspd.privacy.proved import ProvedPlan, Sampling, plan_proved
from fedspd.privacy.published import Published

__all__ = [
    "POISSON",
    "WHOLE_SHARD",
    "WITHOUT_REPLACEMENT",
    "WITH_REPLACEMENT",
    "Plan",
    "ProvedPlan",
    "Published",
    "PublishedPlan",
    "Sampling",
    "gaussian",
    "plan_as_published",
    "plan_proved",
]
