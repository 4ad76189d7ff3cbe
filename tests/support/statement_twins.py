"""Broken twins of what files a statement, and the check that finds them: the ledger and a second accountant."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedspd.assemble import execute, prepare_experiment
from fedspd.privacy.accounting import Gaussian
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.statement import against, claimed, with_ledger
from fedspd.typing import EVALUATION
from tests.support.small_runs import small_run

Filed = Callable[[Any, Ledger, str], Any]


def ledger_contradicts(filed: Filed) -> bool:
    """Whether a statement that was made anew after a second measurement differs from its ledger."""
    with TemporaryDirectory() as folder:
        create_ledger(path := Path(folder) / "ledger.db")
        with Ledger(path) as ledger:
            prepared = prepare_experiment(small_run("dp-sgd", run__seed=3), lambda: ledger, ledger_epsilon=3.0)
            finished, gate = execute(prepared), prepared.gate
            assert gate is not None
            made = claimed(finished.record(), finished.planned, finished.model())
            for number in (1, 2):
                assert ledger.charge(
                    gate.run, number, EVALUATION, dict.fromkeys(ledger.accounts, Gaussian(8.0))
                ).granted
                made = with_ledger(made, ledger, gate.run) if number == 1 else filed(made, ledger, gate.run)
            return bool(against(made, ledger).differences)


def as_it_was(statement: Any, ledger: Ledger, run: str) -> Any:
    """The statement of the first measurement, which nobody wrote anew."""
    return statement


def with_the_old_claim(statement: Any, ledger: Ledger, run: str) -> Any:
    """The life of the budget goes on, the claim does not."""
    return {**with_ledger(statement, ledger, run), "guarantee": statement["guarantee"]}


CHECKS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    "a second measurement is left out of the claim": (
        lambda: ledger_contradicts(with_ledger),
        lambda: ledger_contradicts(with_the_old_claim),
    ),
    "a statement is not made anew after a second measurement": (
        lambda: ledger_contradicts(with_ledger),
        lambda: ledger_contradicts(as_it_was),
    ),
}
