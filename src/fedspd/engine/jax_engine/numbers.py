"""An algorithm's numbers, apart from its form.

A compiled program takes the numbers as inputs, so that one program serves every setting of them, and
has the form (which method, which loss, how many local steps) compiled in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from fedspd.algorithms.parts.step_sizes import Schedule

NUMBER = ("number",)
SCHEDULE = ("schedule",)


class Parts(NamedTuple):
    """A form, which can be compared and hashed, and what fills it."""

    form: Any
    numbers: tuple[float, ...]
    schedules: tuple[Schedule, ...]


class FixedStep(NamedTuple):
    """A schedule that knows the γ of the present round only."""

    value: Any

    def inverse_step(self, round: Any) -> Any:
        """The value, which was looked up for this round."""
        return self.value


def take_apart(algorithm: Any) -> Parts:
    """Floating-point fields become numbers, schedules are set apart, everything else is form."""
    numbers: list[float] = []
    schedules: list[Schedule] = []

    def form(value: Any) -> Any:
        if isinstance(value, float):
            numbers.append(value)
            return NUMBER
        if callable(getattr(value, "inverse_step", None)):  # a schedule; a method may have a number of that name
            schedules.append(value)
            return SCHEDULE
        if is_dataclass(value):
            return type(value), tuple((field.name, form(getattr(value, field.name))) for field in fields(value))
        return ("fixed", value)

    return Parts(form(algorithm), tuple(numbers), tuple(schedules))


def put_together(form: Any, numbers: Iterable[Any], inverse_steps: Iterable[Any]) -> Any:
    """The algorithm in a form with these numbers, which may be traced.

    Conditions on numbers were checked when the algorithm was first built; they are not checked again here.
    """
    return _filled(form, iter(numbers), iter(inverse_steps))


def _filled(form: Any, numbers: Iterator[Any], inverse_steps: Iterator[Any]) -> Any:
    if form == NUMBER:
        return next(numbers)
    if form == SCHEDULE:
        return FixedStep(next(inverse_steps))
    kind, content = form
    if kind == "fixed":
        return content
    built = object.__new__(kind)
    for name, part in content:
        object.__setattr__(built, name, _filled(part, numbers, inverse_steps))
    return built
