"""`fedspd infer`: coefficients in original units, with intervals that hold the privacy noise, or a reason for none."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedspd import run
from fedspd.assemble import Run
from fedspd.assemble.finished.inference import INFERENCE, infer, infer_folder
from fedspd.data import Schema, parse_schema, schema_text
from fedspd.errors import InputError
from fedspd.evaluate.coordinates import coordinates_of, coordinates_on
from fedspd.evaluate.newton import TOO_NOISY
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.problem import make_loss
from fedspd.report import folders_page, save_run
from fedspd.report.of_runs.evaluation import forest, inference_grid
from fedspd.results.inference import Inference, read_inference
from fedspd.scoring.model import Model
from tests.support.command import run_script

COLUMNS = [{"name": "age", "bounds": [20, 80]}, {"name": "sex", "levels": ["F", "M"]}]
SETTINGS = {
    "evaluation.held_out": 0.5, "evaluation.share": 0.4, "privacy.epsilon": 6.0, "privacy.delta": 1e-5, "run.seed": 1,
    "run.rounds": 60, "data.encode": "declared", "problem.regularizer": "none", "data.bias": 0.5, "data.row_norm": 2.0,
    "problem.clip_norm": 2.0,
}  # fmt: skip


PLAIN = (0.0423, 1.048, 0.0412)
"""Of age, sex and hours a week among all of Adult's training records, by scikit-learn without a penalty."""


def table(records: int = 24_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, male = rng.uniform(20, 80, records), rng.integers(0, 2, records)
    odds = -2.0 + 0.04 * age + 0.7 * male
    return pd.DataFrame(
        {
            "age": age, "sex": np.where(male, "M", "F"), "ward": rng.integers(0, 2, records),
            "ill": np.where(rng.random(records) < 1 / (1 + np.exp(-odds)), "yes", "no"),
            "days": np.clip(3.0 + 0.1 * age + 2.0 * male + rng.normal(0, 1.0, records), 0, 20),
        }
    )  # fmt: skip


def schema(target: dict) -> Schema:
    return parse_schema({"client": "ward", "target": target, "columns": COLUMNS})


CLASSES, NUMBER = schema({"column": "ill", "classes": ["no", "yes"]}), schema({"column": "days", "bounds": [0, 20]})


def model_of(finished: Run) -> Model:
    loss = make_loss(finished.config.problem.loss, finished.recipe.schema.target, 0.5)
    return Model(finished.weights, finished.recipe, loss)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table on the disk, on a ledger with room for a few steps."""
    home = tmp_path_factory.mktemp("inference")
    table().to_csv(home / "t.csv", index=False)
    (home / "schema.toml").write_text(schema_text(CLASSES))
    create_ledger(home / "l.sqlite")
    data = {"data.name": "table", "data.file": str(home / "t.csv"), "data.schema": str(home / "schema.toml")}
    with Ledger(home / "l.sqlite") as ledger:
        finished = run("proved", SETTINGS | data | {"partition.kind": "own"}, ledger=ledger, ledger_epsilon=20.0)
    (made := home / "run").mkdir()
    save_run(made, finished.record(), finished.model())
    return made


def test_the_start_gives_the_scores_of_the_model_where_no_row_is_shortened() -> None:
    finished = run(table(4000), SETTINGS | {"data.row_norm": 50.0, "run.rounds": 3}, schema=CLASSES)
    model, held = model_of(finished), finished.held_out
    assert held is not None
    where = coordinates_of(model)
    rows = where.rows(held.table)
    scores = model.scores(held.table.features)
    assert np.allclose(rows @ where.start, scores[:, 1] - scores[:, 0])
    assert (np.linalg.norm(rows, axis=1) <= where.bound).all()
    assert where.names == ("(intercept)", "age", "sex=M")


def test_a_level_without_a_feature_is_what_the_others_are_held_against() -> None:
    """Two levels, of which the schema drops the first: there is one coefficient, not none."""
    dropped = [COLUMNS[0], COLUMNS[1] | {"drop_first": True}]
    own = parse_schema({"client": "ward", "target": {"column": "ill", "classes": ["no", "yes"]}, "columns": dropped})
    finished = run(table(4000), SETTINGS | {"data.row_norm": 50.0, "run.rounds": 3}, schema=own)
    model, held = model_of(finished), finished.held_out
    assert held is not None
    where = coordinates_of(model)
    scores = model.scores(held.table.features)
    assert where.names == ("(intercept)", "age", "sex=M")
    assert np.allclose(where.rows(held.table) @ where.start, scores[:, 1] - scores[:, 0])


def test_a_regression_of_its_own_has_numbers_as_numbers_whatever_the_model_cuts_them_into() -> None:
    cut = [{"name": "age", "bounds": [20, 80], "spline": 4}, {"name": "income", "bounds": [0, 99], "log-bins": 5}]
    own = parse_schema({"target": {"column": "ill", "classes": ["no", "yes"]}, "columns": [*cut, COLUMNS[1]]})
    where = coordinates_on(own, ("sex", "age", "income"))
    assert where.names == ("(intercept)", "sex=M", "age", "log(1 + income)")
    assert where.widths == (1, 0, 0)
    assert not where.start.any()


@pytest.mark.parametrize(("columns", "words"), [(("agee",), "got 'agee'.*'age'"), (("age", "age"), "got 'age' twice")])
def test_columns_that_are_not_declared_or_named_twice_are_refused(columns: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=f"must be declared inputs of the schema, each named once, {words}"):
        coordinates_on(CLASSES, columns)


def test_original_units_are_those_of_the_table() -> None:
    finished = run(table(4000), SETTINGS | {"run.rounds": 3}, schema=NUMBER)
    where = coordinates_of(model_of(finished))
    # 1 + 2 u + 3 m on the range of the target, u = (age - 50) / 30
    told = where.transform @ np.array([1.0, 2.0, 3.0]) + where.shift
    assert told == pytest.approx([10 + 10 * (1 - 2 * 50 / 30), 10 * 2 / 30, 30.0])


def test_odds_ratios_of_a_table_come_with_intervals_and_cost_one_charge(folder: Path) -> None:
    ledger = folder.parent / "l.sqlite"
    found = infer_folder(folder, ledger)
    if found.doubt is not None:  # the weights are noised: then the next step begins nearer
        found = infer_folder(folder, ledger, again=True)
    assert found.doubt is None
    age, male = found.coefficients[1:]
    for one, truth in ((age, 0.04), (male, 0.7)):
        assert one.value is not None
        assert abs(one.value - truth) < 3 * (one.high - one.low) / 2  # the noise has no seed
    assert found.odds_ratios[1].value == pytest.approx(np.exp(male.value or 0.0))
    assert read_inference(folder) == found == infer_folder(folder, ledger)
    with Ledger(ledger) as opened:
        charged = [one.times for one in opened.charges() if one.mechanism == INFERENCE]
    assert charged == [found.number] * 2
    assert inference_grid(found).columns[4] == "odds ratio"
    assert len(forest(found).axes[0].get_yticks()) == 2
    assert "Coefficients" in [section.title for section in folders_page([folder]).sections]
    done = run_script(folder.parent, "infer", "run", "--ledger", "l.sqlite", "--json")
    assert json.loads(done.out)["number"] == found.number


def test_a_regression_on_some_columns_is_kept_beside_the_models_own_and_says_that_it_is_another(folder: Path) -> None:
    ledger = folder.parent / "l.sqlite"
    known = read_inference(folder, ())
    done = run_script(folder.parent, "infer", "run", "--ledger", "l.sqlite", "--columns", "sex", "--json")
    found = json.loads(done.out)
    assert found["columns"] == ["sex"]
    assert found["steps"] == 4
    assert "on sex alone, a smaller model of its own: its coefficients are not those of" in found["regression"]
    assert [one["name"] for one in found["coefficients"]] == ["(intercept)", "sex=M"]
    assert read_inference(folder, ()) == known
    assert infer_folder(folder, ledger, columns=("sex", "age")) == infer_folder(folder, ledger, columns=("age", "sex"))
    again = infer_folder(folder, ledger, columns=("sex",))
    assert again == read_inference(folder, ("sex",)) != read_inference(folder)
    assert again.number == found["number"]  # read again for free
    text = run_script(folder.parent, "infer", "run", "--ledger", "l.sqlite", "--columns", "sex").out
    assert "Coefficients of a regression on sex alone" in text
    assert "are not those of a model with more columns" in " ".join(text.split())
    titles = [section.title for section in folders_page([folder]).sections]
    assert "Coefficients of a regression on sex alone" in titles
    more = infer_folder(folder, ledger, again=True, columns=("sex",))
    assert (more.steps, more.number) == (
        1,
        again.number + 2,
    )  # from the estimates that were released; another came between
    assert more == read_inference(folder, ("sex",)) == read_inference(folder)
    (marginal,) = found["coefficients"][1:]
    held = table().assign(male=table().sex == "M", yes=table().ill == "yes").groupby("male").yes.mean()
    truth = np.log(held[True] / (1 - held[True])) - np.log(held[False] / (1 - held[False]))
    assert abs(marginal["value"] - truth) < 3 * (marginal["high"] - marginal["low"]) / 2


@pytest.mark.parametrize("trust", ["each-upload", "secure-sums"])
@pytest.mark.parametrize("unit", ["record", "person"])
def test_coefficients_by_person_and_of_secure_sums_are_those_of_the_table(unit: str, trust: str) -> None:
    """Two equal rows for each person, who counts once where it is named: half as many units, the same coefficients."""
    units, person = (8000, "who") if unit == "person" else (16_000, None)
    rows = table(16_000)
    twice = rows.loc[rows.index.repeat(2)].assign(ward=rows.index.repeat(2) % 4, who=rows.index.repeat(2).astype(str))
    settings = SETTINGS | {"run.rounds": 3, "privacy.unit": unit, "privacy.trust": trust}
    if trust == "secure-sums":
        settings |= {"problem.counts": "records"}
    finished = run(twice, settings, schema=CLASSES, person=person)
    apart = finished.held_out
    assert apart is not None
    assert (apart.units, len(apart.table)) == (units, 16_000)
    assert len(apart.names) == (1 if trust == "secure-sums" else 4)
    found = finished.infer(["age", "sex"])
    assert found.doubt is None
    assert found.records == units
    for one, truth in zip(found.coefficients, (-2.0, 0.04, 0.7), strict=True):
        assert one.value is not None
        assert abs(one.value - truth) < 3 * (one.high - one.low) / 2
        assert one.low < one.value < one.high


def test_a_regression_on_columns_needs_no_loss_of_its_own_for_the_model() -> None:
    finished = run(table(8000), SETTINGS | {"run.rounds": 2, "problem.loss": "huber"}, schema=NUMBER)
    with pytest.raises(InputError, match=r"got Huber; train such a model, or name --columns"):
        finished.infer()
    assert [one.name for one in finished.infer(["age", "sex"]).coefficients] == ["(intercept)", "age", "sex=M"]


@pytest.mark.slow
def test_two_or_three_columns_of_adult_have_numbers_where_all_of_them_are_refused() -> None:
    """What `docs/how-to/measure-a-model.md` says of its run; the noise has no seed."""
    settings = {
        "evaluation.held_out": 0.5, "evaluation.share": 0.4, "privacy.epsilon": 4.0, "partition.clients": 5,
        "run.participants": 5, "run.rounds": 10, "metrics.criterion": False,
    }  # fmt: skip
    finished = run("proved", settings)
    apart, model = finished.held_out, model_of(finished)
    assert apart is not None
    with pytest.raises(InputError, match="surely drown coefficients of 12 columns"):
        infer(apart, model, None)

    def told(*columns: str) -> list[Inference]:
        found = [infer(apart, model, None, None, columns) for _ in range(20)]
        return [one for one in found if one.doubt is None]

    assert len(told("age", "sex")) >= 18
    three = told("age", "sex", "hours-per-week")
    assert len(three) >= 10
    assert len(told("age", "sex", "hours-per-week", "education-num")) <= 10
    for one, truth in zip(three[0].coefficients[1:], PLAIN, strict=True):
        assert abs((one.value or 0.0) - truth) < 4 * (one.high - one.low) / 2


def test_a_number_has_coefficients_in_its_own_units() -> None:
    found = run(table(), SETTINGS, schema=NUMBER).infer()
    assert found.doubt is None
    for one, truth in zip(found.coefficients[1:], (0.1, 2.0), strict=True):
        assert one.value is not None
        assert abs(one.value - truth) < 3 * (one.high - one.low) / 2
    assert found.odds_ratios == ()


def test_where_noise_drowns_the_matrix_it_says_so_and_prints_no_number() -> None:
    one_age = table(5000).assign(age=50.0)  # which no public number tells
    finished = run(one_age, SETTINGS | {"run.rounds": 3}, schema=CLASSES)
    found = finished.infer()
    assert (found.doubt, found.coefficients, found.odds_ratios) == (TOO_NOISY, (), ())
    with pytest.raises(InputError, match="pays for one measurement, got a second question"):
        finished.evaluate()


def test_what_noise_would_surely_drown_is_refused_before_it_is_charged_with_the_columns_that_would_not_be(
    tmp_path: Path,
) -> None:
    create_ledger(tmp_path / "l.sqlite")
    with Ledger(tmp_path / "l.sqlite") as ledger:
        settings = SETTINGS | {"run.rounds": 3, "privacy.epsilon": 0.15}
        finished = run(table(8000), settings, ledger=ledger, schema=CLASSES, client="ward")
        with pytest.raises(
            InputError, match=r"2 columns \(3 with .* got 3999; nothing was charged. .* at most 1 of them"
        ):
            finished.infer()
        assert INFERENCE not in {one.mechanism for one in ledger.charges()}
        finished.infer(["age"])
        assert [one.times for one in ledger.charges() if one.mechanism == INFERENCE] == [1, 1]


def test_models_without_known_intervals_are_refused_before_anything_is_charged() -> None:
    finished = run(
        "proved",
        {
            "data.name": "digits",
            "evaluation.held_out": 0.2,
            "run.rounds": 1,
            "partition.clients": 2,
            "run.participants": 2,
            "metrics.criterion": False,
        },
    )
    with pytest.raises(InputError, match=r"known for two classes .* got 10 classes"):
        finished.infer()
    assert finished.held_out is not None
    assert not finished.held_out.inferred
