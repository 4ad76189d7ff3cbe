"""A durable ledger of what each client has spent: written before a release, recomposed before the next.

`Ledger.charge` decides and commits in one transaction; whoever releases does so for the granted clients only,
and only after it returned. A budget holds across runs, processes and crashes. `terms` says which rule covers
what: a plan declared beforehand is composed, everything else goes through a privacy filter. `create_ledger` makes the
file, once; a `Mark` kept elsewhere finds one that was lost and begun anew, or put back from an old copy.
"""

from fedspd.privacy.ledger.accounts import Charge, Charged, Decision, Refusal
from fedspd.privacy.ledger.copies import SecondPlace
from fedspd.privacy.ledger.file import create_ledger
from fedspd.privacy.ledger.ledger import Ledger
from fedspd.privacy.ledger.mark import Mark, mark_of, read_mark, require_mark, write_mark
from fedspd.privacy.ledger.report import Statement, Verified, describe, show, verify
from fedspd.privacy.ledger.terms import Budget, BudgetTerms, Rule, agree

__all__ = [
    "Budget",
    "BudgetTerms",
    "Charge",
    "Charged",
    "Decision",
    "Ledger",
    "Mark",
    "Refusal",
    "Rule",
    "SecondPlace",
    "Statement",
    "Verified",
    "agree",
    "create_ledger",
    "describe",
    "mark_of",
    "read_mark",
    "require_mark",
    "show",
    "verify",
    "write_mark",
]
