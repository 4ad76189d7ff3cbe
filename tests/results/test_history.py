"""A history keeps one number per round and column, and loses no bit on its way through a file."""

import csv
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedspd.results import COLUMNS, History

WHOLE = ("round", "participants")


def history(rounds: int = 3, **changes: np.ndarray) -> History:
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(rounds) for name in COLUMNS}
    return History(columns | {name: np.arange(rounds) for name in WHOLE} | changes)


def read(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


@given(values=arrays(np.float64, 5, elements=st.floats(allow_nan=False)))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_read_back_is_bit_for_bit_what_was_recorded(tmp_path: Path, values: np.ndarray) -> None:
    written = history(5, objective=values)
    written.write(tmp_path / "history.csv")
    back = read(tmp_path / "history.csv")
    assert list(back) == list(COLUMNS)
    for name in COLUMNS:
        assert back[name].tobytes() == np.asarray(written[name], np.float64).tobytes(), name


def test_rounds_that_were_not_evaluated_come_back_as_such(tmp_path: Path) -> None:
    history(3, objective=np.array([nan, 1.5, inf])).write(tmp_path / "history.csv")
    np.testing.assert_array_equal(read(tmp_path / "history.csv")["objective"], [nan, 1.5, inf])


def test_whole_numbers_are_written_without_a_point(tmp_path: Path) -> None:
    history(2).write(tmp_path / "history.csv")
    with (tmp_path / "history.csv").open(newline="") as file:
        assert [row["round"] for row in csv.DictReader(file)] == ["0", "1"]


def test_the_last_value_is_the_one_after_the_last_round() -> None:
    assert history(3, alfv=np.array([3.0, 2.0, 1.0])).last("alfv") == 1.0


@pytest.mark.parametrize("name", COLUMNS)
def test_a_missing_column_is_refused(name: str) -> None:
    columns = {other: values for other, values in history().columns.items() if other != name}
    with pytest.raises(ValueError, match="a history has the columns"):
        History(columns)


def test_a_column_that_nobody_declared_public_or_diagnostic_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got .*'secret'"):
        history(3, secret=np.zeros(3))


def test_columns_of_unequal_length_are_not_written_as_if_they_were_equal(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shorter"):
        history(3, alfv=np.zeros(2)).write(tmp_path / "history.csv")


def test_what_needs_records_is_marked_diagnostic() -> None:
    assert {name for name, kind in COLUMNS.items() if kind == "diagnostic"} == {
        "objective", "alfv", "alfv_per_client", "consensus_error", "clipped_share",
    }  # fmt: skip
