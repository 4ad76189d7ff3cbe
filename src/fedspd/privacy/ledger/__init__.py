"""A durable ledger of what each client has spent: written before a release, recomposed before the next.

`Ledger.charge` decides and commits in one transaction; whoever releases does so for the granted clients only,
and only after it returned. A budget holds across runs, processes and crashes. `terms` says which rule covers
what: a plan declared beforehand is composed, everything else goes through a privacy filter.
"""

from fedspd.privacy.ledger.accounts import Charged, Decision, Refusal
from fedspd.privacy.ledger.ledger import Ledger
from fedspd.privacy.ledger.report import Statement, Verified, describe, show, verify
from fedspd.privacy.ledger.terms import Budget, Rule, Terms, agree

__all__ = [
    "Budget",
    "Charged",
    "Decision",
    "Ledger",
    "Refusal",
    "Rule",
    "Statement",
    "Terms",
    "Verified",
    "agree",
    "describe",
    "show",
    "verify",
]
