"""Bugs that would break a claim, planted one at a time: each raises the alarm of an audit that the truth does not."""

import re
from pathlib import Path

import pytest

from fedspd.audit.freshness import noise_is_fresh
from fedspd.audit.verdict import Contest, audit
from fedspd.privacy.accounting import spent
from tests.support.planted_targets import DELTA, EPSILON, PLANTED, TRUE, contest, method
from tests.test_planted_bugs import CHECKS

RUNS = 4000
PAGE = Path(__file__).parents[2] / "docs" / "audit.md"


def alarmed(*contests: Contest) -> bool:
    return audit(contests, RUNS, seed=1).refuted


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_raises_the_alarm(bug: str) -> None:
    assert alarmed(PLANTED[bug]())


@pytest.mark.parametrize("truth", TRUE)
def test_the_truth_raises_none(truth: str) -> None:
    assert not alarmed(TRUE[truth]())


def test_a_method_that_remembers_noise_draws_it_anew_all_the_same() -> None:
    assert noise_is_fresh(contest(method()).target, seed=5)


def test_the_claims_of_these_tests_are_what_their_plans_cost() -> None:
    for truth in TRUE.values():
        claim = truth().claim
        assert spent(claim.history, DELTA).epsilon == pytest.approx(EPSILON, rel=1e-3)


def test_what_an_audit_cannot_see_is_listed_and_all_else_of_the_suite_is_planted_here() -> None:
    section = PAGE.read_text("utf-8").split("## What an audit catches")[1].split("\n## ")[0]
    listed = re.findall(r"^\| (.+?) \| .+? \| .+? \|$", section, re.MULTILINE)[1:]
    assert sorted(listed) == sorted(set(CHECKS) - set(PLANTED))
    assert f"{len(PLANTED)} in all" in section
    assert len(TRUE) == 14
