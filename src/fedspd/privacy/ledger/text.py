"""Events and terms as the canonical JSON text that the ledger stores."""

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from fedspd.privacy.accounting import Event, from_dict, to_dict
from fedspd.privacy.ledger.terms import Budget, BudgetTerms


@lru_cache(maxsize=1 << 16)
def event_text(event: Event) -> str:
    """The text of an event; `event_of` is its inverse."""
    return _canonical(to_dict(event))


@lru_cache(maxsize=1 << 16)
def event_of(text: str) -> Event:
    """The event that `event_text` wrote."""
    return from_dict(json.loads(text))


@lru_cache(maxsize=1 << 12)
def terms_text(terms: BudgetTerms) -> str:
    """The text of terms; `terms_of` is its inverse."""
    plan = [[to_dict(event), count] for event, count in terms.plan]
    budget = {name: value for name, value in asdict(terms.budget).items() if value is not None}
    if budget["unit"] == "record":  # what ledgers have always meant
        del budget["unit"]
    return _canonical({"budget": budget, "plan": plan, "planned_delta": terms.planned_delta})


@lru_cache(maxsize=1 << 12)
def terms_of(text: str) -> BudgetTerms:
    """The terms that `terms_text` wrote."""
    values = json.loads(text)
    plan = tuple((from_dict(event), count) for event, count in values["plan"])
    return BudgetTerms(Budget(**values["budget"]), plan, values["planned_delta"])


def _canonical(values: Any) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
