"""The privacy statement of a run: what it claims, what the claim rests on, what it does not cover, what it means.

`claimed` makes it from what a run left, `with_ledger` adds the life of the budget. It lies in the run's folder
(`results.statement`) and is shown by `report`.
"""

from fedspd.statement.against import against
from fedspd.statement.beside import file_anew, with_beside
from fedspd.statement.budget import with_ledger
from fedspd.statement.card import card_of
from fedspd.statement.claim import claimed
from fedspd.statement.comparison import Comparison
from fedspd.statement.declared import with_declared
from fedspd.statement.kept import kept
from fedspd.statement.registry import registry_text

__all__ = [
    "Comparison",
    "against",
    "card_of",
    "claimed",
    "file_anew",
    "kept",
    "registry_text",
    "with_beside",
    "with_declared",
    "with_ledger",
]
