"""Noised Newton steps: what a record moves, and that intervals cover what they should."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from fedspd.assemble.finished.inference import odds_ratio, told
from fedspd.data import parse_schema
from fedspd.evaluate.coordinates import coordinates_on
from fedspd.evaluate.newton import (
    FROM_ZERO,
    NOT_CONVERGED,
    SHARES,
    TOO_NOISY,
    Inferred,
    Released,
    Step,
    quantile,
    records_needed,
    stepped,
)
from tests.support.inference import claimed, worst_move

TRUTH = np.array([-0.4, 0.8, -0.6, 0.5])
RUNS = 2000


def rows_of(rng: np.random.Generator, count: int) -> np.ndarray:
    """A constant, two numbers on [-1, 1], and a level of two."""
    numbers = np.clip(rng.normal(0, 0.6, (count, 2)), -1, 1)
    return np.column_stack([np.ones(count), numbers, rng.integers(0, 2, count)])


def labels_of(rng: np.random.Generator, kind: str, rows: np.ndarray) -> np.ndarray:
    scores = rows @ TRUTH
    if kind == "classes":
        return (rng.random(len(rows)) < 1 / (1 + np.exp(-scores))).astype(float)
    return np.clip(0.3 * scores + rng.normal(0, 0.1, len(rows)), -1, 1)


def steps(
    rng: np.random.Generator, kind: str, rows: np.ndarray, labels: np.ndarray, start: np.ndarray, noise: float,
    shares: tuple[float, ...] = (1.0,), weights: np.ndarray | None = None,
) -> Inferred:  # fmt: skip
    """Steps with drawn noise of this deviation, in place of exact noise."""
    weighing = np.ones(len(rows)) if weights is None else weights
    units = round(float(weighing.sum()))

    def release(step: Step, share: float) -> Released:
        query = np.asarray(step.query(rows, labels, weighing, np.zeros(len(rows), int), 1).value)[0]
        return query + noise / sqrt(share) * rng.standard_normal(query.shape), noise**2 / share

    return stepped(kind, sqrt(rows.shape[1]), start, shares, release, units)


@pytest.mark.parametrize(
    ("kind", "relation", "least"),
    [
        ("classes", "replace-one", 0.9999),
        ("classes", "zero-out", 0.98),  # the largest of a polynomial of degree four, for which a simple bound stands
        ("number", "replace-one", 0.9999),
        ("number", "zero-out", 0.9999),
    ],
)
def test_the_worst_units_attain_the_sensitivity_and_none_is_beyond(kind: str, relation: str, least: float) -> None:
    assert least <= worst_move(kind, relation) <= 1


def test_what_is_claimed_is_what_noise_is_scaled_by_and_rounding_adds_next_to_nothing() -> None:
    for kind in SHARES:
        step = Step(kind, 2.0, np.zeros(4))
        assert claimed(kind) < step.sensitivity("replace-one") < claimed(kind) * (1 + 1e-4)


def test_the_conditions_of_the_proof_hold_for_the_shares() -> None:
    gradient, matrix, squares = SHARES["classes"]
    assert (gradient + matrix, squares) == (1.0, 0.0)
    assert 8 * matrix / gradient <= ((1 + sqrt(5)) / 2) ** 5
    gradient, matrix, squares = SHARES["number"]
    assert gradient + matrix + squares == pytest.approx(1.0)
    assert squares <= min(gradient, matrix)
    assert gradient <= 2 * matrix


@pytest.mark.parametrize("kind", ["classes", "number"])
def test_random_neighbors_in_a_table_move_its_sums_no_further(kind: str) -> None:
    rng, step = np.random.default_rng(0), Step(kind, 2.0, np.array([0.1, -2.0, 3.0, 1.0]))
    for _ in range(200):
        rows, labels = rows_of(rng, 4), labels_of(rng, kind, rows_of(rng, 4))
        labels = np.sign(labels) if kind == "number" else labels
        other_rows, other_labels = rows.copy(), labels.copy()
        other_rows[1], other_labels[1] = rows_of(rng, 1)[0] * rng.choice([-1, 1]), 1 - labels[1]
        one = np.asarray(step.query(rows, labels, np.ones(4), np.zeros(4, int), 1).value)
        other = np.asarray(step.query(other_rows, other_labels, np.ones(4), np.zeros(4, int), 1).value)
        assert np.linalg.norm(one - other) <= step.sensitivity("replace-one")


def test_a_person_with_more_rows_than_rounding_counts_on_has_no_part() -> None:
    step = Step("number", 1.0, np.zeros(2))
    for rows, there in ((1000, True), (1001, False)):
        weights = np.full(rows, np.floor(2**30 / rows) / 2**30)
        sums = step.query(np.tile([1.0, 0.0], (rows, 1)), np.ones(rows), weights, np.zeros(rows, int), 1).value
        assert bool(np.any(sums)) is there


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "records", "noise", "offset", "most"),
    [
        ("classes", 16_000, 2.0, 0.02, 0.965),
        ("classes", 4000, 4.0, 0.05, 1.0),  # far from the end: intervals hold a bias which is not there
        ("classes", 1500, 1.0, 0.05, 1.0),
        ("number", 2000, 2.0, 0.05, 0.965),
    ],
)
def test_95_of_100_intervals_hold_the_coefficient(
    kind: str, records: int, noise: float, offset: float, most: float
) -> None:
    rng, truth = np.random.default_rng(3), TRUTH if kind == "classes" else 0.3 * TRUTH
    lengths = np.array([[0.9], [1.0], [1.1]])  # the first and the last are near misses
    covered, said = np.zeros((3, 4)), 0
    for _ in range(RUNS):
        rows = rows_of(rng, records)
        found = steps(rng, kind, rows, labels_of(rng, kind, rows), truth + rng.normal(0, offset, 4), noise)
        if found.doubt is None:
            _, low, high = found.intervals(np.eye(4))
            covered += np.abs(truth - (low + high) / 2) <= lengths * (high - low) / 2
            said += 1
    assert said > 0.9 * RUNS
    shorter, found_to_hold, longer = covered / said
    assert (found_to_hold >= 0.935).all(), found_to_hold
    assert (found_to_hold <= most).all(), found_to_hold
    if most < 1.0:
        assert (shorter < 0.935).any(), shorter
        assert (longer > 0.965).any(), longer


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "number"])
def test_intervals_cover_where_persons_have_several_rows_and_are_a_little_long(kind: str) -> None:
    """Rows of a person agree in what makes them ill: their mean varies less than a row does, never more."""
    rng, truth, persons = np.random.default_rng(8), TRUTH if kind == "classes" else 0.3 * TRUTH, 4000
    covered, said = np.zeros(4), 0
    for _ in range(RUNS // 2):
        sizes = rng.integers(1, 5, persons)
        whose, own = np.repeat(np.arange(persons), sizes), rows_of(rng, persons)
        rows = own[whose]
        rows[:, 1:3] = np.clip(rows[:, 1:3] + rng.normal(0, 0.05, (len(whose), 2)), -1, 1)
        if kind == "classes":
            luck = np.where(rng.random(len(whose)) < 0.8, rng.random(persons)[whose], rng.random(len(whose)))
            labels = (luck < 1 / (1 + np.exp(-(rows @ truth)))).astype(float)
        else:
            errors = 0.09 * rng.standard_normal(persons)[whose] + 0.045 * rng.standard_normal(len(whose))
            labels = np.clip(rows @ truth + errors, -1, 1)
        weights = np.floor(2**30 / sizes[whose]) / 2**30
        found = steps(rng, kind, rows, labels, truth + rng.normal(0, 0.03, 4), 1.0, weights=weights)
        if found.doubt is None:
            _, low, high = found.intervals(np.eye(4))
            covered += (low <= truth) & (truth <= high)
            said += 1
    assert said > 0.95 * RUNS / 2
    assert (covered / said >= 0.935).all(), covered / said
    assert covered.sum() / said / 4 > 0.95, covered / said


SCHEMA = {
    "columns": [{"name": "age", "bounds": [20, 80]}, {"name": "sex", "levels": ["F", "M"], "drop_first": True}],
}
ILL = parse_schema(SCHEMA | {"target": {"column": "ill", "classes": ["no", "yes"]}})
DAYS = parse_schema(SCHEMA | {"target": {"column": "days", "bounds": [0, 20]}})


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "noise"), [pytest.param("classes", 2.0, marks=pytest.mark.lengthy), ("number", 2.0)])
def test_odds_ratios_and_original_units_are_covered_from_zero_on(kind: str, noise: float) -> None:
    """All steps of one charge, as `fedspd infer --columns` makes them, told as it tells them."""
    rng, where = np.random.default_rng(5), coordinates_on(ILL if kind == "classes" else DAYS, ("age", "sex"))
    truth = np.array([-2.0, 0.03, 0.7]) if kind == "classes" else np.array([3.0, 0.1, 2.0])
    covered, of_odds, said = np.zeros(3), np.zeros(2), 0
    for _ in range(RUNS):
        age, male = rng.uniform(20, 80, 8000), rng.integers(0, 2, 8000)
        scores = truth[0] + truth[1] * age + truth[2] * male
        rows = np.column_stack([np.ones(8000), (age - 50) / 30, male])
        if kind == "classes":
            labels = (rng.random(8000) < 1 / (1 + np.exp(-scores))).astype(float)
        else:
            labels = (np.clip(scores + rng.normal(0, 1.0, 8000), 0, 20) - 10) / 10
        shares = FROM_ZERO if kind == "classes" else (1.0,)
        found = steps(rng, kind, rows, labels, where.start, noise, shares)
        if found.doubt is None:
            coefficients = told(where, found)
            odds = [odds_ratio(one) for one in coefficients[1:]]
            covered += [one.low <= true <= one.high for one, true in zip(coefficients, truth, strict=True)]
            of_odds += [one.low <= np.exp(true) <= one.high for one, true in zip(odds, truth[1:], strict=True)]
            said += 1
    assert said > 0.9 * RUNS
    assert (covered / said >= 0.935).all(), covered / said
    assert (covered / said <= 0.965).all(), covered / said
    assert (of_odds == covered[1:]).all()  # growing functions move no end past the truth


@pytest.mark.slow
def test_a_start_that_is_off_on_one_side_is_covered_where_a_number_is_printed() -> None:
    """Weights that were held back by a penalty: the remainder has a sign, and every interval must hold it."""
    rng, covered, said = np.random.default_rng(6), np.zeros(4), 0
    for _ in range(500):
        rows = rows_of(rng, 8000)
        found = steps(rng, "classes", rows, labels_of(rng, "classes", rows), 0.75 * TRUTH, 1.0)
        if found.doubt is None:
            _, low, high = found.intervals(np.eye(4))
            covered += (low <= TRUTH) & (high >= TRUTH)
            said += 1
    assert said > 100
    assert (covered / said >= 0.935).all(), (covered / said, said)


def test_what_noise_drowns_and_what_is_far_off_is_not_given_an_interval() -> None:
    rng = np.random.default_rng(4)
    rows = rows_of(rng, 3000)
    labels = labels_of(rng, "classes", rows)
    assert steps(rng, "classes", rows, labels, TRUTH, 1.0).doubt is None
    assert steps(rng, "classes", rows, labels, TRUTH, 200.0).doubt == TOO_NOISY
    far = TRUTH + np.array([0, 2.0, 2.0, 0])
    assert steps(rng, "classes", rows, labels, far, 1.0).doubt == NOT_CONVERGED


def test_one_step_from_zero_is_refused_for_classes_and_several_of_one_charge_get_there() -> None:
    rng = np.random.default_rng(4)
    rows = rows_of(rng, 16_000)
    labels = labels_of(rng, "classes", rows)
    assert steps(rng, "classes", rows, labels, np.zeros(4), 1.0).doubt == NOT_CONVERGED
    found = steps(rng, "classes", rows, labels, np.zeros(4), 1.0, FROM_ZERO)
    assert found.doubt is None
    assert found.estimates == pytest.approx(TRUTH, abs=0.3)


def test_the_quantile_of_a_biased_normal_variable_leaves_five_in_a_hundred_outside() -> None:
    bias = np.array([0.0, 0.3, 1.0, 2.0])
    ends = quantile(bias)
    assert stats.norm.cdf(ends - bias) - stats.norm.cdf(-ends - bias) == pytest.approx(0.95)
    assert ends[0] == pytest.approx(1.959964)


@pytest.mark.parametrize("levels", [1, 3, 9])
def test_the_largest_least_eigenvalue_that_levels_can_have_is_known_and_attained(levels: int) -> None:
    each = 2 / (4 * levels + 1)  # of the units on every level beside the first
    best = np.diag([1.0, *[each] * levels])
    best[0, 1:] = best[1:, 0] = each
    assert np.linalg.eigvalsh(best)[0] == pytest.approx(1 / (4 * levels + 1))
    rng = np.random.default_rng(1)
    for chances in rng.dirichlet(np.ones(levels + 1), 200):
        matrix = np.diag([1.0, *chances[1:]])
        matrix[0, 1:] = matrix[1:, 0] = chances[1:]
        assert np.linalg.eigvalsh(matrix)[0] <= 1 / (4 * levels + 1) + 1e-12


def test_what_is_refused_before_it_is_charged_would_have_been_drowned() -> None:
    """The best records that there can be, just too few of them."""
    rng, noise = np.random.default_rng(2), 3.0
    units = int(0.99 * records_needed("number", (1,), noise))
    rows = np.column_stack([np.ones(units), rng.permutation(units) < 0.4 * units]).astype(float)
    drowned = [steps(rng, "number", rows, np.zeros(units), np.zeros(2), noise).doubt == TOO_NOISY for _ in range(300)]
    assert all(drowned)
    plenty = np.concatenate([rows] * 4)
    passed = [steps(rng, "number", plenty, np.zeros(len(plenty)), np.zeros(2), noise).doubt is None for _ in range(50)]
    assert all(passed)


def test_noise_on_the_matrix_is_symmetric_and_has_the_length_of_a_vector() -> None:
    rows = np.array([[1.0, 2.0, -1.0]])
    step = Step("number", 3.0, np.zeros(3))
    value = np.asarray(step.query(rows, np.ones(1), np.ones(1), np.zeros(1, int), 1).value)[0]
    assert np.linalg.norm(value[3:-1]) == pytest.approx(sqrt(SHARES["number"][1]) * 6.0 / 9.0)
