"""No fit is free: pipelines that learn from records, searches, and the ledger that adds them up."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sklearn
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from fedspd import InputError
from fedspd.data import Numeric, Schema
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.target import Classes
from tests.support.estimators import classifier, records

TABLE, LABELS, CLIENTS = records()
NUMBERS = TABLE[["age", "dose"]]
RAISE: Any = "raise"  # scikit-learn declares a number alone
FOUR = {f"{name}@own groups" for name in ("north", "south", "east", "west")}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    create_ledger(path := tmp_path / "budget.sqlite")
    return path


@pytest.fixture
def routing() -> Iterator[None]:
    """Groups reach `fit` through searches."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def runs_on(path: Path) -> list[str]:
    """The runs that were charged, each once."""
    with Ledger(path) as ledger:
        assert set(ledger.accounts) == FOUR
        return [*dict.fromkeys(charged.run for charged in ledger.charges())]


def test_steps_that_learn_from_records_are_refused() -> None:
    learning = make_pipeline(StandardScaler(), classifier(bounds="clip", clients=4))
    with pytest.raises(InputError, match=r"not be charged, got 'standardscaler' \(StandardScaler\); drop it"):
        learning.fit(NUMBERS, LABELS)
    nested = make_pipeline(StandardScaler(), make_pipeline(classifier(bounds="clip", clients=4)))
    with pytest.raises(InputError, match="got 'standardscaler'"):
        nested.fit(NUMBERS, LABELS)


def test_steps_that_learn_nothing_are_fine_and_so_are_public_ones() -> None:
    harmless = make_pipeline(
        FunctionTransformer(), "passthrough", None, Normalizer(), classifier(bounds="clip", clients=4)
    )
    assert harmless.fit(NUMBERS, LABELS).predict(NUMBERS).shape == (400,)
    public = make_pipeline(StandardScaler(), classifier(bounds="clip", clients=4, preprocessing="public"))
    assert public.fit(NUMBERS, LABELS).score(NUMBERS, LABELS) > 0.8
    assert "what steps before this one learned" in str(public.named_steps["fedspdclassifier"].privacy_)
    with pytest.raises(InputError, match="preprocessing must be one of private, public, got 'none'"):
        classifier(preprocessing="none", clients=4).fit(NUMBERS, LABELS)


def test_a_search_without_a_ledger_is_refused() -> None:
    one = classifier(clients=4)
    words = r"expected a ledger that adds them up inside sklearn\.\w+.*, got none; make one with `fedspd ledger create"
    with pytest.raises(InputError, match=words):
        GridSearchCV(one, {"settings": [None]}, error_score=RAISE).fit(NUMBERS, LABELS)
    with pytest.raises(InputError, match=words):
        cross_val_score(one, NUMBERS, LABELS, error_score=RAISE)
    with pytest.raises(InputError, match=words):
        BaggingClassifier(one, n_estimators=2).fit(NUMBERS, LABELS)
    with pytest.raises(InputError, match=words):
        GridSearchCV(make_pipeline(one), {}, error_score=RAISE).fit(NUMBERS, LABELS)


def test_without_privacy_there_is_nothing_to_charge() -> None:
    step = {"algorithm.inverse_step": 0.5}
    free = classifier(method="fedavg", epsilon=float("inf"), clients=4, settings=step)
    assert cross_val_score(free, NUMBERS, LABELS, cv=2).shape == (2,)


def test_a_fit_is_charged_once_to_every_client_by_name(ledger: Path) -> None:
    one = classifier(ledger=ledger).fit(NUMBERS, LABELS, groups=CLIENTS)
    assert one.n_iter_ == 20
    assert runs_on(ledger) == ["seed-0"]
    with pytest.raises(InputError, match=r"got run.seed = 0 for the second time on this ledger"):
        one.fit(NUMBERS, LABELS, groups=CLIENTS)
    with pytest.raises(InputError, match="every client must have budget for the release of moments"):
        classifier(ledger=ledger, random_state=None).fit(NUMBERS, LABELS, groups=CLIENTS)
    assert runs_on(ledger) == ["seed-0"]


def test_clients_have_the_same_accounts_under_bounds_and_under_a_schema(ledger: Path) -> None:
    inputs = (Numeric("age", 20, 80, 50), Numeric("dose", 0, 1, 0))
    schema = Schema(inputs, Classes("state", ("ill", "well")))
    for seed, declared in enumerate(({}, {"bounds": None, "schema": schema})):
        again = classifier(ledger=ledger, ledger_epsilon=60.0, random_state=seed, **declared)
        again.fit(NUMBERS, LABELS, groups=CLIENTS)
    assert runs_on(ledger) == ["seed-0", "seed-1"]


def test_clients_dealt_at_random_have_no_accounts(ledger: Path) -> None:
    with pytest.raises(InputError, match="by name, got clients=4, which are dealt at random; pass groups"):
        classifier(ledger=ledger, clients=4).fit(NUMBERS, LABELS)


def test_a_ledger_must_be_there_and_its_budget_needs_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ledger"):
        classifier(ledger=tmp_path / "none.sqlite").fit(NUMBERS, LABELS, groups=CLIENTS)
    with pytest.raises(InputError, match="ledger_epsilon belongs to a ledger, got it without one"):
        classifier(ledger_epsilon=9.0).fit(NUMBERS, LABELS, groups=CLIENTS)


def test_a_fit_that_the_ledger_cuts_short_warns(ledger: Path) -> None:
    one = classifier(ledger=ledger, ledger_epsilon=15.0)
    with pytest.warns(ConvergenceWarning, match="The run stopped after .* had budget left for another round"):
        one.fit(NUMBERS, LABELS, groups=CLIENTS)
    assert one.n_iter_ < 20


@pytest.mark.usefixtures("routing")
def test_a_search_with_groups_charges_every_fit_to_the_same_clients(ledger: Path) -> None:
    one = classifier(epsilon=1.0, ledger=ledger, ledger_epsilon=30.0, random_state=None)
    search = GridSearchCV(one.set_fit_request(groups=True), {"epsilon": [1.0, 2.0]}, cv=2, error_score=RAISE)
    search.fit(NUMBERS, LABELS, groups=CLIENTS)
    assert len(runs_on(ledger)) == 5  # two budgets on two folds, and the best once more
    assert search.best_estimator_.run_.summary.clients == 4
    scores = cross_val_score(one, NUMBERS, LABELS, params={"groups": CLIENTS}, cv=2, error_score=RAISE)
    assert scores.shape == (2,)
    assert len(runs_on(ledger)) == 7


def test_a_search_that_passes_no_groups_is_told_how_to(ledger: Path) -> None:
    one = classifier(ledger=ledger, ledger_epsilon=30.0, random_state=None)
    with pytest.raises(InputError, match=r"set_config\(enable_metadata_routing=True\), then estimator.set_fit_request"):
        GridSearchCV(one, {}, cv=GroupKFold(2), error_score=RAISE).fit(NUMBERS, LABELS, groups=CLIENTS)


@pytest.mark.usefixtures("routing")
def test_a_search_is_refused_when_the_budget_is_spent(ledger: Path) -> None:
    one = classifier(epsilon=2.0, ledger=ledger, ledger_epsilon=4.0, random_state=None).set_fit_request(groups=True)
    search = GridSearchCV(one, {"epsilon": [2.0]}, cv=5, error_score=RAISE)
    with pytest.raises((InputError, ConvergenceWarning), match="budget"):
        search.fit(NUMBERS, LABELS, groups=CLIENTS)
    assert 1 < len(runs_on(ledger)) < 6
    again = GridSearchCV(one, {"epsilon": [2.0]}, cv=5)
    with pytest.raises((ValueError, FitFailedWarning), match="All the 5 fits failed"):
        again.fit(NUMBERS, LABELS, groups=CLIENTS)


def test_the_same_records_under_other_names_do_not_get_a_second_budget(ledger: Path) -> None:
    classifier(ledger=str(ledger)).fit(NUMBERS, LABELS, groups=CLIENTS)
    renamed = classifier(ledger=str(ledger), random_state=1)
    with pytest.raises(InputError, match="clients must be called as in the earlier runs on this ledger, got none of"):
        renamed.fit(NUMBERS, LABELS, groups=[f"{name} again" for name in CLIENTS])
    with Ledger(ledger) as kept:
        assert {*kept.accounts} == FOUR


def test_nothing_may_be_spent_where_the_ledger_allows_nothing(ledger: Path) -> None:
    with pytest.raises(InputError, match="epsilon"):
        classifier(ledger=str(ledger), ledger_epsilon=0).fit(NUMBERS, LABELS, groups=CLIENTS)
