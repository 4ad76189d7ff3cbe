"""What a statement says in sentences."""

from typing import Any

from fedspd.report.of_runs.terminal import FIXED_DRAWS, diagnostics
from fedspd.results import SITES, Summary
from fedspd.results.counted import counted

TO_SERVER = "the server, which sees each upload; every client is sent the models that follow from all of them"
TO_SUMS = "the server, which sees sums over cohorts only; every client is sent the models that follow from them"
SUM_OF_GRADIENTS = "of each cohort only the sum of its members' clipped gradients; all else follows from these sums"
SUM_OF_STEPS = "of each cohort only the sum of its members' clipped local steps; all else follows from these sums"
CLIPPED = ("gradient of a record", "contribution of a client times gamma")
TUNING = (
    "This run tried out nothing: its settings were given, or follow from public numbers by fixed rules. Earlier trials "
    "on the same records are paid for if they were charged to the same ledger, and not covered otherwise."
)


def unprotected(summary: Summary) -> list[str]:
    """What the guarantee does not cover, most important first."""
    found = [
        "What is true of people in general. A model may say something about somebody who is in no table at all.",
        f"{_counted_openly(summary.unit)}. Noise, divisors and who may take part follow from it.",
        "The schema: names of columns, their bounds and their levels.",
        "When a client answers, how long it takes, and in which rounds it takes part.",
        "The records where they are stored: who may read the disk, the memory and the backups of a client.",
    ]
    if summary.engine == SITES:
        return found
    known = diagnostics(summary)
    if known:
        found.append(f"Diagnostics of the simulation, which carry no noise: {', '.join(known)}.")
    if summary.test_records:
        many = counted(summary.test_records, "record")
        found.append(f"The {many} of the test set, on which models were measured without noise.")
    found.append("Rounding: a simulation draws its noise in floating point. Real sites draw it exactly.")
    return found


def _counted_openly(unit: str) -> str:
    return "How many clients there are" if unit == "client" else f"How many {unit}s each client has"


def evaluation(summary: Summary) -> dict[str, Any]:
    """Whether the model was measured, and who paid."""
    if summary.engine == SITES and summary.score is not None:
        return {"charged": False, "told": "Measured by the server on a test set of its own, which counts as public."}
    if not summary.test_records:
        return {"charged": None, "told": "No model was measured on records in this run."}
    told = (
        f"Measured on {counted(summary.test_records, 'record')} of the test set, without noise and without a charge: "
        "they count as public."
    )
    return {"charged": False, "told": told}


def randomness(summary: Summary) -> dict[str, Any]:
    """Where the noise came from, and what that is worth."""
    if summary.engine == SITES and summary.seed is not None:
        told = f"For tests, {FIXED_DRAWS}."
        return {"source": "seed", "seed": summary.seed, "told": told}
    if summary.engine == SITES:
        told = "Each site draws its noise from its operating system, exactly, and keeps it nowhere."
        return {"source": "operating system", "seed": None, "told": told}
    if summary.seed is None:
        told = "The operating system drew the seed of all noise, and nobody kept it."
        return {"source": "operating system", "seed": None, "told": told}
    told = "A simulation: the noise follows from the seed, so whoever has the settings can subtract it."
    return {"source": "seed", "seed": summary.seed, "told": told}
