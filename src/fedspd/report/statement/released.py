"""What a statement says was released after training, by the charges of its ledger."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fedspd.results import Statement
from fedspd.typing import EVALUATION, INFERENCE, SELECTION

WORDS = {
    EVALUATION: "counts of held-out {unit}s",
    INFERENCE: "sums over held-out {unit}s, for coefficients",
    SELECTION: "scores of several models on held-out {unit}s, to choose one",
}


class Afterwards(NamedTuple):
    """Releases of one kind, all with noise, each by every client."""

    what: str
    number: int
    apart: bool  # charged to a choice between runs, and no part of this run's epsilon


def released_afterwards(statement: Statement) -> Iterator[Afterwards]:
    """Kinds of releases that came after the rounds; none of those that were not made."""
    for mechanism, words in WORDS.items():
        number = _number(statement, mechanism)
        if number:
            what = words.format(unit=statement["guarantee"]["unit"])
            yield Afterwards(what, number, mechanism == SELECTION)


def _number(statement: Statement, mechanism: str) -> int:
    budget, ledger = statement["budget"], statement["ledger"]
    if budget is None or ledger is None:
        # the server of a run between sites has no ledger; sites release counts once, within their plan
        sites = statement["run"]["kind"] == "sites"
        return int(sites and mechanism == EVALUATION and statement["evaluation"]["charged"] is True)
    charges = (one for one in budget["charges"] if one["mechanism"] == mechanism)
    return sum(one["count"] for one in charges if _is_of(one, ledger["run"]))


def _is_of(charge: Any, run: str) -> bool:
    """A choice is charged under the names of all runs that it is made between."""
    return charge["run"] == run or (charge["mechanism"] == SELECTION and run in charge["run"].split(" "))
