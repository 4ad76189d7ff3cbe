"""What lies beside a statement and came after it: an audit, measurements, charges of the run's own ledger."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedspd.privacy.ledger import Ledger
from fedspd.report.numbers import at_most
from fedspd.results import STATEMENT, Statement, own_file, read_statement, read_summary, write_statement
from fedspd.results.audit import read_audit
from fedspd.results.counted import counted, times
from fedspd.results.evaluation import Evaluation, read_evaluations
from fedspd.results.inference import Inference, read_inference
from fedspd.results.statement import is_signed
from fedspd.statement.budget import with_ledger
from fedspd.statement.words import evaluation

OWN_LEDGER = "ledger.sqlite"


def with_beside(statement: Statement, folder: Path, ledger: Ledger | None = None) -> dict[str, Any]:
    """The statement brought up to date with the other files of its folder.

    Args:
        ledger: that was charged; None: the one in the folder, if there is one.
    """
    found = dict(statement)
    own = own_file(folder, OWN_LEDGER)
    if statement["ledger"] is not None and (ledger is not None or own.is_file()):
        with Ledger(own) if ledger is None else nullcontext(ledger) as opened:
            found = with_ledger(found, opened, statement["ledger"]["run"])
    audit, measured, step = read_audit(folder), read_evaluations(folder), read_inference(folder)
    if audit is not None:
        found["audit"] = {name: value for name, value in asdict(audit).items() if not isinstance(value, dict | tuple)}
    if measured or step is not None:
        free = evaluation(read_summary(folder))
        told = [
            *_measured(statement, measured),
            *_estimated(step),
            *([free["told"]] if free["charged"] is False else []),
        ]
        charged = all(one.charged for one in (*measured, *([] if step is None else [step])))
        found["evaluation"] = {"charged": charged, "told": " ".join(told)}
    return found


def file_anew(folder: Path, ledger: Ledger) -> None:
    """Write a run's statement anew after a charge, with the ledger that was charged.

    One that is signed stays as it is: `results.outdated` tells its readers.
    """
    if own_file(folder, STATEMENT).is_file() and not is_signed(folder):
        write_statement(folder, with_beside(read_statement(folder), folder, ledger))


def _measured(statement: Statement, releases: Sequence[Evaluation]) -> Iterator[str]:
    if not releases:
        return
    whose = "each site's ledger, within the run's epsilon" if statement["run"]["kind"] == "sites" else "the ledger"
    paid = f"charged to {whose}" if all(one.charged for one in releases) else "not all of them charged to a ledger"
    shown = [at_most(one.epsilon) for one in releases]
    costs = f"{shown[0]} each" if len(shown) > 1 and len({*shown}) == 1 else ", ".join(shown)
    yield (
        f"Measured {times(len(releases))} on {counted(releases[-1].records, f'held-out {releases[-1].unit}')}, by "
        f"counts with noise: epsilon {costs}, {paid}."
    )


def _estimated(step: Inference | None) -> Iterator[str]:
    if step is not None:
        paid = "charged to the ledger" if step.charged else "not charged to a ledger"
        yield (
            f"Coefficients were estimated {times(step.number)} from {counted(step.records, f'held-out {step.unit}')}, "
            f"by sums with noise: epsilon {at_most(step.epsilon)}{' each' if step.number > 1 else ''}, {paid}."
        )
