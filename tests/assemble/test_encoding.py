"""The plan chooses how finely columns are cut: by public numbers, the same for whoever knows them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedspd
from fedspd.assemble import prepare_experiment
from fedspd.assemble.expected import expected_of
from fedspd.assemble.records import encoding
from fedspd.assemble.records.encoding import encoded, noise_per_coordinate
from fedspd.config import Config, load
from fedspd.data import SOURCES, Cells, Numeric, Schema, encode
from fedspd.errors import InputError
from fedspd.report import save_run
from fedspd.scoring.model import load_model
from fedspd.target import Classes

PLAIN: dict[str, Any] = {
    "metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0, "run.rounds": 3,
    "run.participants": None, "partition.clients": 5,
    "problem.clip_norm": 0.5,
}  # fmt: skip
CLASSES = Classes("state", ("ill", "well"))


def proved(**changes: Any) -> Config:
    return load("proved", PLAIN | {name.replace("__", "."): value for name, value in changes.items()})


def adult() -> Cells:
    config = proved()
    return SOURCES["adult"].read(config.data.source)


def noise(**changes: Any) -> float:
    return noise_per_coordinate(proved(**changes), 32_561, CLASSES, 81)


def widths(cells: Cells) -> dict[str, int]:
    return {column.name: len(column.features) for column in cells.schema.inputs if isinstance(column, Numeric)}


def test_adult_is_cut_finely_where_noise_is_small_and_not_at_all_where_it_is_large() -> None:
    fine, coarse = (encoded(proved(privacy__epsilon=epsilon), adult()) for epsilon in (8.0, 0.1))
    assert widths(fine) == {
        "age": 8, "education-num": 8, "capital-gain": 16, "capital-loss": 16, "hours-per-week": 8,
    }  # fmt: skip
    assert set(widths(coarse).values()) == {1}
    np.testing.assert_array_equal(coarse.train.features, adult().train.features)
    assert encoded(proved(data__encode="declared"), adult()) is adult()


def test_the_paper_keeps_its_81_columns() -> None:
    assert load("published").data.encode == "declared"
    assert len(prepare_experiment(load("published")).recipe.schema.columns) == 81


def test_noise_is_that_of_all_uploads_together_however_a_budget_is_given() -> None:
    """Twice the shards of half the size: root two times the noise. A round's budget is that of one, rounds times."""
    usual = noise()
    assert noise(partition__clients=20) == pytest.approx(2 * usual)
    assert noise(run__rounds=50) == pytest.approx(usual, rel=1e-3), "rounds of a total budget are free"
    assert noise(run__rounds=4, privacy__budget="round") == pytest.approx(usual / 2, rel=1e-3)
    event = prepare_experiment(proved(data__scaling="min-max")).plan
    multiplier = float(getattr(event, "noise_multipliers")[0])  # noqa: B009
    by_multiplier = noise(privacy__noise_multiplier=multiplier, privacy__epsilon=None)
    assert by_multiplier == pytest.approx(usual, rel=1e-3)
    assert noise(algorithm__batch_size=50) > usual, "what batches leave out counts"
    assert noise(algorithm__batch_size=10**6) == pytest.approx(usual, rel=1e-3)


def test_noise_of_another_law_counts_by_what_it_puts_on_a_coordinate() -> None:
    """In many dimensions spherical noise costs little more than Gaussian noise does, in few much less."""
    pure = proved(algorithm__name="one-shot", run__rounds=None, problem__regularizer="squared-l2")
    assert noise() < noise_per_coordinate(pure, 32_561, CLASSES, 81) < 1.2 * noise()
    in_three = 2 * 0.5 * 4**0.5 / (32_561 / 5 * 5**0.5)  # of scale 1, with a squared length of 3 times 4
    assert noise_per_coordinate(pure, 32_561, CLASSES, 1) == pytest.approx(in_three, rel=0.01)


def test_what_no_plan_can_be_made_for_is_refused_by_the_plan_and_not_by_the_encoding() -> None:
    with pytest.raises(InputError, match=r"^privacy.epsilon must be finite for a proved guarantee, got inf; use"):
        prepare_experiment(proved(privacy__epsilon=float("inf")))


def frame(seed: int, spread: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": 50 + spread * rng.standard_normal(4000), "site": rng.integers(0, 4, 4000).astype(str)})
    return table.assign(state=np.where(table["age"] > 50, "ill", "well"))


SCHEMA = Schema((Numeric("age", 0, 100, 50),), CLASSES, client="site")
OWN: dict[str, Any] = {"run.rounds": 3, "privacy.epsilon": 8.0}


def chosen(table: pd.DataFrame) -> Schema:
    return fedspd.run(table, OWN, schema=SCHEMA).recipe.schema


def test_the_choice_depends_on_no_cell() -> None:
    assert (
        chosen(frame(0, 0.1))
        == chosen(frame(1, 30.0))
        == replace(SCHEMA, inputs=(replace(SCHEMA.inputs[0], spline=8),))
    )


def test_planting_a_choice_that_looks_at_cells_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def peeking(config: Config, cells: Cells) -> Cells:
        spread = float(cells.train.cells["age"].std())
        return encoded(config, cells) if spread > 1 else cells

    monkeypatch.setattr("fedspd.assemble.build.encoded", peeking)
    assert chosen(frame(0, 0.1)) != chosen(frame(1, 30.0))


def test_a_folder_scores_new_records_by_the_encoding_that_was_chosen(tmp_path: Path) -> None:
    run = fedspd.run(proved(privacy__epsilon=8.0))
    save_run(tmp_path, run.record(), run.model())
    model, test = load_model(tmp_path), adult().test
    assert test is not None
    assert model.recipe.schema == run.recipe.schema != adult().schema
    predicted = model.predictions(model.scores(encode(test.cells, model.recipe.schema)))
    assert np.mean(predicted == np.asarray(run.classes)[test.labels]) == run.summary.test_accuracy


def test_runs_of_one_budget_share_the_encoded_records() -> None:
    encoding._remembered.cache_clear()
    first, second = (encoded(proved(run__seed=seed), adult()) for seed in (0, 1))
    assert first is second


def test_an_estimator_bends_where_that_pays_and_stays_straight_where_it_is_told_to() -> None:
    table = frame(0, 20.0)
    far = np.where(abs(table["age"] - 50) > 15, "ill", "well")  # no straight line tells them apart
    bent, straight = (
        fedspd.FedSPDClassifier(epsilon=8, delta=1e-5, bounds=(0, 100), random_state=0, settings=settings).fit(
            table[["age"]], far, groups=table["site"]
        )
        for settings in (None, {"data.encode": "declared"})
    )
    assert bent.coef_.shape == (1, 8)
    assert straight.coef_.shape == (1, 1)
    assert bent.score(table[["age"]], far) > 0.85 > straight.score(table[["age"]], far) + 0.2


def test_shares_of_noise_add_up_and_say_what_was_chosen() -> None:
    told = expected_of(proved(privacy__epsilon=8.0), adult()).told
    shares = [one["share_of_noise"] for one in told["columns"]]
    assert sum(shares) + 1 / told["coordinates"] == pytest.approx(1), "the bias has the rest"
    by_name = {one["column"]: one for one in told["columns"]}
    assert by_name["age"]["encoding"] == "spline of 8 functions"
    assert by_name["capital-gain"]["encoding"] == "16 logarithmic bins"
    country = by_name["native-country"]
    assert (country["encoding"], country["coordinates"]) == ("41 levels, less the first", 40)
    assert country["saved_by_half_as_many"] == pytest.approx(country["share_of_noise"] / 2)
    assert told["noise_per_coordinate"] == pytest.approx(noise(privacy__epsilon=8.0))
