"""What comes out of a fit: models that learned something, in the units of the table, and a statement of privacy."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError

from fedspd import FedSPDClassifier, InputError
from fedspd.data import Numeric, Schema
from fedspd.estimators import Privacy
from fedspd.target import Classes
from tests.support.estimators import BOUNDS, classifier, records, regressor

TABLE, LABELS, CLIENTS = records()
NUMBERS = TABLE[["age", "dose"]]


def test_breast_cancer_is_told_far_better_than_by_the_majority() -> None:
    cells, labels = load_breast_cancer(return_X_y=True)
    bounds = {place: (0.0, 2.0 * 10 ** np.ceil(np.log10(top))) for place, top in enumerate(cells.max(axis=0))}
    fitted = FedSPDClassifier(epsilon=20, delta=1e-5, bounds=bounds, clients=5, random_state=0).fit(cells, labels)
    assert fitted.score(cells, labels) > 0.9 > labels.mean() + 0.2


def test_clients_that_trust_secure_sums_learn_more_and_the_fit_says_both_numbers() -> None:
    cells, labels = load_breast_cancer(return_X_y=True)
    bounds = {place: (0.0, 2.0 * 10 ** np.ceil(np.log10(top))) for place, top in enumerate(cells.max(axis=0))}
    given: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "bounds": bounds, "clients": 20, "random_state": 0}
    plain = FedSPDClassifier(**given).fit(cells, labels)
    sums = FedSPDClassifier(**given, settings={"privacy.trust": "secure-sums"}).fit(cells, labels)
    assert sums.score(cells, labels) > plain.score(cells, labels) + 0.05
    assert plain.privacy_.epsilon_alone == plain.privacy_.epsilon == sums.privacy_.epsilon == 1
    assert 3 < sums.privacy_.epsilon_alone < 5
    assert "by a client's own noise alone" in str(sums.privacy_)


def test_three_classes_are_told_apart_and_their_probabilities_add_up() -> None:
    flowers, kinds = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[kinds]
    fitted = FedSPDClassifier(epsilon=1000, delta=1e-5, bounds=(0, 8), clients=3, random_state=0).fit(flowers, names)
    assert fitted.score(flowers, names) > 0.8
    assert fitted.coef_.shape == (3, 4)
    assert fitted.decision_function(flowers).shape == (150, 3)
    assert np.allclose(fitted.predict_proba(flowers).sum(axis=1), 1)


def test_labels_keep_their_type_and_declared_classes_need_not_occur() -> None:
    fitted = classifier(classes=["well", "ill", "dead"]).fit(TABLE, LABELS, groups=CLIENTS)
    assert fitted.classes_.tolist() == ["dead", "ill", "well"]
    assert set(fitted.predict(TABLE)) == {"ill", "well"}
    assert "set of classes" not in fitted.privacy_.statement
    truths = classifier().fit(TABLE, LABELS == "ill", groups=CLIENTS)
    assert truths.predict(TABLE).dtype == bool


@pytest.mark.parametrize("loss", [None, "least-squares", "squared-hinge"])
def test_coefficients_are_in_the_units_of_the_table_where_rows_are_not_shortened(loss: str | None) -> None:
    long_rows = {"data.row_norm": 50.0, "run.rounds": 5}
    fitted = classifier(loss=loss, settings=long_rows).fit(TABLE, LABELS, groups=CLIENTS)
    levels = pd.get_dummies(TABLE["blood"]).to_numpy(float)
    features = np.hstack([TABLE[["age", "dose", "smoker"]].to_numpy(float), levels])
    assert np.allclose(features @ fitted.coef_[0] + fitted.intercept_[0], fitted.decision_function(TABLE))
    assert hasattr(fitted, "predict_proba") == (loss is None)


def test_a_number_is_learned_in_its_own_units() -> None:
    answers = 3 * NUMBERS["age"] - 40 * NUMBERS["dose"] + 7
    fitted = regressor(target_bounds=(0, 300)).fit(NUMBERS, answers, groups=CLIENTS)
    assert fitted.score(NUMBERS, answers) > 0.8
    assert fitted.predict(NUMBERS).min() >= 0
    straight = {"data.row_norm": 50.0, "data.encode": "declared"}
    exact = regressor(target_bounds=(0, 300), settings=straight).fit(NUMBERS, answers, groups=CLIENTS)
    linear = NUMBERS.to_numpy() @ exact.coef_ + exact.intercept_
    assert np.allclose(np.clip(linear, 0, 300), exact.predict(NUMBERS))


def test_a_count_is_learned_as_a_rate() -> None:
    rates = np.exp(0.04 * (NUMBERS["age"] - 40))
    answers = np.random.default_rng(1).poisson(rates)
    fitted = regressor(epsilon=100.0, most=40, typical=2).fit(NUMBERS, answers, groups=CLIENTS)
    assert fitted.score(NUMBERS, answers) > 0.3
    assert fitted.predict(NUMBERS).min() > 0
    assert fitted.run_.config.problem.loss is None


def test_a_loss_is_chosen_by_its_name() -> None:
    answers = NUMBERS["age"]
    fitted = regressor(target_bounds=(0, 100), loss="huber").fit(NUMBERS, answers, groups=CLIENTS)
    assert fitted.run_.config.problem.loss == "huber"
    with pytest.raises(InputError, match="poisson predicts a count, got a number; use least-squares or huber"):
        regressor(target_bounds=(0, 100), loss="poisson").fit(NUMBERS, answers, groups=CLIENTS)


@pytest.mark.parametrize("method", ["dp-fedavg", "dp-sgd", "one-shot", "dp-admm"])
def test_any_method_is_fitted_by_its_name_with_all_clients(method: str) -> None:
    more = {"problem.regularizer": "squared-l2"} if method == "one-shot" else {}
    fitted = classifier(method=method, epsilon=50.0, settings=more).fit(TABLE, LABELS, groups=CLIENTS)
    assert fitted.run_.summary.algorithm == method
    assert fitted.run_.summary.participants == 4
    assert fitted.privacy_.summary.guarantee == "proved"
    assert fitted.score(TABLE, LABELS) > 0.7


def test_a_method_without_privacy_says_so() -> None:
    free = {"method": "fedavg", "epsilon": float("inf"), "settings": {"algorithm.inverse_step": 0.5}}
    fitted = classifier(**free).fit(TABLE, LABELS, groups=CLIENTS)
    assert fitted.privacy_.statement.startswith("No privacy: this run added no noise.")


def test_a_method_as_published_says_that_nothing_is_proved() -> None:
    fitted = classifier(method="fedspd-published", settings=None).fit(TABLE, LABELS, groups=CLIENTS)
    assert "epsilon proved: none" in str(fitted.privacy_)
    assert fitted.score(TABLE, LABELS) > 0.5


def test_without_a_random_state_noise_is_kept_nowhere_and_nothing_else_is_known() -> None:
    one, other = (classifier(random_state=None).fit(TABLE, LABELS, groups=CLIENTS) for _ in range(2))
    assert not np.array_equal(one.coef_, other.coef_)
    assert one.run_.config.run.seed is None
    assert one.run_.summary.seed is None
    text = str(one.privacy_)
    assert text.startswith("The noise comes from a seed that the operating system drew and nobody kept.")
    assert (
        "nothing else was kept of the records that were trained on. Taken as public: how many records each client holds"
        in text
    )
    assert "the set of classes, which was read from y, the levels of categorical columns." in text
    assert {"objective", "alfv", "clipped_share"}.isdisjoint(one.history_.columns)


def test_a_random_state_repeats_a_fit_and_the_statement_warns() -> None:
    one, same = (classifier(random_state=7).fit(TABLE, LABELS, groups=CLIENTS) for _ in range(2))
    assert np.array_equal(one.coef_, same.coef_)
    assert "whoever has the settings can subtract it" in str(one.privacy_)
    drawn = np.random.RandomState(0)
    first, second = (classifier(random_state=drawn).fit(TABLE, LABELS, groups=CLIENTS) for _ in range(2))
    assert not np.array_equal(first.coef_, second.coef_)


def test_privacy_is_an_object_with_numbers_that_prints_itself() -> None:
    privacy = classifier(epsilon=3.0).fit(TABLE, LABELS, groups=CLIENTS).privacy_
    assert isinstance(privacy, Privacy)
    assert (privacy.epsilon, privacy.delta, privacy.protects) == (3.0, 1e-5, "one record of a client")
    assert repr(privacy) == privacy.statement
    assert "(3, 1e-05)-differential privacy, proved" in privacy._repr_html_()


def test_a_fitted_estimator_is_pickled_and_cloned() -> None:
    fitted = classifier(settings={"run.rounds": 7}).fit(TABLE, LABELS, groups=CLIENTS)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(TABLE), fitted.predict_proba(TABLE))
    assert again.history_.equals(fitted.history_)
    assert str(again.privacy_) == str(fitted.privacy_)
    assert fitted.n_iter_ == 7
    assert fitted.feature_names_in_.tolist() == ["age", "dose", "smoker", "blood"]
    bare: Any = clone(fitted)
    assert bare.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        bare.predict(TABLE)


def test_pictures_are_axes_in_the_units_of_the_table() -> None:
    inputs = (Numeric("age", 20, 80, 50, spline=6), Numeric("dose", 0, 1, 0, bins=4))
    schema = Schema(inputs, Classes("state", ("ill", "well")))
    fitted = classifier(bounds=None, schema=schema).fit(TABLE, LABELS, groups=CLIENTS)
    curve = fitted.plot_curve("age")
    assert curve.get_xlabel() == "age"
    assert curve.lines[0].get_xdata()[[0, -1]].tolist() == [20, 80]
    heights = curve.lines[0].get_ydata()
    assert heights[0] > heights[-1]  # the second class is to be well
    assert len(fitted.plot_coefficients(most=3).get_yticks()) == 3
    assert fitted.plot_history().get_xlabel() == "communication round"
    with pytest.raises(InputError, match="a curve is of a column of numbers, got 'blood'"):
        fitted.plot_curve("blood")


def test_pictures_of_several_classes_have_a_curve_for_each() -> None:
    kinds = np.digitize(NUMBERS["age"], [40, 60])
    fitted = classifier().fit(NUMBERS, kinds, groups=CLIENTS)
    assert len(fitted.plot_curve("dose").lines) == 3
    assert fitted.plot_coefficients().get_yticklabels()[0].get_text().startswith("age spline 1, ")


def test_rounds_are_so_many_that_no_step_is_longer_than_the_loss_allows() -> None:
    """Five rounds by the usual rule diverged for least squares at any budget."""
    answers = 3 * NUMBERS["age"]
    for epsilon in (3.0, 1e4):
        fitted = regressor(epsilon=epsilon, target_bounds=(0, 300)).fit(NUMBERS, answers, groups=CLIENTS)
        assert 20 <= fitted.n_iter_ <= 500
        assert fitted.score(NUMBERS, answers) > 0.5


def test_a_schema_may_be_a_file(tmp_path: Any) -> None:
    from fedspd.data import schema_text

    inputs = (Numeric("age", 20, 80, 50), Numeric("dose", 0, 1, 0))
    schema = Schema(inputs, Classes("state", ("ill", "well")))
    path = tmp_path / "schema.toml"
    path.write_text(schema_text(schema))
    read = classifier(bounds=None, schema=path).fit(TABLE, LABELS, groups=CLIENTS)
    usual = classifier(bounds=BOUNDS).fit(NUMBERS, LABELS, groups=CLIENTS)
    assert np.array_equal(read.coef_, usual.coef_)
    draft = replace(schema, unconfirmed=("age",))
    with pytest.raises(InputError, match="got ones read from the records for age"):
        classifier(bounds=None, schema=draft).fit(TABLE, LABELS, groups=CLIENTS)


def test_persons_are_protected_with_all_of_their_records() -> None:
    rng = np.random.default_rng(0)
    persons = np.repeat(np.arange(200), rng.integers(1, 5, 200))
    X = rng.uniform(-1, 1, (len(persons), 3))  # noqa: N806
    y, hospital = np.where(X[:, 0] > 0, "yes", "no"), np.where(persons % 2, "north", "south")
    model = FedSPDClassifier(epsilon=3.0, delta=1e-5, bounds=(-1, 1), classes=["no", "yes"], random_state=0)
    model.fit(X, y, groups=hospital, persons=persons)
    assert model.run_.summary.records == 200
    assert model.privacy_.protects == "all records of one person at a client"
    assert "how many persons each client holds" in model.privacy_.statement
    with pytest.raises(InputError, match="persons must name"):
        model.fit(X, y, groups=hospital, persons=persons[:5])
    with pytest.raises(InputError, match=r"settings must leave privacy\.unit to its own parameter"):
        model.set_params(settings={"privacy.unit": "person"}).fit(X, y, groups=hospital)
