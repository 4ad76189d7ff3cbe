"""A site measures a model: as its owner allows, on what it held out, charged before, once, and never trained on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fedspd.data import parse_schema
from fedspd.deploy.protocol.counts import check_counts
from fedspd.deploy.protocol.messages import COUNTS, Count, Counted, CountMasked, Enter, Entered, Refused
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.setup.check import check_site
from fedspd.deploy.site.client import HERE, Client
from fedspd.deploy.site.computing.tables import Cut, Held
from fedspd.deploy.site.spending import EnteredRun
from fedspd.deploy.site.store import Store
from fedspd.errors import InputError
from fedspd.privacy.ledger.key import EVALUATION, key_path
from tests.deploy.site.test_client import die, in_a_process_that_is_killed
from tests.deploy.site.test_policy import moved, refused
from tests.deploy.test_persons import about_persons, persons
from tests.support.deploy.sites import Federation, ask, federation, play

SHARE = 0.25
HELD: dict[str, Any] = {"evaluation__held_out": SHARE}
POLICY = {"policy.held_out": SHARE}


def question(terms: Terms, weights: np.ndarray | float = 0.5, **changes: Any) -> Count:
    values = np.broadcast_to(np.asarray(weights, np.float64), (6, 2)).copy()
    return Count(terms.digest, values, np.zeros(5), np.ones(5))._replace(**changes)


def counts(made: Federation, terms: Terms, **changes: Any) -> Counted:
    answer = made.tell(0, question(terms, **changes))
    assert isinstance(answer, Counted), answer
    return answer


def site(folder: Path, **run: Any) -> Federation:
    return federation(folder, 1, 200, POLICY, **(HELD | run))


def test_the_same_model_is_measured_once_and_answered_the_same(tmp_path: Path) -> None:
    made = site(tmp_path)
    terms = made.enter()
    first, again = counts(made, terms), counts(made, terms)
    assert first.counts.tobytes() == again.counts.tobytes()
    assert first.counts.shape == (20,)
    assert (first.charges, again.charges, made.charges()) == (1, 1, 1)
    assert play(made, terms).charges == 2, "rounds go on"
    assert isinstance(made.tell(0, ask(terms, round=2, acknowledged=1)), Refused), "counts are no part of a sum"


@pytest.mark.parametrize(
    "change", [{"weights": 0.5 + 1e-12}, {"mean": np.full(5, 1e-12)}, {"deviation": np.full(5, 1 + 1e-12)}]
)
def test_another_model_is_not_measured_for_the_same_charge(change: dict[str, Any], tmp_path: Path) -> None:
    made = site(tmp_path)
    terms = made.enter()
    counts(made, terms)
    refused(made, made.tell(0, question(terms, **change)), "the run plans one measurement", charges=1)


MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "a weight that is no number": ({"weights": moved(value=np.nan)}, "finite and at most 1000"),
    "a weight a little too large": ({"weights": moved(value=-1000.001)}, "finite and at most 1000"),
    "weights of another shape": ({"weights": moved((5, 2))}, "matrix of shape (6, 2)"),
    "weights that are whole numbers": ({"weights": np.zeros((6, 2), np.uint64)}, "got uint64"),
    "a mean far away": ({"mean": moved((5,), value=1000.1)}, "means up to 1000"),
    "a deviation of zero": ({"deviation": np.zeros(5)}, "deviations from"),
    "deviations of another number": ({"deviation": np.ones(4)}, "must be 5 float64 numbers"),
}


@pytest.mark.parametrize("what", MODELS)
def test_what_is_no_model_of_the_run_is_refused_for_free(what: str, tmp_path: Path) -> None:
    changes, reason = MODELS[what]
    made = site(tmp_path)
    terms = made.enter()
    answer = made.tell(0, question(terms)._replace(**changes))
    refused(made, answer, reason)


@pytest.mark.parametrize(
    ("own", "asked", "reason"),
    [
        (None, 0.25, "no record is held out here to measure models on, the run holds out 0.25 of the records"),
        (0.25, None, "0.25 of the records is held out here to measure models on, the run holds out no record"),
        (0.25, 0.2, "0.25 of the records is held out here to measure models on, the run holds out 0.2 of the records"),
    ],
)
def test_a_site_holds_out_what_its_owner_says_and_nothing_else(
    own: float | None, asked: float | None, reason: str, tmp_path: Path
) -> None:
    made = federation(tmp_path, 1, 200, {} if own is None else POLICY)
    refused(made, made.tell(0, Enter(made.terms(evaluation__held_out=asked).text)), reason)


def test_a_check_of_the_site_says_how_many_are_held_out_and_whether_enough_are_left(tmp_path: Path) -> None:
    made = site(tmp_path / "enough")
    told = {one.what: one for one in check_site(made.sites[0])}["table"]
    assert told.good
    assert told.told == "200 records; every run tells the server this number; 50 of them are held out of every run"
    few = federation(tmp_path / "few", 1, 25, POLICY)
    told = {one.what: one for one in check_site(few.sites[0])}["table"]
    assert not told.good
    assert told.told == "expected at least policy.min_batch = 20 records to train on, got 19; no run would fit."


def test_an_owner_who_forbids_it_later_is_not_charged_any_more(tmp_path: Path) -> None:
    made = site(tmp_path)
    terms = made.enter()
    play(made, terms)
    made.sites[0].write_text(made.sites[0].read_text().replace("held_out = 0.25\n", ""))
    refused(made, made.tell(0, question(terms)), "no record is held out here", charges=1)


TERMS: dict[str, tuple[Callable[[Terms], Terms], str]] = {
    "an odd number of bins": (lambda terms: replace(terms, bins=9), "bins must be an even number"),
    "bins without end": (lambda terms: replace(terms, bins=10**12), "from 2 to 1000, got 1000000000000"),
    "bins that are no number": (lambda terms: replace(terms, bins="10"), "terms that fit together"),  # pyright: ignore
    "no bins": (lambda terms: replace(terms, bins=0), "terms that fit together"),
    "a column that is not declared": (lambda terms: replace(terms, subgroup="ward"), "must be a declared column"),
    "a column that has no levels": (lambda terms: replace(terms, subgroup="age"), "must be a declared column"),
    "a column that is no text": (lambda terms: replace(terms, subgroup=["color"]), "fit together"),  # pyright: ignore
}


@pytest.mark.parametrize("what", TERMS)
def test_terms_by_which_nothing_can_be_counted_are_refused(what: str, tmp_path: Path) -> None:
    change, reason = TERMS[what]
    made = site(tmp_path)
    refused(made, made.tell(0, Enter(change(made.terms()).text)), reason)


def test_more_cells_than_a_site_computes_and_sends_are_refused(tmp_path: Path) -> None:
    made = site(tmp_path)
    wards = {"name": "ward", "levels": [str(number) for number in range(51)], "confirmed": True}
    schema = parse_schema({"target": {"column": "died", "classes": ["no", "yes"]}, "columns": [wards]})
    terms = replace(made.terms(), bins=1000, subgroup="ward")
    with pytest.raises(InputError, match=r"at most 100000 cells are counted between sites, got more"):
        check_counts(terms, schema)


def test_a_run_that_holds_nothing_out_has_nothing_to_measure_on(tmp_path: Path) -> None:
    made = federation(tmp_path, 1, 200)
    refused(made, made.tell(0, question(made.enter())), "the terms of the run hold no record out")
    refused(
        made, made.tell(0, Enter(replace(made.terms(run="other-1"), bins=10).text)), "expected terms that fit together"
    )


def test_a_plain_run_is_not_measured_under_masks(tmp_path: Path) -> None:
    made = site(tmp_path)
    asked = question(made.enter())
    masked = CountMasked(asked.terms, COUNTS, *asked[1:], "attempt", {}, {})
    refused(made, made.tell(0, masked), "the run's aggregation is 'plain'")


def crash_before_the_reply_is_kept(made: Federation, terms: Terms) -> None:
    def crash() -> None:
        Store.keep = die  # in the child alone
        with made.client() as client:
            client.answer(question(terms))

    in_a_process_that_is_killed(crash)


def test_a_crash_between_charge_and_release_keeps_the_charge(tmp_path: Path) -> None:
    made = site(tmp_path)
    terms = made.enter()
    crash_before_the_reply_is_kept(made, terms)
    assert made.charges() == 1
    with made.store() as store:
        assert store.last("run-1") == (0, 0)
    assert counts(made, terms).charges == 1, "nothing has left, so the charge is used by the same process"
    assert made.charges() == 1


def test_after_a_restart_a_lost_charge_stays_lost_and_nothing_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = site(tmp_path)
    terms = made.enter()
    crash_before_the_reply_is_kept(made, terms)
    monkeypatch.setattr(HERE, "token", "of another process")
    refused(made, made.tell(0, question(terms)), "the run plans one measurement", charges=1)


def test_without_its_key_a_site_does_not_measure_on_what_it_trained_on(tmp_path: Path) -> None:
    made = site(tmp_path)
    terms = made.enter()
    play(made, terms)
    key_path(made.sites[0].parent / "ledger.db").unlink()
    refused(made, made.tell(0, question(terms)), "records have changed since the run was entered", charges=1)


def test_counts_are_noised_afresh_in_every_run(tmp_path: Path) -> None:
    made = federation(tmp_path, 1, 200, POLICY | {"budget.epsilon": 2.0}, **HELD)
    first, second = (counts(made, made.enter(run=run)).counts for run in ("run-1", "run-2"))
    assert (first != second).all()


class TrainsOnAll(Client):
    """What is held out is trained on all the same."""

    def _halves(self, entered: EnteredRun) -> Cut:
        whole = self.records.table(self.site.path("data"), self.schema, entered.terms.unit)
        return super()._halves(entered)._replace(trained=whole)


class CountsWhatItTrainedOn(Client):
    """The model is measured on the records that it has seen."""

    def _halves(self, entered: EnteredRun) -> Cut:
        trained = super()._halves(entered).trained
        return Cut(trained, Held(trained, np.ones(len(trained))))


class MeasuresForFree(Client):
    """Counts are released without a charge."""

    def _charge(self, entered: EnteredRun, event: Any, mechanism: str) -> int:
        if mechanism == EVALUATION:
            return 1 + self.store.last(entered.run)[0]
        return super()._charge(entered, event, mechanism)


def _releases(folder: Path, kind: type[Client], turned: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """A round's upload and the counts, of persons whose labels are as they were or turned on one of the two sides."""
    run: dict[str, Any] = {"federation__fixed_draws": True, "run__seed": 3, "privacy__unit": "person", **HELD}
    made = about_persons(federation(folder, 1, 240, protected=False, **run), rows=2)
    terms = replace(made.terms(), sizes=(persons(made, 0),))
    path = made.sites[0].parent / "records.csv"
    with made.client() as client:
        sides = client.tables.halves(terms, None)
    if turned is not None:
        table = sides.apart.table if turned else sides.trained
        assert table.persons is not None
        whom = {table.persons.levels[code] for code in table.persons.codes}
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *(_other_label(line, whom) for line in lines)]) + "\n")
    assert isinstance(made.tell(0, Enter(terms.text)), Entered)
    with made.client(kind=kind) as client:
        return client.answer(ask(terms, weights=0.1)).upload, client.answer(question(terms)).counts


def _other_label(line: str, whom: set[str]) -> str:
    *cells, label, person = line.split(",")
    turned = {"yes": "no", "no": "yes"}[label]
    return ",".join([*cells, turned if person in whom else label, person])


def someone_is_on_the_wrong_side(kind: type[Client]) -> bool:
    """Does a held-out label move a round, or one that is trained on a count? Persons are held out by their names."""
    with TemporaryDirectory() as folder:
        found = {turned: _releases(Path(folder) / str(turned), kind, turned) for turned in (None, True, False)}
    trained, counted = found[None]
    assert not np.array_equal(found[False][0], trained)
    return not np.array_equal(found[True][0], trained) or not np.array_equal(found[False][1], counted)


def counts_leave_without_a_charge(kind: type[Client]) -> bool:
    with TemporaryDirectory() as folder:
        made = site(Path(folder) / "site")
        terms = made.enter()
        with made.client(kind=kind) as client:
            client.answer(question(terms))
        return made.charges() == 0


CHECKS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    # what was planted: (the check on the truth, the check on the bug); a check says whether it is red
    "held-out persons are trained on": (
        lambda: someone_is_on_the_wrong_side(Client),
        lambda: someone_is_on_the_wrong_side(TrainsOnAll),
    ),
    "the model is measured on what it was trained on": (
        lambda: someone_is_on_the_wrong_side(Client),
        lambda: someone_is_on_the_wrong_side(CountsWhatItTrainedOn),
    ),
    "a measurement is not charged": (
        lambda: counts_leave_without_a_charge(Client),
        lambda: counts_leave_without_a_charge(MeasuresForFree),
    ),
}


@pytest.mark.parametrize("bug", CHECKS)
def test_the_truth_is_green_and_the_planted_bug_is_red(bug: str) -> None:
    on_truth, on_bug = CHECKS[bug]
    assert not on_truth()
    assert on_bug()
