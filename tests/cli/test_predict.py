"""`fedspd predict` and `fedspd export`, as a user types them."""

import csv
import json
import sys
from pathlib import Path

import joblib
import numpy as np
import onnxruntime
import pandas as pd
import pytest

from fedspd.data import write_adult_csv
from tests.support.command import Finished, run_all, run_script

RECORDS, TESTED = 400, 16281


class Home:
    """A folder with a run, a table, and what every command printed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, {}

    def __getitem__(self, name: str) -> Finished:
        return self.done[name]


def write_tables(root: Path) -> None:
    """Records that the run has not seen, and others that are not as declared."""
    table = root / "census.csv"
    write_adult_csv(table, np.arange(RECORDS), "test")
    write_adult_csv(root / "whole.csv", np.arange(TESTED), "test")
    frame = pd.read_csv(table)
    frame.drop(columns="income").to_parquet(root / "bare.parquet")
    frame.drop(columns="age").to_csv(root / "short.csv", index=False)
    odd = frame.assign(age=["old", *frame["age"][1:]])
    odd.to_csv(root / "odd.csv", index=False)
    strange = frame[:3].assign(age=[999, 40, 40], workclass=["Astronaut", "?", ""])
    strange.to_csv(root / "strange.csv", index=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """What is run once, for all tests."""
    root = tmp_path_factory.mktemp("predict")
    made = run_script(
        root,
        "run",
        "--set",
        "run.rounds=5",
        "--set",
        "run.average_last=3",
        "--set",
        "metrics.criterion=false",
        "--out",
        "run",
        "--json",
    )
    assert made.code == 0, made.err
    (root / "summary.json").write_text(made.out)
    write_tables(root)
    run, table = str(root / "run"), root / "census.csv"
    here = Home(root)
    here.done = run_all(root, {
        "file": ["predict", run, str(table), "--out", "p.csv"],
        "bare": ["predict", run, str(root / "bare.parquet")],
        "whole": ["predict", run, str(root / "whole.csv"), "--id", "income"],
        "average": ["predict", run, str(table), "--average"],
        "kept": ["predict", run, str(table), "--id", "fnlwgt", "--id", "age", "--id", "income"],
        "strange": ["predict", run, str(root / "strange.csv"), "--out", "p.csv", "--json"],
        "short": ["predict", run, str(root / "short.csv"), "--out", "p.csv"],
        "odd": ["predict", run, str(root / "odd.csv"), "--out", "p.csv"],
        "no run": ["predict", str(root), str(table), "--out", "p.csv"],
        "taken": ["predict", run, str(table), "--out", str(table)],
        "nowhere": ["predict", run, str(table), "--out", "no/p.csv"],
        "two outputs": ["predict", run, str(table), "--json"],
        "called so": ["predict", run, str(table), "--id", "prediction"],
        "csv": ["export", run, "--to", "csv", "--out", "m.csv"],
        "sklearn": ["export", run, "--to", "sklearn", "--out", "m.joblib"],
        "onnx": ["export", run, "--to", "onnx", "--out", "m.onnx", "--json"],
        "taken too": ["export", run, "--to", "csv", "--out", str(table)],
        "unknown form": ["export", run, "--to", "pmml", "--out", "m"],
    })  # fmt: skip
    return here


def rows_of(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(text.splitlines())]


def written(home: Home, name: str, file: str) -> Path:
    finished = home[name]
    assert finished.code == 0, finished.err
    return finished.folder / file


def predictions(home: Home) -> list[dict[str, str]]:
    return rows_of(written(home, "file", "p.csv").read_text())


def test_a_row_for_every_record_with_a_class_and_the_probability_of_each(home: Home) -> None:
    rows = predictions(home)
    assert len(rows) == RECORDS
    assert [*rows[0]] == ["prediction", "probability of <=50K", "probability of >50K"]
    for row in rows:
        least, most = float(row["probability of <=50K"]), float(row["probability of >50K"])
        assert least + most == pytest.approx(1)
        assert row["prediction"] == ("<=50K" if least >= most else ">50K")
    assert f"{RECORDS} predictions, written to p.csv" in home["file"].err
    assert home["file"].out == ""


def test_predictions_for_the_test_set_have_the_accuracy_that_the_run_tells(home: Home) -> None:
    rows = rows_of(home["whole"].out)
    told = json.loads((home.folder / "summary.json").read_text())
    assert sum(row["prediction"] == row["income"] for row in rows) / TESTED == told["test_accuracy"]


def test_the_target_is_not_needed_and_parquet_says_the_same(home: Home) -> None:
    assert home["bare"].code == 0
    assert rows_of(home["bare"].out) == predictions(home)


def test_the_average_of_the_last_models_is_another_model(home: Home) -> None:
    rows = rows_of(home["average"].out)
    assert len(rows) == RECORDS
    assert rows != predictions(home)


def test_columns_of_the_table_are_copied_in_front_in_the_order_in_which_they_are_named(home: Home) -> None:
    rows = rows_of(home["kept"].out)
    assert [*rows[0]][:4] == ["fnlwgt", "age", "income", "prediction"]
    table = rows_of((home.folder / "census.csv").read_text())
    assert [(row["fnlwgt"], row["age"]) for row in rows] == [(row["fnlwgt"], row["age"]) for row in table]
    assert [row["prediction"] for row in rows] == [row["prediction"] for row in predictions(home)]


def test_json_counts_what_was_not_as_declared(home: Home) -> None:
    told = json.loads(home["strange"].out)
    assert told["rows"] == 3
    assert told["columns"]["age"] == {"outside": 1}
    assert told["columns"]["workclass"] == {"missing": 2, "unknown": 1}
    assert told["columns"]["sex"] == {}
    assert (home["strange"].folder / told["file"]).exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("short", "must have each declared column once, got 'age' 0 times"),
        ("odd", "row 2: column 'age' must hold a number, got a text"),
        ("no run", "holds no model.npz"),
        ("taken", "which is there already"),
        ("nowhere", "no folder that can be written to"),
        ("two outputs", "--json needs --out"),
        ("called so", "must not be called 'prediction'"),
        ("taken too", "which is there already"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence_and_nothing_is_written(
    home: Home, name: str, sentence: str
) -> None:
    finished = home[name]
    assert finished.code == 2
    assert sentence in finished.err
    assert len(finished.err.strip().splitlines()) == 1
    assert finished.out == ""
    assert not [*finished.folder.iterdir()]


def test_an_unknown_form_is_refused_with_the_known_ones(home: Home) -> None:
    assert home["unknown form"].code == 2
    assert "onnx" in home["unknown form"].err


def test_coefficients_are_a_table_and_the_terminal_says_what_they_leave_out(home: Home) -> None:
    rows = rows_of(written(home, "csv", "m.csv").read_text())
    assert [*rows[0]] == ["feature", "class", "coefficient"]
    assert (rows[0]["feature"], rows[0]["class"], rows[1]["class"]) == ("(intercept)", "<=50K", ">50K")
    assert "shortens scaled rows that are longer than 1" in home["csv"].out


def test_an_exported_pipeline_gives_the_same_predictions_for_a_frame(home: Home) -> None:
    pipeline = joblib.load(written(home, "sklearn", "m.joblib"))
    frame = pd.read_csv(home.folder / "census.csv")
    rows = predictions(home)
    assert pipeline.predict(frame).tolist() == [row["prediction"] for row in rows]
    told = np.array([float(row["probability of >50K"]) for row in rows])
    np.testing.assert_allclose(pipeline.predict_proba(frame)[:, 1], told, rtol=0, atol=1e-12)
    assert "Loading a pickle runs code" in home["sklearn"].out


def test_an_exported_graph_gives_the_same_predictions_in_a_runtime(home: Home) -> None:
    session = onnxruntime.InferenceSession(written(home, "onnx", "m.onnx"))
    frame = pd.read_csv(home.folder / "census.csv")
    texts = {node.name for node in session.get_inputs() if "string" in node.type}
    feed = {
        node.name: frame[node.name].fillna("").to_numpy(object)[:, None]
        if node.name in texts
        else frame[node.name].to_numpy(float)[:, None]
        for node in session.get_inputs()
    }
    predicted, probabilities = session.run(None, feed)
    rows = predictions(home)
    assert np.asarray(predicted).tolist() == [row["prediction"] for row in rows]
    told = np.array([float(row["probability of >50K"]) for row in rows])
    np.testing.assert_allclose(np.asarray(probabilities)[:, 1], told, rtol=0, atol=1e-9)
    assert json.loads(home["onnx"].out)["form"] == "onnx"


def test_without_onnx_the_remedy_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedspd import InputError
    from fedspd.export import exported
    from fedspd.scoring.model import load_model

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'fedspd\[onnx\]'"):
        exported(load_model(home.folder / "run"), "onnx")
