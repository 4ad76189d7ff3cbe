"""What goes in: tables of every library, declared bounds, clients; and what is refused, in which words."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from fedspd import InputError
from fedspd.data import Categorical, Numeric, Schema
from fedspd.target import Classes, Number
from tests.support.estimators import BOUNDS, classifier, records, regressor

TABLE, LABELS, CLIENTS = records()
NUMBERS = TABLE[["age", "dose"]]
SCHEMA = Schema(
    (Numeric("age", 20, 80, 50), Numeric("dose", 0, 1, 0, bins=4), Categorical("blood", ("A", "B", "AB", "O"))),
    Classes("state", ("ill", "well")),
)


def as_polars(table: pd.DataFrame) -> pl.DataFrame:
    read = pl.from_pandas(table)
    return read.with_columns(pl.col("blood").cast(pl.Enum(["A", "B", "AB", "O"]))) if "blood" in table else read


@pytest.mark.parametrize("table", [as_polars(TABLE), pa.Table.from_pandas(TABLE)], ids=["polars", "arrow"])
def test_every_library_gives_the_same_model_as_pandas(table: Any) -> None:
    usual = classifier().fit(TABLE, LABELS, groups=CLIENTS)
    other = classifier().fit(table, pl.Series(LABELS), groups=pa.array(CLIENTS))
    assert np.array_equal(usual.coef_, other.coef_)
    assert other.coefficient_names_ == ("age", "dose", "smoker", "blood=A", "blood=B", "blood=AB", "blood=O")
    assert np.array_equal(usual.predict(TABLE), other.predict(table))
    assert type(other.history_) is type(table)
    assert nw.from_native(other.history_)["round"].to_list() == [*range(1, 21)]


def test_a_matrix_gives_the_same_model_as_a_table_of_numbers() -> None:
    usual = classifier().fit(NUMBERS, LABELS, groups=CLIENTS)
    other = classifier(bounds={0: (20, 80), 1: (0, 1)}).fit(NUMBERS.to_numpy(), LABELS, groups=CLIENTS)
    assert np.array_equal(usual.coef_, other.coef_)
    assert isinstance(other.history_, pd.DataFrame)


def test_missing_levels_are_no_level_and_new_levels_are_none_either() -> None:
    table = TABLE.assign(blood=TABLE["blood"].where(TABLE.index % 5 != 0))
    fitted = classifier().fit(table, LABELS, groups=CLIENTS)
    strange = TABLE.assign(blood=pd.Categorical(["Z"] * len(TABLE)))
    assert np.array_equal(fitted.predict(strange), fitted.predict(TABLE.assign(blood=pd.Categorical([None] * 400))))


def test_a_schema_declares_levels_bins_and_what_is_missing() -> None:
    table = TABLE.assign(blood=TABLE["blood"].astype(str), age=TABLE["age"].where(TABLE.index % 7 != 0))
    fitted = classifier(bounds=None, schema=SCHEMA).fit(table, LABELS, groups=CLIENTS)
    assert fitted.score(table, LABELS) > 0.8
    assert fitted.classes_.tolist() == ["ill", "well"]
    assert len(fitted.coefficient_names_) == 1 + 4 + 4
    assert "set of classes" not in str(fitted.privacy_)


def test_a_matrix_of_objects_is_read_by_the_schema() -> None:
    matrix = TABLE[["age", "dose", "blood"]].astype(object).to_numpy()
    in_order = classifier(bounds=None, schema=SCHEMA).fit(matrix, LABELS, groups=CLIENTS)
    named = classifier(bounds=None, schema=SCHEMA).fit(TABLE, LABELS, groups=CLIENTS)
    assert np.array_equal(in_order.coef_, named.coef_)
    with pytest.raises(InputError, match="the 3 columns of the schema in their order, got 2; pass a data frame"):
        classifier(bounds=None, schema=SCHEMA).fit(matrix[:, :2], LABELS, groups=CLIENTS)


def test_labels_of_a_schema_may_be_numbers() -> None:
    schema = Schema(SCHEMA.inputs, Classes("state", ("0", "1")))
    fitted = classifier(bounds=None, schema=schema).fit(TABLE, (LABELS == "ill").astype(int), groups=CLIENTS)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.score(TABLE, (LABELS == "ill").astype(int)) > 0.8


@pytest.mark.parametrize("as_listed", [list, np.asarray])
def test_bounds_may_be_listed_in_the_order_of_the_columns(as_listed: Any) -> None:
    listed = classifier(bounds=as_listed([BOUNDS[name] for name in NUMBERS])).fit(NUMBERS, LABELS, groups=CLIENTS)
    named = classifier(bounds=BOUNDS).fit(NUMBERS, LABELS, groups=CLIENTS)
    assert np.array_equal(listed.coef_, named.coef_)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no bounds": (NUMBERS, {"bounds": None}, "never read from the records, got none; pass bounds="),
    "bounds of some": (NUMBERS, {"bounds": {"age": (0, 9)}}, "got too few or too many: dose; add or remove them"),
    "bounds of others": (NUMBERS, {"bounds": BOUNDS | {"size": (0, 9)}}, "got too few or too many: size"),
    "bounds in words": (NUMBERS, {"bounds": "data"}, "two numbers, a dictionary or 'clip', got 'data'"),
    "three bounds": (NUMBERS, {"bounds": (0, 1, 2)}, r"bounds must be two numbers, got \(0, 1, 2\); write"),
    "bounds of one column too few": (NUMBERS, {"bounds": [(0, 1)]}, r"bounds must be two numbers, got \[\(0, 1\)\]"),
    "a bound of three": (NUMBERS, {"bounds": [(0, 1), (0, 1, 2)]}, r"bounds must be two numbers, got \[\(0, 1\), \(0"),
    "bounds twice": (TABLE, {"schema": SCHEMA}, "bounds stand in the schema, got bounds beside it"),
    "classes twice": (TABLE, {"bounds": None, "schema": SCHEMA, "classes": ["a"]}, "classes stand in the schema"),
    "text": (TABLE.assign(blood=TABLE["blood"].astype(str)), {}, "'blood' must hold numbers, truth values or declared"),
    "a date": (NUMBERS.assign(day=pd.Timestamp("2020-01-01")), {}, "got Datetime.*; give it a categorical dtype"),
    "seen levels": (pl.DataFrame({"b": pl.Series(["x"] * 400, dtype=pl.Categorical)}), {}, "pl.Enum"),
    "a missing number": (NUMBERS.assign(age=np.nan), {}, r"'age' must hold finite numbers, got missing"),
    "sparse": (csr_array(NUMBERS.to_numpy()), {}, r"a dense table, got a sparse matrix; pass X.toarray\(\)"),
    "an empty table": (NUMBERS[:0], {}, r"expected records with columns, got a table of shape \(0, 2\)"),
    "clients twice": (NUMBERS, {"clients": 3}, "got groups and clients=3; pick one"),
    "unknown class": (NUMBERS, {"classes": ["well", "dead"]}, "y must hold the declared classes dead, well only"),
    "a setting twice": (NUMBERS, {"settings": {"privacy.epsilon": 9}}, "leave privacy.epsilon to its own parameter"),
    "an unknown setting": (NUMBERS, {"settings": {"run.round": 9}}, "unknown key run.round"),
    "an unknown method": (NUMBERS, {"method": "fedspdd", "settings": None}, "fedspd"),
    "no privacy": (NUMBERS, {"method": "fedavg", "settings": None}, r"adds no noise, expected epsilon=float\('inf'\)"),
    "no number": (NUMBERS, {"epsilon": "1"}, "epsilon must be a number, got '1'"),
    "no number in a cell": (TABLE.assign(age="old"), {"bounds": None, "schema": SCHEMA}, "row 0: column 'age'"),
    "a missing column": (NUMBERS, {"bounds": None, "schema": SCHEMA}, "X must have the declared column 'blood'"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "changes", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_used_is_refused_with_a_remedy(table: Any, changes: dict[str, Any], words: str) -> None:
    count = table.shape[0]
    with pytest.raises(InputError, match=words):
        classifier(**changes).fit(table, LABELS[:count] if count else LABELS, groups=CLIENTS)


def test_every_record_needs_a_client() -> None:
    with pytest.raises(InputError, match=r"got neither groups nor clients; pass fit.*set_fit_request"):
        classifier().fit(NUMBERS, LABELS)
    with pytest.raises(InputError, match="every record must name its client, got records that do not"):
        classifier().fit(NUMBERS, LABELS, groups=[None, *CLIENTS[1:]])
    with pytest.raises(InputError, match="groups must name 400 clients, one for each record, got 399"):
        classifier().fit(NUMBERS, LABELS, groups=CLIENTS[1:])
    with pytest.raises(InputError, match="got clients=500 and n_samples=400; every client needs a record"):
        classifier(clients=500).fit(NUMBERS, LABELS)


def test_a_target_must_be_declared_and_fit_the_estimator() -> None:
    answers = np.asarray(NUMBERS["age"])
    with pytest.raises(InputError, match="never read from the records, got neither; pass one"):
        regressor().fit(NUMBERS, answers, groups=CLIENTS)
    with pytest.raises(InputError, match="got both; pass one"):
        regressor(target_bounds=(0, 1), most=3).fit(NUMBERS, answers, groups=CLIENTS)
    with pytest.raises(InputError, match="counts must be at least 0"):
        regressor(most=100).fit(NUMBERS, -answers, groups=CLIENTS)
    with pytest.raises(InputError, match="got classes; use FedSPDClassifier"):
        regressor(bounds=None, schema=SCHEMA).fit(TABLE, answers, groups=CLIENTS)
    number = Schema(SCHEMA.inputs, Number("age_", 0, 100))
    with pytest.raises(InputError, match="a schema whose target has classes, got another; use FedSPDRegressor"):
        classifier(bounds=None, schema=number).fit(TABLE, LABELS, groups=CLIENTS)
    with pytest.raises(InputError, match="the target stands in the schema, got target_bounds or most beside it"):
        regressor(bounds=None, schema=number, most=3).fit(TABLE, answers, groups=CLIENTS)
    with pytest.raises(InputError, match="at least two classes, got 1 class"):
        classifier().fit(NUMBERS, np.ones(400, int), groups=CLIENTS)


def test_epsilon_and_delta_must_be_named() -> None:
    from fedspd import FedSPDClassifier, FedSPDRegressor

    for kind in (FedSPDClassifier, FedSPDRegressor):
        with pytest.raises(TypeError, match="'epsilon' and 'delta'"):
            kind()  # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError, match="positional"):
            kind(1.0, 1e-5)  # pyright: ignore[reportCallIssue]
