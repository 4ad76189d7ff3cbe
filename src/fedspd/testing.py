"""A conformance kit for mechanisms of anybody: does a declared privacy statement survive an attack?

    def test_my_mechanism_keeps_its_promise():
        assert_statement_holds(my_mechanism, Statement(epsilon=1.0, delta=1e-5), records)

A mechanism is a function `(records, rng)` that returns what is released. The attack can refute a statement and never
prove one (`docs/audit.md`).
"""

from typing import Any

from fedspd.audit.bounds import CONFIDENCE, Lower
from fedspd.audit.mechanism import Mechanism, Statement, distinguish, moved, worst_neighbor
from fedspd.errors import InputError
from fedspd.reading import shown

__all__ = ["Lower", "Statement", "assert_statement_holds", "audit_mechanism"]

ENOUGH = 1 + 1e-9
FEWEST = 1000


def audit_mechanism(
    mechanism: Mechanism, statement: Statement, records: Any, neighbor: Any = None, runs: int = 20_000, seed: int = 0
) -> Lower:
    """What the game proves that a mechanism leaks.

    Args:
        mechanism: from records and a generator to what is released; noise of its own making is fine too.
        statement: what it declares.
        records: a data set on which to attack it, best with records at both ends of what is allowed.
        neighbor: the other data set; None: the one in which the most conspicuous record differs, of numbers or rows.
        runs: on each of both.
        seed: of the generators that the mechanism is handed.
    """
    _check(mechanism, statement)
    if runs < FEWEST:
        raise InputError(f"runs must be at least {FEWEST}, got {runs}; with fewer nothing can be shown.")
    worlds = (records, neighbor) if neighbor is not None else worst_neighbor(records, statement.neighbors)
    return distinguish(mechanism, worlds, statement.claim, runs, seed)


def assert_statement_holds(
    mechanism: Mechanism, statement: Statement, records: Any, neighbor: Any = None, runs: int = 20_000, seed: int = 0
) -> Lower:
    """Fail where a statement is refuted: a true one fails with a chance of at most 0.1 %. Arguments as above.

    Raises:
        AssertionError: more is leaked than declared, or a record moves more than the declared sensitivity.
    """
    _check(mechanism, statement)
    if statement.sensitivity is not None:
        worlds = (records, neighbor) if neighbor is not None else worst_neighbor(records, statement.neighbors)
        far = moved(mechanism, worlds, seed)
        assert far <= statement.sensitivity * ENOUGH, (
            f"under the same draws neighbors are {far:g} apart, which is more than the declared sensitivity "
            f"{statement.sensitivity:g}"
        )
    lower, claim = audit_mechanism(mechanism, statement, records, neighbor, runs, seed), statement.claim
    assert lower.epsilon <= claim.epsilon, (
        f"declared is an epsilon of at most {claim.epsilon:g} at delta {claim.delta:g}, but it is at least "
        f"{lower.epsilon:g}, with {100 * CONFIDENCE:g} % confidence from {runs} runs on each of two neighbors"
    )
    return lower


def _check(mechanism: Any, statement: Any) -> None:
    """Refuse what is no mechanism with its statement."""
    if not callable(mechanism) or not isinstance(statement, Statement):
        raise InputError(
            f"expected a function of records and a generator, and a Statement, got {shown(mechanism)} and "
            f"{shown(statement)}; pass them in this order."
        )
