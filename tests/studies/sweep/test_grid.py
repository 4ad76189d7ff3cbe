"""Grids as they are typed: values as a configuration holds them, even spacings, and refusals before any work."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.errors import InputError
from fedspd.studies.sweep.grid import Axis, parse_grid, points
from fedspd.studies.sweep.plan import plan_sweep

REFUSED = {
    "privacy.epsilon": "or section.key=log:low:high:count, got 'privacy.epsilon'; name a setting and its",
    "privacy.epsilon=": "got 'privacy.epsilon='; name a setting and its values.",
    "=1,2": "got '=1,2'; name a setting and its values.",
    "privacy.epsilon=1,,3": "a value on both sides of every comma, got 'privacy.epsilon=1,,3'; remove a comma.",
    "privacy.epsilon=1,3,": "a value on both sides of every comma, got 'privacy.epsilon=1,3,'; remove a comma.",
    "privacy.epsilon=1,1.0": "must differ, got 1.0 2 times in 'privacy.epsilon=1,1.0'; leave one out.",
    "privacy.epsilom=1": "unknown key privacy.epsilom; did you mean 'epsilon'?",
    "privcy.epsilon=1": "unknown section [privcy]; did you mean 'privacy'?",
    "epsilon=1": "a setting must be named section.key, got 'epsilon'; for example privacy.epsilon.",
    "privacy.epsilon=one": "privacy.epsilon must be a number, got 'one'.",
    "privacy.epsilon=[1]": "privacy.epsilon must be a number, got [1].",
    "privacy.epsilon=1,2020-01-01": "privacy.epsilon must be a number, got datetime.date(2020, 1, 1).",
    "algorithm.penalty={rho = 1}": "algorithm.penalty must be a number, got {'rho': 1}.",
    "algorithm.penalty=1,many": "algorithm.penalty must be a number, got 'many'.",
    "algorithm.penality=1,2": "unknown key algorithm.penality; did you mean 'penalty'?",
    "algorithm.bands=1,2": "algorithm.bands is no setting of fedspd, got it; leave it out, or use a method that has it",
    "algorithm.name=fedspd,dp-sdg": "one that fedspd methods lists, got 'dp-sdg'; did you mean 'dp-sgd'?",
    "problem.ratio=0.1,0.2": "problem.ratio would have no effect, got 0.1; it needs problem.regularizer = elastic-net",
    "run.participants=5,7,5": "must differ, got 5 2 times in 'run.participants=5,7,5'; leave one out.",
    "privacy.epsilon=1,-1": "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got -1.0.",
    "partition.kind=iid,ide": "partition.kind must be one of iid, ",
    "run.rounds=lin:1:2:3": "run.rounds must be a whole number, got 1.5.",
    "run.seed=1,2": "settings other than run.seed, got 'run.seed=1,2'; say --seeds and --first-seed.",
    "privacy.epsilon=log:0:1:3": "log:low:high:count with low below high, low above 0, and a count of 2 to 10000, got",
    "privacy.epsilon=log:-1:1:3": "low above 0",
    "privacy.epsilon=lin:3:1:3": "lin:low:high:count with low below high and a count of 2 to 10000, got",
    "privacy.epsilon=lin:1:3:1": "got 'privacy.epsilon=lin:1:3:1'; correct it or list the values with commas.",
    "privacy.epsilon=lin:1:3:1000000000": "a count of 2 to 10000",
    "privacy.epsilon=lin:1:3": "got 'privacy.epsilon=lin:1:3'; correct it",
    "privacy.epsilon=lin:1:3:5:7": "got 'privacy.epsilon=lin:1:3:5:7'; correct it",
    "privacy.epsilon=log:a:3:5": "got 'privacy.epsilon=log:a:3:5'; correct it",
    "privacy.epsilon=lin:1:inf:5": "got 'privacy.epsilon=lin:1:inf:5'; correct it",
    "privacy.epsilon=lin:nan:3:5": "got 'privacy.epsilon=lin:nan:3:5'; correct it",
    "privacy.epsilon=log:1:3:2.5": "got 'privacy.epsilon=log:1:3:2.5'; correct it",
}


def planned(*texts: str) -> tuple[Axis, ...]:
    return plan_sweep("proved", texts, 1, None, {}).axes


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("privacy.epsilon=0.1, 1,3", (0.1, 1.0, 3.0)),
        ("privacy.epsilon=1,inf", (1.0, inf)),
        ("run.participants=20,5", (20, 5)),
        ("partition.kind=iid,'power-law'", ("iid", "power-law")),
        ("data.log_capital=true,false", (True, False)),
        ("algorithm.penalty=log:0.01:10:4", (0.01, 0.1, 1.0, 10.0)),
        ("privacy.epsilon=lin:0.1:0.3:3", (0.1, 0.2, 0.3)),
        ("run.participants=log:1:100:3", (1, 10, 100)),
        ("run.rounds=lin:5:20:4", (5, 10, 15, 20)),
        (f"privacy.epsilon=1,1{400 * '0'}", (1.0, inf)),
    ],
)
def test_values_are_those_that_a_configuration_would_hold(text: str, values: tuple) -> None:
    (axis,) = planned(text)
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]


def test_values_of_every_grid_are_held_beside_the_others_in_the_order_they_were_typed_in() -> None:
    texts = ("algorithm.name=fedspd,dp-sgd", "privacy.epsilon=3,1,2", "run.rounds=7", "run.participants=9,4")
    assert [axis.values for axis in planned(*texts)] == [("fedspd", "dp-sgd"), (3.0, 1.0, 2.0), (7,), (9, 4)]
    sweep = plan_sweep("proved", texts, 1, None, {})
    held = [(base.algorithm.name, base.privacy.epsilon, base.run.rounds, base.run.participants) for base in sweep.bases]
    assert held == [tuple(point.values()) for point in sweep.points]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_value_is_refused_wherever_its_grid_stands(place: int) -> None:
    for wrong, sentence in (("run.rounds=3,0", "run.rounds must be at least 1, got 0."), ("run.rounds=3,3", "differ")):
        texts = ["privacy.epsilon=1,2", "run.participants=5,7"]
        texts.insert(place, wrong)
        with pytest.raises(InputError, match=sentence):
            planned(*texts)


@given(low=st.floats(1e-4, 1e3), factor=st.floats(1.5, 1e6), count=st.integers(2, 40))
def test_even_grids_have_both_ends_and_steps_of_one_size(low: float, factor: float, count: int) -> None:
    high = low * factor
    for spacing in ("log", "lin"):
        (axis,) = parse_grid([f"algorithm.penalty={spacing}:{low!r}:{high!r}:{count}"])
        assert (axis.values[0], axis.values[-1], len(axis.values)) == (low, high, count)
        for place, value in enumerate(axis.values):
            share = place / (count - 1)
            even = low * factor**share if spacing == "log" else low + share * (high - low)
            assert value == pytest.approx(even, rel=1e-9)


def test_the_product_has_every_combination_once_and_the_last_setting_changes_fastest() -> None:
    found = points(parse_grid(["privacy.epsilon=1,3", "data.split=test,validation"]))
    assert [tuple(point.values()) for point in found] == [
        (1.0, "test"), (1.0, "validation"), (3.0, "test"), (3.0, "validation"),
    ]  # fmt: skip
    assert {tuple(point) for point in found} == {("privacy.epsilon", "data.split")}


@pytest.mark.parametrize(
    ("text", "log", "numeric"),
    [
        ("privacy.epsilon=log:1:2:3", True, True),
        ("privacy.epsilon=lin:1:200:3", False, True),
        ("privacy.epsilon=0.1,1,3,inf", True, True),
        ("privacy.epsilon=1,2,3", False, True),
        ("algorithm.gradient_deviation=0,100", False, True),
        ("partition.kind=iid,power-law", False, False),
        ("data.log_capital=true,false", False, False),
    ],
)
def test_the_axis_is_logarithmic_for_logarithmic_grids_and_lists_over_a_decade(
    text: str, log: bool, numeric: bool
) -> None:
    (axis,) = parse_grid([text])
    assert (axis.log, axis.numeric) == (log, numeric)
    (axis,) = plan_sweep("published", [text], 1, None, {}).axes
    assert (axis.log, axis.numeric) == (log, numeric)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_grid_is_refused_with_what_was_expected_got_and_what_to_do(text: str) -> None:
    with pytest.raises(InputError) as refused:
        planned(text)
    assert REFUSED[text] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_grid_and_two_grids_for_one_setting_are_refused() -> None:
    with pytest.raises(InputError, match=r"needs a setting to vary, got none; add --grid"):
        parse_grid([])
    with pytest.raises(InputError, match=r"got 2 for privacy\.epsilon; put all its values into one\."):
        parse_grid(["privacy.epsilon=1", "run.rounds=1", " privacy.epsilon = 3"])
