"""Whether a run's folder holds releases that its statement does not have: then it says too little was spent."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fedspd.results.evaluation import read_evaluations
from fedspd.results.inference import read_inference
from fedspd.results.selection import Selection, named_together, read_selection
from fedspd.results.statement import Statement
from fedspd.typing import EVALUATION, INFERENCE, SELECTION


def left_out(folder: Path, statement: Statement, choice: Selection | None = None) -> str:
    """Charged releases in a run's folder that its statement does not have, in words; empty: it has all of them.

    Sites measure once, which is part of their run's plan; their server's statement knows no ledger.

    Args:
        choice: between this run and others; None: the one that the folder keeps, if it does.
    """
    if statement["run"]["kind"] == "sites":
        return ""
    had: Counter[tuple[str, str]] = Counter()
    for one in (statement["budget"] or {"charges": ()})["charges"]:
        had[one["mechanism"], one["run"]] += one["count"]
    run = "" if statement["ledger"] is None else statement["ledger"]["run"]
    counted = ((words, made, had[mechanism, name or run]) for words, mechanism, name, made in _made(folder, choice))
    return " and ".join(f"{made - known} of {made} {words}" for words, made, known in counted if made > known)


def outdated(folder: Path, statement: Statement, choice: Selection | None = None) -> str:
    """What a reader of a statement must know that does not have all releases; empty: it has them."""
    missing = left_out(folder, statement, choice)
    return missing and (
        f"Outdated: this statement leaves out {missing}, which were charged later, so that more was spent than it "
        "says. It has to be made anew with the ledger."
    )


def _made(folder: Path, choice: Selection | None) -> Iterator[tuple[str, str, str, int]]:
    """Kinds of releases in a folder: in words, on a ledger, the run's name there if it is another, and how many."""
    numbers = [one.number for one in read_evaluations(folder) if one.charged]
    yield "measurements", EVALUATION, "", max(numbers, default=0)
    step, choice = read_inference(folder), choice or read_selection(folder)
    if step is not None and step.charged:
        yield "estimates of coefficients", INFERENCE, "", step.number
    if choice is not None:
        yield "choices between runs", SELECTION, named_together(choice.names), choice.number
