"""Who calls a fit: a pipeline whose earlier steps have seen the records, or something that fits more than once."""

import inspect
from collections.abc import Iterator
from math import inf
from types import FrameType
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from fedspd.errors import InputError

ONCE = ("sklearn.pipeline", "sklearn.base", "sklearn.utils")
"""Modules of scikit-learn that pass a fit on as it is."""
WAYS = ("private", "public")


def check_pipeline(preprocessing: str) -> None:
    """Refuse steps before this one that learn from the records, unless somebody vouches for them."""
    if preprocessing not in WAYS:
        raise InputError(f"preprocessing must be one of {', '.join(WAYS)}, got {preprocessing!r}; pick one.")
    if preprocessing == "public":
        return
    for frame in _frames():
        pipeline = frame.f_locals.get("self") if _module(frame).endswith("pipeline") else None
        steps = pipeline.steps[:-1] if isinstance(pipeline, Pipeline) else []
        for name, step in steps:
            if _learns(step):
                raise InputError(
                    f"steps before a private one must not learn from the records, which would not be charged, got "
                    f"{name!r} ({type(step).__name__}); drop it and declare bounds in its place, since features are "
                    'scaled here, or say preprocessing="public" if what it learned is public.'
                )


def check_repetition(ledger: Any, epsilon: float) -> None:
    """Refuse to be fitted by what may fit many times, such as a search, where nobody adds up what it costs."""
    if ledger is not None or epsilon == inf:
        return
    for frame in _frames():
        module = _module(frame)
        if module.startswith("sklearn.") and not module.startswith(ONCE):
            raise InputError(
                f"every fit costs privacy, expected a ledger that adds them up inside {module}, got none; make one "
                "with `fedspd ledger create budget.sqlite` and pass ledger='budget.sqlite' with ledger_epsilon, the "
                "total that a client may spend on all fits."
            )


def _learns(step: Any) -> bool:
    return step not in (None, "passthrough") and get_tags(step).requires_fit


def _frames() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
