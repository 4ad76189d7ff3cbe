"""Coefficients with intervals, as a run's folder keeps them: charged once, read again for free."""

from dataclasses import asdict, dataclass
from pathlib import Path

from fedspd.errors import InputError
from fedspd.results.evaluation import Measure
from fedspd.results.files import own_file, to_json, write_whole
from fedspd.results.typed_json import made, read_json

INFERENCE = "inference.json"


@dataclass(frozen=True)
class Inference:
    """Noised Newton steps for one charge: estimates in original units, or why there are none."""

    number: int  # 1 is the first charge of the run, and so on
    kind: str  # "classes": logarithms of odds of the second class; "number": in the target's units
    columns: tuple[str, ...]  # of a regression of its own; none: all of the model's
    regression: str  # the same in words
    coefficients: tuple[Measure, ...]  # none where something is in doubt
    odds_ratios: tuple[Measure, ...]  # of classes; none of a number
    doubt: str | None  # why no interval would be honest
    start: tuple[float, ...]  # where the next step would begin
    steps: int  # that shared the charge
    records: int
    sensitivity: float
    noise_multiplier: float  # of all steps together
    epsilon: float  # of this release alone
    delta: float
    charged: bool
    unit: str = "record"


def write_inference(folder: Path, inference: Inference) -> None:
    """Put the latest steps on these columns into the run's folder, in the place of earlier ones."""
    others = [one for one in read_inferences(folder) if one.columns != inference.columns]
    content = [asdict(one) for one in (*others, inference)]
    write_whole(folder / INFERENCE, (to_json(content) + "\n").encode(), durable=True)


def read_inference(folder: Path, columns: tuple[str, ...] | None = None) -> Inference | None:
    """The latest steps of a run, None where there were none.

    Args:
        folder: of the run.
        columns: that were asked for; None: any.
    """
    found = [one for one in read_inferences(folder) if columns in (None, one.columns)]
    return found[-1] if found else None


def read_inferences(folder: Path) -> tuple[Inference, ...]:
    """The latest steps on each choice of columns, the last ones at the end."""
    path = own_file(folder, INFERENCE)
    if not path.exists():
        return ()
    try:
        found = read_json(path)
        if not isinstance(found, list):
            raise ValueError(f"expected a list, got {type(found).__name__}")
        return tuple(made(Inference, one) for one in found)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} must be as this version of fedspd infer writes it, got something else ({error}); put it back."
        ) from error
