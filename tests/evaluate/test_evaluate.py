"""`fedspd evaluate`: charged before it is released, read again for free, and honest about what it knows."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedspd import run
from fedspd.assemble.agreement.planning import plan_of
from fedspd.assemble.finished.evaluation import Asked, evaluate_folder
from fedspd.assemble.finished.inference import infer_folder
from fedspd.assemble.finished.selection import select
from fedspd.config import load
from fedspd.data import SOURCES, parse_schema
from fedspd.errors import InputError
from fedspd.evaluate.counting import CELLS_MOVED
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.privacy.ledger.key import EVALUATION, key_path
from fedspd.report import folders_page
from fedspd.results.evaluation import read_evaluations, write_evaluations
from fedspd.results.files import held
from tests.support.command import run_script

SETTINGS = {
    "evaluation.held_out": 0.3, "partition.clients": 4, "run.participants": 4, "run.rounds": 3, "run.seed": 5,
    "metrics.criterion": False, "privacy.epsilon": 4.0,
}  # fmt: skip
OPTIONS = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={str(value).lower()}")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "first"
    done = run_script(folder.parent, "run", *OPTIONS, "--out", str(folder), "--quiet")
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def charges(folder: Path) -> list[int]:
    with Ledger(folder / "ledger.sqlite") as ledger:
        return [charged.times for charged in ledger.charges() if charged.mechanism == EVALUATION]


def test_a_model_is_measured_once_for_one_charge_and_read_again_for_free(folder: Path) -> None:
    first = evaluate_folder(folder, Asked())
    assert charges(folder) == [1] * 4
    assert evaluate_folder(folder, Asked()) == first
    assert charges(folder) == [1] * 4
    assert read_evaluations(folder) == (first,)
    assert first.charged
    assert first.number == 1


def test_another_question_is_another_charge_and_is_refused_where_nothing_is_left(folder: Path) -> None:
    evaluate_folder(folder, Asked())
    for question, again in ((Asked(), True), (Asked(bins=4), False), (Asked(average=True), False)):
        with pytest.raises(InputError, match="budget left for a measurement, got some without, for evaluation 2"):
            evaluate_folder(folder, question, again=again)
    assert charges(folder) == [1] * 4
    assert len(read_evaluations(folder)) == 1


def test_counts_by_subgroup_answer_a_question_about_all_records_for_free(folder: Path) -> None:
    parts = evaluate_folder(folder, Asked(subgroup="sex"))
    before = (folder / "evaluation.json").read_bytes()
    assert evaluate_folder(folder, Asked()) == parts
    assert parts.of("accuracy").group is None
    assert (folder / "evaluation.json").read_bytes() == before
    with pytest.raises(InputError, match="every client must have budget left for a measurement"):
        evaluate_folder(folder, Asked(), again=True)
    with pytest.raises(InputError, match="every client must have budget left for a measurement"):
        evaluate_folder(folder, Asked(bins=4))


def test_another_least_size_of_subgroups_is_read_from_the_same_counts_for_free(folder: Path) -> None:
    first = evaluate_folder(folder, Asked(subgroup="sex"))
    before = charges(folder)
    fewer = evaluate_folder(folder, Asked(subgroup="sex", least_size=10**6))
    assert charges(folder) == before
    assert {one.group for one in first.measures} > {one.group for one in fewer.measures} == {None}
    assert (fewer.counts, fewer.least_size) == (first.counts, 10**6)
    assert evaluate_folder(folder, Asked(subgroup="sex")) == first


def test_what_is_measured_is_what_a_test_set_says(folder: Path) -> None:
    found, test = evaluate_folder(folder, Asked(subgroup="sex")), json.loads((folder / "summary.json").read_text())
    accuracy = found.of("accuracy")
    half = (accuracy.high - accuracy.low) / 2
    assert accuracy.value is not None
    assert abs(accuracy.value - test["test_accuracy"]) < 3 * half  # the noise has no seed: one in a hundred million
    assert accuracy.high - accuracy.low < 0.12
    assert found.records == sum(int(0.3 * size) for size in (8141, 8140, 8140, 8140))
    assert {one.group for one in found.measures if one.group} == {"Female", "Male"}
    auc = found.of("AUC of the binned scores")
    assert 0.7 < auc.low < auc.high <= 1.0


def test_the_counts_in_the_folder_carry_the_noise_that_was_paid_for(folder: Path) -> None:
    found = evaluate_folder(folder, Asked())
    (counts,) = (np.array(table) for table in found.counts)
    with Ledger(folder / "ledger.sqlite") as ledger:
        (event,) = {charged.event for charged in ledger.charges() if charged.mechanism == EVALUATION}
    assert found.noise == pytest.approx(event.noise_multiplier * np.sqrt(CELLS_MOVED["replace-one"]) * np.sqrt(4))
    assert (counts != np.round(counts)).all()
    assert abs(counts.sum() - found.records) < 6 * found.noise * np.sqrt(counts.size)


def test_the_budget_of_the_measurement_is_kept_by_the_rounds() -> None:
    plain = run("proved", {name: value for name, value in SETTINGS.items() if name != "evaluation.held_out"})
    kept = run("proved", SETTINGS)
    assert kept.summary.epsilon == plain.summary.epsilon == 4.0
    assert kept.summary.noise_multiplier is not None
    assert plain.summary.noise_multiplier is not None
    assert kept.summary.noise_multiplier > plain.summary.noise_multiplier
    assert kept.summary.epsilon_spent_max is not None
    assert kept.summary.epsilon_spent_max < 4.0
    assert kept.summary.records == 32561 - 3 * int(0.3 * 8140) - int(0.3 * 8141)


def test_a_run_in_memory_is_measured_once_without_a_ledger() -> None:
    finished = run("proved", SETTINGS)
    first = finished.evaluate()
    assert finished.evaluate() is first
    assert not first.charged
    with pytest.raises(InputError, match="a plan without a ledger pays for one measurement, got a second question"):
        finished.evaluate(bins=4)
    with pytest.raises(InputError, match="pays for one measurement"):
        finished.evaluate(again=True)
    with pytest.raises(InputError, match="got one that held out none"):
        run("proved", SETTINGS | {"evaluation.held_out": None}).evaluate()


def test_later_runs_on_a_ledger_hold_out_the_same_records_and_pay_for_each_measurement(tmp_path: Path) -> None:
    create_ledger(path := tmp_path / "shared.sqlite")
    digests = set()
    with Ledger(path) as ledger:
        for seed in (1, 2):
            changes = {"run.seed": seed, "partition.seed": 9, "data.row_norm": 0.5 + seed}
            finished = run("proved", SETTINGS | changes, ledger=ledger, ledger_epsilon=20.0)
            assert finished.held_out is not None
            digests.add(finished.held_out.digest)
            assert finished.evaluate().number == 1
            assert finished.evaluate(bins=4).number == 2  # the ledger has room for it
            assert finished.evaluate(again=True).number == 3
        counted = [charged.times for charged in ledger.charges() if charged.mechanism == EVALUATION]
    assert len(digests) == 1
    assert counted == [3] * 8


def test_a_ledger_without_its_key_is_refused_and_so_is_another_key(folder: Path) -> None:
    key = key_path(folder / "ledger.sqlite")
    assert key.stat().st_mode & 0o077 == 0
    kept = key.read_bytes()
    key.write_bytes(bytes(32))
    with pytest.raises(InputError, match="held out must be there still, got others"):
        evaluate_folder(folder, Asked())
    key.write_bytes(b"short")
    with pytest.raises(InputError, match="must have 32 bytes, got 5"):
        evaluate_folder(folder, Asked())
    key.write_bytes(kept)
    evaluate_folder(folder, Asked())
    key.unlink()
    with pytest.raises(InputError, match="must stay beside its ledger, got none"):
        evaluate_folder(folder, Asked(bins=4))
    assert charges(folder) == [1] * 4


def test_nobody_who_is_held_out_is_trained_on() -> None:
    finished = run("proved", SETTINGS | {"partition.clients": 3, "run.participants": 3})
    assert finished.held_out is not None
    everybody = SOURCES["adult"].read(finished.config.data.source).train
    assert len(finished.held_out.table) + (finished.summary.records or 0) == len(everybody)


@pytest.mark.parametrize("name", ["digits", "diamonds", "visits"])
def test_other_targets_are_measured_too(name: str, tmp_path: Path) -> None:
    unit = "person" if name == "visits" else "record"  # visits name patients
    finished = run("proved", SETTINGS | {"data.name": name, "privacy.epsilon": 8.0, "privacy.unit": unit})
    found = finished.evaluate()
    names = {one.name for one in found.measures}
    assert names >= ({"accuracy", "observed share"} if name == "digits" else {"mean residual", "share within"})
    write_evaluations(tmp_path, (found,))
    assert read_evaluations(tmp_path) == (found,)


POISSON = {"algorithm.sampling": "poisson", "algorithm.batch_size": 20, "run.rounds": 2}
BY_PERSON = {"data.name": "visits", "privacy.unit": "person", "privacy.epsilon": 8.0}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            POISSON,
            "which zero-out neighbors do not cover, got evaluation.held_out = 0.2 with algorithm.sampling = poisson",
        ),
        ({"data.name": "visits"}, "records of one person must not be trained on and held out at once, got"),
    ],
    ids=["an empty record sends others to the other side", "a record of somebody else moves its person"],
)
def test_records_are_not_held_out_where_neighbors_would_differ_in_others_too(changes: dict[str, Any], why: str) -> None:
    settings = SETTINGS | changes | {"evaluation.held_out": 0.2}
    with pytest.raises(InputError, match=re.escape(why)):
        run("proved", settings)
    config = load("proved", settings)
    with pytest.raises(InputError, match=re.escape(why)):
        plan_of(config, SOURCES[config.data.name].read(config.data.source))


def test_an_empty_person_keeps_its_name_and_its_side() -> None:
    assert run("proved", SETTINGS | BY_PERSON | POISSON).evaluate().measures


def test_secure_sums_put_the_noise_of_one_cohort_on_the_counts() -> None:
    sums = {"privacy.trust": "secure-sums", "problem.counts": "records", "partition.clients": 20}
    finished = run("proved", SETTINGS | sums | {"run.participants": 20})
    found = finished.evaluate()
    assert found.clients == 1  # cohort
    apart = finished.held_out
    assert apart is not None
    assert found.noise == pytest.approx(float(apart.plan.evaluation_scale(np.sqrt(2))[0]))


def test_the_command_prints_tables_a_picture_and_json_and_the_report_has_a_section(folder: Path) -> None:
    done = run_script(folder.parent, "evaluate", str(folder))
    assert done.code == 0, done.err
    assert "balanced accuracy" in done.out
    assert (folder / "evaluation.png").stat().st_size > 10_000
    again = run_script(folder.parent, "evaluate", str(folder), "--json")
    assert json.loads(again.out)["number"] == 1
    assert "Measurement 1 on private records" in [section.title for section in folders_page([folder]).sections]


@pytest.mark.parametrize("kind", ["evaluate", "infer", "select"])
def test_two_processes_charge_for_one_run_one_after_the_other(folder: Path, tmp_path: Path, kind: str) -> None:
    both = [folder, Path(shutil.copytree(folder, tmp_path / "other"))]
    asked: dict[str, Callable[[], Any]] = {
        "evaluate": lambda: evaluate_folder(folder, Asked()),
        "infer": lambda: infer_folder(folder, columns=("age",)),
        "select": lambda: select(both),
    }
    with held(folder) as taken:
        assert taken
        with pytest.raises(InputError, match="which another process is at; wait for it"):
            asked[kind]()
    assert charges(folder) == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"bins": 3}, "bins must be an even number"),
        ({"bins": 10_000}, "from 2 to 1000, got 10000"),
        ({"subgroup": "age"}, "a declared column of levels, got 'age'"),
        ({"least_size": 0}, "must be at least 1, got 0"),
        ({"least_size": 50}, "a least size is of subgroups, got 50 and no subgroup; name its column"),
    ],
)
def test_bad_questions_are_refused_and_cost_nothing(folder: Path, question: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        evaluate_folder(folder, Asked(**question))
    assert charges(folder) == []


def test_a_run_that_held_out_nothing_is_refused_and_says_how_to_hold_out(tmp_path: Path, folder: Path) -> None:
    (folder / "held-out.json").unlink()
    with pytest.raises(InputError, match=r"held out none; run it again with --set evaluation.held_out=0.2"):
        evaluate_folder(folder, Asked())
    with pytest.raises(InputError, match=r"evaluation\.held_out would have no effect"):
        run("published", {"evaluation.held_out": 0.2})
    with pytest.raises(InputError, match=r"data\.moments_share and evaluation\.share must leave a part of the budget"):
        run("proved", SETTINGS | {"evaluation.share": 0.95})
    create_ledger(path := tmp_path / "l.sqlite")
    with Ledger(path) as ledger, pytest.raises(InputError, match=r"kept nowhere; set partition\.seed"):
        run("proved", SETTINGS | {"run.seed": None}, ledger=ledger)


def test_persons_are_held_out_whole_and_counted_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    persons = rng.integers(0, 400, 1500)
    frame = pd.DataFrame({"who": [f"p{n}" for n in persons], "x": rng.uniform(0, 1, 1500)})
    frame["ward"], frame["ill"] = persons % 2, np.where(frame["x"] + rng.normal(0, 0.3, 1500) > 0.5, "yes", "no")
    schema = parse_schema(
        {
            "client": "ward", "person": "who", "target": {"column": "ill", "classes": ["no", "yes"]},
            "columns": [{"name": "x", "bounds": [0, 1]}],
        }
    )  # fmt: skip
    settings = {"evaluation.held_out": 0.25, "privacy.unit": "person", "run.rounds": 3, "run.seed": 1}
    finished = run(frame, settings | {"privacy.delta": 1e-4}, schema=schema)
    present = np.unique(persons)
    assert finished.held_out is not None
    held = finished.held_out.table.persons
    assert held is not None
    assert (
        finished.held_out.units
        == len(np.unique(held.codes))
        == sum(int(0.25 * (present % 2 == ward).sum()) for ward in (0, 1))
    )
    found = finished.evaluate(bins=4)
    assert (found.unit, found.records) == ("person", finished.held_out.units)
    assert found.sensitivity == pytest.approx(np.sqrt(2))
