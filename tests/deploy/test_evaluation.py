"""A model measured between sites: as a simulation measures it, on records that nobody trained on, paid for once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.assemble import agree
from fedspd.assemble.finished.evaluation import Asked, concluded, evaluate_folder
from fedspd.assemble.finished.inference import infer_folder
from fedspd.assemble.finished.selection import select
from fedspd.assemble.records.held_out import seed_key
from fedspd.data import Recipe, Shards, Table, finish, read_table
from fedspd.data.dataset import Category
from fedspd.data.holding.held_out import hold_out_by_key
from fedspd.data.holding.units import Units
from fedspd.deploy.protocol import wire
from fedspd.deploy.server.settings import Measure
from fedspd.deploy.site.approval import question_of
from fedspd.engine import Simulation, simulate, stream
from fedspd.errors import InputError
from fedspd.evaluate.counting import counting_under, places_by
from fedspd.privacy.ledger import Ledger
from fedspd.privacy.ledger.key import EVALUATION
from fedspd.report import save_run
from fedspd.results.evaluation import Evaluation, write_evaluations
from fedspd.scoring.model import Model
from fedspd.statement import claimed
from fedspd.statement.beside import with_beside
from tests.deploy.masks.test_secure import silent_at
from tests.deploy.test_equal import LITTLE_NOISE, PENALTY, ROUNDS, STEP, sites_draws
from tests.deploy.test_persons import about_persons
from tests.support.deploy.loopback import Handler, honest
from tests.support.deploy.sites import Federation, federation

SITES, SEED, SHARE = 3, 3, 0.25
HELD: dict[str, Any] = {"evaluation__held_out": SHARE}
POLICY = {"policy.held_out": SHARE}
RUNS: dict[str, dict[str, Any]] = {
    "label by score bin": {},
    "by the levels of a column": {"measure__subgroup": "color", "measure__bins": 4, "measure__least_size": 5},
    "the mean of the last models": {"measure__average": True},
    "by person": {"privacy__unit": "person"},
    "three classes": {},
}


def table_of_all(made: Federation, unit: Any) -> tuple[Table, np.ndarray]:
    """The records of all sites in one table, and where each site's begin; persons of two sites are two."""
    tables = [read_table(path.parent / "records.csv", made.schema, unit) for path in made.sites]
    joined = replace(
        tables[0],
        features=np.concatenate([table.features for table in tables]),
        labels=np.concatenate([table.labels for table in tables]),
        cells={name: np.concatenate([table.cells[name] for table in tables]) for name in tables[0].cells},
        attributes={},
        persons=None if tables[0].persons is None else Category.of(np.concatenate([named(each) for each in tables])),
    )
    return joined, np.concatenate([[0], np.cumsum([len(table) for table in tables])])


def named(table: Table) -> np.ndarray:
    assert table.persons is not None
    return np.asarray(table.persons.levels)[table.persons.codes]


def simulated(made: Federation) -> Evaluation:
    """The same run and measurement by the simulator's parts, with the sites' own draws."""
    config, measure, schema = made.settings.for_sites(SITES), made.settings.measure, made.schema
    table, offsets = table_of_all(made, config.privacy.unit)
    norm, width = config.data.row_norm, len(schema.columns)
    assert norm is not None
    recipe = Recipe(schema, "unit", np.zeros(width), np.ones(width), config.data.bias, norm)
    features = finish(table.features, np.zeros(width), np.ones(width), config.data.bias, norm)
    scaled = table.with_features(features, recipe.columns)
    owners = np.repeat(np.arange(SITES), np.diff(offsets))
    units = None if table.persons is None else Units.of(owners, table.persons.codes, SITES)
    dealt = Shards(table.features, table.labels, offsets, None, config.problem.counts, units)  # pyright: ignore
    shards, held = hold_out_by_key(table, dealt, SHARE, seed_key(SEED), scaled)
    agreed = agree(config, shards.holdings, features.shape[1], schema.target)
    simulation = Simulation(
        shards, scaled, agreed.algorithm, agreed.plan, config.algorithm.work.batch_size, config.participants,
        agreed.rounds, config.seed, lagrangian=False,
    )  # fmt: skip
    trained = simulate(simulation, drawn=lambda round, chosen: sites_draws(simulation, round, chosen))
    weights = trained.average(config.run.average_last) if measure.average else trained.weights
    asked = Asked(measure.average, measure.bins, measure.subgroup or None, measure.least_size)
    counting, model = (
        counting_under(schema, measure.bins, asked.subgroup),
        Model(weights, recipe, agreed.algorithm.objective.loss),
    )
    places = places_by(model, features[held.rows] @ weights, table.rows(held.rows), counting, asked.subgroup)
    counts = np.asarray(counting.query(places, held.weights, held.owners, SITES).value)
    scales = agreed.plan.evaluation_scale(counting.sensitivity(agreed.plan.relation))
    normals = [stream(SEED, "evaluation", 0, place).standard_normal((1, counts.shape[1]))[0] for place in range(SITES)]
    released = np.sum(counts + scales[:, None] * np.array(normals), axis=0)
    return concluded(agreed.plan, counting, released, scales, asked, model, 1, held.units, charged=False)


@pytest.mark.parametrize("what", RUNS)
def test_a_deployed_measurement_is_the_simulated_one_with_the_same_draws(what: str, tmp_path: Path) -> None:
    fixed: dict[str, Any] = {"federation__fixed_draws": True, "run__rounds": ROUNDS, "run__seed": SEED}
    run: dict[str, Any] = {**LITTLE_NOISE, **fixed, **STEP, **PENALTY, **HELD, **RUNS[what]}
    made = federation(tmp_path, SITES, 161, protected=False, **run)
    if what == "by person":
        about_persons(made)
    if what == "three classes":
        for schema in (made.folder / "schema.toml", *(path.parent / "schema.toml" for path in made.sites)):
            schema.write_text(schema.read_text().replace('"no", "yes"', '"no", "yes", "perhaps"'))
    server = made.server()
    server.run()
    found, expected = server.evaluation, simulated(made)
    assert found is not None
    assert {one.name for one in found.measures} >= {"accuracy"}
    assert len(found.measures) == len(expected.measures)
    np.testing.assert_allclose(np.concatenate(found.counts), np.concatenate(expected.counts), rtol=0, atol=1e-9)
    for ours, theirs in zip(found.measures, expected.measures, strict=True):
        assert (ours.name, ours.group, ours.at) == (theirs.name, theirs.group, theirs.at)
        numbers = [[one.value or 0.0, one.low, one.high] for one in (ours, theirs)]
        np.testing.assert_allclose(*numbers, rtol=1e-9, atol=1e-9)
    blank = {"counts": (), "measures": ()}
    assert replace(found, **blank) == replace(expected, **blank)


def measured(made: Federation) -> Evaluation:
    server = made.server()
    server.run()
    assert server.evaluation is not None
    return server.evaluation


def charged(made: Federation, place: int) -> list[str]:
    """What a site's ledger was charged for, in order."""
    with Ledger(made.sites[place].parent / "ledger.db") as ledger:
        return [one.mechanism for one in ledger.charges() for _ in range(one.times)]


def test_every_site_pays_for_its_rounds_and_then_once_for_its_counts(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, **HELD)
    found = measured(made)
    assert [charged(made, place) for place in range(SITES)] == [["fedspd"] * 3 + [EVALUATION]] * SITES
    assert found.records == sum(size // 4 for size in (200, 207, 214))
    plan = made.terms().agreed(made.schema).plan
    with Ledger(made.sites[0].parent / "ledger.db") as ledger:
        last = list(ledger.charges())[-1]
    assert last.event == plan.groups[plan.group[0]].evaluation
    assert "0.05 of the squared budget is kept to measure the model on 154 held-out records" in "\n".join(made.said)
    (site, *_) = made.saved.roster
    assert (site.charges, site.planned) == (4, 4)
    assert site.epsilon <= 1.0
    assert found.charged


def test_what_a_run_says_it_spent_has_the_measurement_in_it(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, data__scaling="noisy-moments", **HELD)
    run = made.server().run()
    stated = run.summary.epsilon_spent_max
    assert stated is not None
    assert max(member.epsilon for member in made.saved.roster) <= stated + 1e-9
    assert stated <= 1.0
    trained = run.history.last("epsilon_max")
    assert trained < stated - 0.005, "rounds alone cost less"


def test_a_finished_run_is_read_again_for_free_and_asked_nothing_else(tmp_path: Path) -> None:
    made = federation(tmp_path / "sites", SITES, 200, POLICY, **HELD, measure__bins=4)
    server, folder = made.server(), tmp_path / "run"
    run, folder_of_another = server.run(), tmp_path / "other"
    for each in (folder, folder_of_another):
        each.mkdir()
        save_run(each, run.record(), run.model())
    assert server.evaluation is not None
    write_evaluations(folder, (server.evaluation,))
    assert evaluate_folder(folder, Asked(bins=4)) == server.evaluation
    again = rf"are at its sites, which measure a model once.*`fedspd evaluate {folder} --bins 4`"
    for question in (
        lambda: evaluate_folder(folder, Asked(bins=8)),
        lambda: evaluate_folder(folder, Asked(bins=4), again=True),
        lambda: infer_folder(folder),
        lambda: select([folder, folder_of_another]),
    ):
        with pytest.raises(InputError, match=again):
            question()
    with pytest.raises(InputError, match=r"lead a new run with evaluation\.held_out in federation\.toml\.$"):
        evaluate_folder(folder_of_another, Asked())
    filed = with_beside(claimed(run.record(), run.planned, run.model()), folder)
    assert filed["evaluation"]["charged"] is True
    assert "charged to each site's ledger, within the run's epsilon." in filed["evaluation"]["told"]
    assert sum(one["count"] for one in filed["guarantee"]["planned"]) == 4, "three rounds and the counts"


def test_a_person_who_confirms_a_run_reads_what_is_held_out(tmp_path: Path) -> None:
    made = federation(tmp_path, 1, 200, POLICY, **HELD, measure__subgroup="color")
    text = question_of(made.terms(), made.terms().agreed(made.schema).plan)
    assert (
        "50 of them are held out; counts of these by label and 10 score bins, by the levels of color are released once"
    ) in text
    assert "evaluation.held_out = 0.25" in text


def test_later_runs_hold_out_the_same_records(tmp_path: Path) -> None:
    made = federation(tmp_path, 1, 200, POLICY | {"budget.epsilon": 3.0}, **HELD)
    for run in ("run-1", "run-2"):
        made.enter(run=run)
    with made.store() as store:
        first, second = (run.records for run in store.runs())
    assert first == second
    assert len(first.split()) == 2


def test_a_site_that_does_not_answer_is_not_counted(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, **HELD)
    made.grid.handlers[made.node(1)] = silent_at("train.count")
    found = measured(made)
    assert (found.clients, found.records) == (2, 50 + 53)


def test_where_too_few_answer_the_same_command_goes_on_and_nobody_pays_twice(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, federation__quorum=SITES, **HELD)
    made.grid.handlers[made.node(1)] = silent_at("train.count")
    with pytest.raises(InputError, match=r"got 2 that measured the model; the same command goes on after round 3\.$"):
        made.server().run()
    before = [made.charges(place) for place in range(SITES)]
    found = measured(made)
    assert found.clients == SITES
    assert [made.charges(place) for place in range(SITES)] == before == [4, 4, 4]
    server = made.server()
    server.run()
    assert server.evaluation == found, "what is kept says the same"


def test_where_too_few_may_answer_at_all_the_run_ends_without_a_measurement(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, 200, POLICY, federation__quorum=2, **HELD)

    def forbids(message: Any, path: Path) -> Any:
        if message.metadata.message_type == "train.count":
            path.write_text(path.read_text().replace("held_out = 0.25\n", ""))
        return honest(message, path)

    made.grid.handlers[made.node(0)] = forbids
    server = made.server()
    run = server.run()
    assert server.evaluation is None
    assert run.summary.rounds == 3
    assert "no record is held out here to measure models on" in made.saved.roster[0].retired
    assert "the model is not measured: 1 sites released counts" in made.said
    assert [made.charges(place) for place in (0, 1)] == [3, 4]


def with_counts(change: Any) -> Handler:
    """A site that sends something else in its counts' place."""

    def handler(message: Any, path: Path) -> Any:
        answer = honest(message, path)
        if message.metadata.message_type != "train.count":
            return answer
        reply = wire.read_answer(answer, "train.count")
        return wire.answer(message, reply._replace(**change(reply)))

    return handler


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda reply: {"counts": np.full_like(reply.counts, np.nan)}, "it is not finite"),
        (lambda reply: {"counts": 1e6 + reply.counts}, "its norm is"),
        (lambda reply: {"counts": reply.counts[:-1]}, r"it is float64 of shape (19,)"),
        (lambda reply: {"charges": 9}, "it is numbered 9, and"),
        (lambda reply: {"terms": "0" * 24}, "it is under other terms"),
    ],
)
def test_counts_that_cannot_be_are_left_out_of_the_sum(change: Any, why: str, tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, **HELD)
    made.grid.handlers[made.node(0)] = with_counts(change)
    found = measured(made)
    assert found.clients == 2
    assert any(line.startswith(f"the measurement: the reply of site-0 is rejected: {why}") for line in made.said)


def test_a_site_too_small_to_hold_anything_out_is_left_out_by_name(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, 120, {"policy.held_out": 0.008, "policy.min_batch": 1}, evaluation__held_out=0.008)
    measured(made)
    assert any(
        line.startswith("site-0 is left out, with 120 records: evaluation.held_out must leave") for line in made.said
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"measure.bins": 7}, "bins must be an even number"),
        ({"measure.subgroup": "age"}, "a subgroup column must be a declared column of levels"),
        ({"measure.bins": 10**6}, "bins must be an even number from 2 to 1000, got 1000000"),
    ],
)
def test_what_cannot_be_counted_is_refused_before_the_first_round(
    changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    made = federation(tmp_path, 1, 200, POLICY, **HELD)
    made.values |= changes
    with pytest.raises(InputError, match=why):
        made.server()
    assert made.charges() == 0


def test_records_of_a_person_never_stand_on_both_sides(tmp_path: Path) -> None:
    made = about_persons(federation(tmp_path, 1, 200, POLICY, **HELD))
    with pytest.raises(InputError, match="records of one person must not be trained on and held out at once"):
        made.server()


def test_a_federation_says_how_to_measure_only_where_something_is_held_out(tmp_path: Path) -> None:
    made = federation(tmp_path)
    with pytest.raises(InputError, match=r"^\[measure\] has no effect without evaluation\.held_out"):
        made.settings_with({"measure.bins": 20})
    assert made.settings.measure == Measure()
