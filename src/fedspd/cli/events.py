"""Options of the command line that describe how a client draws and perturbs, and the event they make."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.privacy.accounting import Event


class SamplingKind(StrEnum):
    """How a client draws its records."""

    without_replacement = "without-replacement"
    poisson = "poisson"
    whole_shard = "whole-shard"


SamplingOption = Annotated[
    SamplingKind, typer.Option(help="a subset without replacement, Poisson, or all records in every round")
]
Records = Annotated[int | None, typer.Option(min=1, help="records of the client")]
Drawn = Annotated[int | None, typer.Option(min=1, help="records it draws per round; on average for poisson")]
Rate = Annotated[float | None, typer.Option(help="chance of a record to join, for poisson; default: drawn / records")]
LocalSteps = Annotated[int, typer.Option(min=1, help="Q, the number of batches the drawn records are split into")]
Contraction = Annotated[
    float,
    typer.Option(
        help="gamma / (gamma + rho) with Q > 1; valid for fedspd alone, which releases the average of its local steps; "
        "every other method has 0, which is always safe",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
MaxBatch = Annotated[int | None, typer.Option(min=1, help="largest batch the step size allows, for poisson with Q > 1")]


def event_of(
    sampling: SamplingKind,
    records: int | None,
    drawn: int | None,
    rate: float | None,
    local_steps: int,
    contraction: float,
    max_batch: int | None,
    noise_multiplier: float,
) -> "Event":
    """The event that the options describe."""
    from fedspd.privacy.accounting import FixedSize, Gaussian, Poisson

    _refuse_unused(
        sampling, rate=rate, max_batch=max_batch, records=records, drawn=drawn,
        local_steps=local_steps if local_steps != 1 else None, contraction=contraction or None,
    )  # fmt: skip
    if contraction and local_steps == 1:
        raise InputError(f"expected no --contraction with one local step, got {contraction:g}; leave it out.")
    _refuse_contradiction(rate, records, drawn)
    if sampling is SamplingKind.whole_shard:
        return Gaussian(noise_multiplier)
    if sampling is SamplingKind.poisson and local_steps == 1 and rate is not None:
        return Poisson(noise_multiplier, rate)
    if records is None or drawn is None:
        given = [f"--{name}" for name, value in (("records", records), ("drawn", drawn)) if value is not None]
        raise InputError(
            "expected --records and --drawn (or --rate, for poisson with one local step), "
            f"got {' '.join(given) or 'neither'}; add what is missing."
        )
    if sampling is SamplingKind.without_replacement:
        return FixedSize(noise_multiplier, records, drawn, local_steps, contraction)
    rate = drawn / records if rate is None else rate
    if local_steps == 1:
        return Poisson(noise_multiplier, rate)
    if drawn % local_steps:
        raise InputError(f"--drawn must be a multiple of --local-steps {local_steps}, got {drawn}; change either.")
    return Poisson(noise_multiplier, rate, local_steps, contraction, records, drawn // local_steps, max_batch)


def _refuse_contradiction(rate: float | None, records: int | None, drawn: int | None) -> None:
    """A rate that is not drawn / records would account for another run than the one that is described."""
    if rate is None or records is None or drawn is None:
        return
    if abs(rate - drawn / records) > 1e-9 * rate:
        raise InputError(
            f"expected --rate to be --drawn / --records = {drawn / records:g}, got {rate:g}; leave one of them out."
        )


def _refuse_unused(sampling: SamplingKind, **options: float | None) -> None:
    """Refuse options that mean nothing here, rather than ignore what the user asked for."""
    meaningful = {
        SamplingKind.without_replacement: {"local_steps", "records", "drawn", "contraction"},
        SamplingKind.poisson: {"rate", "max_batch", "local_steps", "records", "drawn", "contraction"},
        SamplingKind.whole_shard: set[str](),
    }
    for name, value in options.items():
        if value is not None and name not in meaningful[sampling]:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"expected no {flag} with --sampling {sampling}, got {value}; leave it out.")
