"""Sites that share noise by cohorts: each is summed by itself, as in a simulation; one that is away keeps nobody."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from scipy import stats
from typer.testing import CliRunner

from fedspd.algorithms.parts.moves import WEIGHTS
from fedspd.assemble import agree
from fedspd.assemble.cohorts import Cohorts, asked
from fedspd.cli import app
from fedspd.data import Holdings, Shards, finish, read_table
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Members, read_members
from fedspd.deploy.protocol.terms import read_terms
from fedspd.deploy.server import cohort as cohort_module
from fedspd.deploy.server.settings import dealt
from fedspd.deploy.setup.change import write_members
from fedspd.deploy.setup.kit import members_text
from fedspd.engine import Simulation, simulate, stream
from fedspd.engine.batches import draw_records
from fedspd.engine.numpy_engine import Draws
from fedspd.errors import InputError
from fedspd.privacy import SharedNoise
from tests.deploy.masks.test_secure import silent_at
from tests.support.deploy.shared import ALONE, sharing
from tests.support.deploy.sites import Federation
from tests.support.deploy.twists import standing

ROUNDS, SITES = 6, 7
COHORTS = [[1, 2, 5, 6], [0, 3, 4]]  # dealt by a hash of names
NUMBERS: dict[str, Any] = {
    "privacy__cohorts": 2,
    "federation__threshold": 3,
    "federation__colluders": 1,
    "federation__quorum": 3,
}
STEP: dict[str, Any] = {"algorithm__inverse_step": 4.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "fedspd, one cohort a round": STEP | {"algorithm__penalty": 4.0, "run__participants": 4},
    "fedspd with an l1 norm and momentum, all": STEP
    | {"algorithm__penalty": 4.0, "algorithm__momentum": 0.3, "problem__regularizer": "l1", "problem__strength": 0.05},
    "fedspd with batches, one cohort a round": STEP
    | {"algorithm__penalty": 4.0, "algorithm__batch_size": 30, "run__participants": 4},
    "dp-sgd, all": STEP | {"algorithm__name": "dp-sgd"},
    "noisy-prox-gd, one cohort a round": STEP
    | {"algorithm__name": "noisy-prox-gd", "algorithm__momentum": 0.5, "run__participants": 4},
}


def by_cohorts(folder: Path, protected: bool = False, **changes: Any) -> Federation:
    fixed: dict[str, Any] = {"run__rounds": ROUNDS}
    if not protected:
        fixed |= {"federation__fixed_draws": True, "privacy__epsilon": 80.0, "run__seed": 3}
    return sharing(folder, SITES, protected=protected, **(fixed | NUMBERS | changes))


def simulated(made: Federation, left: list[int] | None = None) -> np.ndarray:
    """The same run by the engine: two clients, which hold the records of their members; or one, if so many are left."""
    seats = sorted(place for own in COHORTS for place in own) if left is None else left
    cohorts_of_places = [[seats.index(place) for place in own] for own in COHORTS if own[0] in seats]
    config, schema = made.settings.for_sites(len(seats), len(cohorts_of_places)), made.schema
    tables = [read_table(made.sites[seat].parent / "records.csv", schema) for seat in seats]
    width, norm, order = (
        len(schema.columns),
        config.data.row_norm,
        [place for own in cohorts_of_places for place in own],
    )
    assert norm is not None
    rows = np.concatenate([tables[place].features for place in order])
    features = finish(rows, np.zeros(width), np.ones(width), config.data.bias, norm)
    sizes = np.array([len(table) for table in tables])
    offsets = np.cumsum([0, *(int(sizes[own].sum()) for own in cohorts_of_places)])
    shards = Shards(features, np.concatenate([tables[place].labels for place in order]), offsets, None, "records")
    largest = max(map(len, cohorts_of_places))
    cohorts = Cohorts(tuple(map(np.array, cohorts_of_places)), SharedNoise(largest, 3, 1))
    agreed = agree(config, Holdings(sizes, "records"), features.shape[1], schema.target, cohorts)
    batch_size, members = config.algorithm.work.batch_size, None
    members = cohorts.behind(Holdings(sizes), 0.0, batch_size)
    simulation = Simulation(
        shards, None, agreed.algorithm, agreed.plan, batch_size, asked(config), agreed.rounds,
        3, 0, lagrangian=False, members=members,
    )  # fmt: skip

    def drawn(round: int, chosen: np.ndarray) -> Draws:
        records, noise = [], []
        for number in chosen.tolist():
            own, found, begin = cohorts_of_places[number], [], 0
            for place in own:
                count = batch_size and int(members.drawn[number][own.index(place)])
                source = stream(3, "records", round, place)
                found.append(begin + draw_records(source, sizes[[place]], agreed.plan.sampling, count, 1)[0, 0])
                begin += int(sizes[place])
            records.append(np.concatenate(found))
            normals = [stream(3, "noise", round, place).standard_normal(simulation.matrix) for place in own]
            noise.append(np.sum(normals, axis=0) / np.sqrt(len(own)))
        longest = max(map(len, records))
        padded = [np.pad(each, (0, longest - len(each)), constant_values=-1) for each in records]
        return Draws(np.array(padded)[:, None], np.array(noise))

    return simulate(simulation, drawn=drawn).weights


@pytest.mark.parametrize("what", SETTINGS)
def test_sites_that_share_noise_by_cohorts_are_those_of_a_simulation_with_the_same_draws(
    what: str, tmp_path: Path
) -> None:
    made = by_cohorts(tmp_path, **SETTINGS[what])
    model, expected = made.serve(), simulated(made)
    assert model.round == ROUNDS
    assert np.abs(expected).max() > 1e-2, "it moved"
    np.testing.assert_allclose(standing(model), expected, rtol=0, atol=1e-9)
    times = [member.asked for member in model.roster]
    assert len({times[place] for place in COHORTS[0]}) == len({times[place] for place in COHORTS[1]}) == 1
    assert times[0] + times[1] == (ROUNDS if "one cohort" in what else 2 * ROUNDS)


def test_a_cohort_below_its_threshold_changes_nothing_stays_charged_and_the_others_go_on(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True, run__rounds=2)
    server = made.server()
    server._round()
    before = made.saved
    for place in (0, 3):
        made.grid.handlers[made.node(place)] = silent_at("train.mask", 10**6)
    server._round()
    first, second = (states(made, each) for each in (before, made.saved))
    np.testing.assert_array_equal(first[1], second[1])
    assert np.abs(first[0] - second[0]).max() > 0
    assert made.saved.round == 2
    assert [made.charges(place) for place in range(SITES)] == [2] * SITES, "who had answered is charged as well"
    assert [member.answered for member in made.saved.roster] == [
        2 if place in COHORTS[0] else 1 for place in range(SITES)
    ]


def states(made: Federation, saved: Any) -> list[np.ndarray]:
    """Dual and weights of each cohort."""
    terms = made.terms()
    (weights, dual), _ = cohort_module._standing(saved, terms, terms.agreed(made.schema))
    return [np.stack([weights[number], dual[number]]) for number in range(2)]


@pytest.mark.parametrize("at_zero", [False, True])
def test_a_cohort_that_never_answered_is_left_out_of_the_mean(
    at_zero: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = by_cohorts(tmp_path, **STEP, algorithm__penalty=4.0)
    for place in COHORTS[1]:
        made.grid.handlers[made.node(place)] = silent_at("train.exchange", 10**6)
    if at_zero:  # planted: it counts as one whose weights are zero
        truth = made.terms().agreed(made.schema).algorithm.__class__.merge

        def merge(self: Any, server: Any, *rest: Any) -> Any:
            found = np.array(truth(self, server, *rest))
            found[WEIGHTS] *= found[-1] / 2
            return found

        monkeypatch.setattr("fedspd.algorithms.parts.spd_on_sums.SPDOnSums.merge", merge)
    model = made.serve()
    agreed = made.terms().agreed(made.schema)
    _, replies = cohort_module._standing(model, made.terms(), agreed)
    assert model.round == ROUNDS
    assert (np.abs(standing(model) - replies[0, 0]).max() < 1e-12) is not at_zero
    assert [made.saved.roster[place].answered for place in COHORTS[1]] == [0, 0, 0]


def test_moments_are_summed_by_cohorts_and_are_those_of_all_records(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, data__scaling="noisy-moments", run__rounds=1)
    model, schema = made.serve(), made.schema
    rows = np.concatenate([read_table(path.parent / "records.csv", schema).features for path in made.sites])
    np.testing.assert_allclose(model.mean[:2], rows.mean(axis=0)[:2], atol=0.05)


def test_results_say_how_many_cohorts_there_were(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True, run__participants=4, run__rounds=3)
    made.serve()
    assert made.run is not None
    summary = made.run.summary
    assert (summary.cohorts, summary.members, summary.threshold, summary.colluders) == (2, 4, 3, 1)
    assert summary.epsilon == 1.0
    assert 1.0 < (summary.epsilon_alone or 0) < ALONE


def test_a_site_masks_with_nobody_of_another_cohort(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True)
    terms = [made.enter(place) for place in range(SITES)]
    keys = {place: made.tell(place, messages.Exchange(terms[place].digest, 1, "one")) for place in range(SITES)}
    others = [3, 4, 1]
    answer = made.tell(
        0,
        messages.Deal(
            terms[0].digest, 1, "one", {place: keys[place].keys for place in others},
            {place: keys[place].signature for place in others},
        ),
    )  # fmt: skip
    assert isinstance(answer, messages.Refused)
    assert answer.reason == "site-1 is in another cohort than this site."


OTHER: dict[str, tuple[Any, str]] = {
    "swapped": ((1, 2, 1, 2, 2, 1, 1), "other cohorts than the site's file"),
    "one for all": ((), "fit together"),
    "a third": ((1, 2, 1, 2, 1, 2, 3), "fit together"),
    "too few": ((1, 2, 1, 2, 1, 2), "fit together"),
    "from zero": ((0, 1, 0, 1, 0, 1, 0), "fit together"),
    "texts": (("1", "2", "1", "2", "1", "2", "1"), "fit together"),
}


@pytest.mark.parametrize("what", OTHER)
def test_terms_with_other_cohorts_than_the_sites_own_file_are_refused(what: str, tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True)
    cohorts, words = OTHER[what]
    refused = made.tell(0, messages.Enter(replace(made.terms(), cohorts=cohorts).text))
    assert isinstance(refused, messages.Refused)
    assert words in refused.reason
    assert made.charges() == 0


def test_cohorts_are_in_what_everything_is_signed_over(tmp_path: Path) -> None:
    terms = by_cohorts(tmp_path).terms()
    assert replace(terms, cohorts=(1, 2, *terms.cohorts[2:])).common != terms.common
    assert read_terms(terms.text) == terms


def test_a_site_whose_file_has_cohorts_masks_with_all_in_no_run(tmp_path: Path) -> None:
    """Its threshold is that of a cohort, and too low for all sites together."""
    made = by_cohorts(tmp_path, protected=True)
    plain: dict[str, Any] = {"privacy__trust": None, "privacy__cohorts": None}
    terms = made.terms(**plain, federation__threshold=5, federation__quorum=5, federation__colluders=1)
    refused = made.tell(0, messages.Enter(replace(terms, threshold=3).text))
    assert isinstance(refused, messages.Refused)
    assert "other cohorts" in refused.reason


def test_a_file_of_members_says_cohorts_and_is_read_again(tmp_path: Path) -> None:
    members = by_cohorts(tmp_path).settings.members
    (tmp_path / "again.toml").write_text(members_text(members))
    again = read_members(tmp_path / "again.toml")
    assert again.cohorts == members.cohorts == (2, 1, 1, 2, 2, 1, 1)
    assert (again.threshold, again.colluders) == (3, 1)
    sites = list(members.items())
    with pytest.raises(InputError, match="every site must have a cohort"):
        Members(sites, 3, 1, {"site-0": 2})
    with pytest.raises(InputError, match="more than the 4 sites plus the colluders"):
        Members(sites, 3, 2, dict(zip(members, members.cohorts, strict=True)))


def test_the_order_of_the_operators_file_deals_nobody_to_a_cohort_and_all_deals_are_as_likely() -> None:
    """Sites that stand beside each other, or in turn, may belong together; c is an assumption on each cohort."""
    names = [f"site-{place}" for place in range(20)]
    first = dealt(names, 3)
    assert dealt(names[::-1], 3) == dealt(names[::2] + names[1::2], 3) == first
    assert list(first) == names
    assert sorted(Counter(first.values()).values()) == [6, 7, 7]
    deals = Counter(tuple(dealt([f"{run}-{place}" for place in range(6)], 2).values()) for run in range(4000))
    assert len(deals) == 20, "three of six"
    assert stats.chisquare(list(deals.values())).pvalue > 0.01


def gone(made: Federation, *places: int) -> None:
    """Sites that are not there when a run begins."""
    for place in places:
        made.grid.handlers[made.node(place)] = silent_at("query.hello", 10**6)


SHORT: dict[str, tuple[list[int], dict[str, Any]]] = {
    "the second, of which one site is away": ([0], {}),
    "the second, nobody of which is there": ([0, 3, 4], {}),
    "the first, of which two are away": ([1, 5], {}),
    "the first, where one cohort a round is asked": ([1, 5], {"run__participants": 4}),
}


@pytest.mark.parametrize("what", SHORT)
def test_a_run_begins_without_a_cohort_that_is_short_and_is_that_of_the_others(what: str, tmp_path: Path) -> None:
    away, changes = SHORT[what]
    made = by_cohorts(tmp_path, **STEP, algorithm__penalty=4.0, federation__start_seconds=0.5, **changes)
    gone(made, *away)
    model = made.serve()
    (left,) = ([*own] for own in COHORTS if not set(own) & set(away))
    expected = simulated(made, left)
    assert [member.site for member in model.roster] == [f"site-{place}" for place in left]
    assert model.round == ROUNDS
    assert np.abs(expected).max() > 1e-2, "it moved"
    np.testing.assert_allclose(standing(model), expected, rtol=0, atol=1e-9)
    number, there = (1, 4 - len(away)) if 1 in away else (2, 3 - len(away))
    words = f"cohort {number} is left out of the run: {there} of its sites agree, 3 are needed in a sum"
    assert made.said.count(words) == 1


def test_a_site_that_refuses_leaves_its_cohort_out_and_nobody_of_it_is_charged(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True)
    path = made.sites[0]
    path.write_text(path.read_text().replace(f"epsilon_alone = {ALONE}\n", ""))
    made.serve()
    assert [made.charges(place) for place in range(SITES)] == [
        ROUNDS if place in COHORTS[0] else 0 for place in range(SITES)
    ]
    assert made.run is not None
    assert (made.run.summary.cohorts, made.run.summary.members, made.run.summary.clients) == (1, 4, 4)


def test_a_run_without_a_short_cohort_goes_on_where_it_stopped(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True, federation__start_seconds=0.5)
    gone(made, 1, 5)
    made.server()._round()
    assert made.saved.round == 1
    made.serve()
    assert made.saved.round == ROUNDS
    assert [made.charges(place) for place in COHORTS[1]] == [ROUNDS] * 3


def test_a_run_in_which_no_cohort_can_be_summed_does_not_begin(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path, protected=True, federation__start_seconds=0.5)
    gone(made, 0, 1, 5)
    with pytest.raises(InputError, match=r"at least one cohort of which 3 sites agree, got 2 of cohort 1, 2 of cohort"):
        made.serve()
    assert [made.charges(place) for place in range(SITES)] == [0] * SITES


def test_the_file_of_members_is_made_anew_where_cohorts_have_changed(tmp_path: Path) -> None:
    made = by_cohorts(tmp_path)
    values: dict[str, Any] = {"site": made.seats}
    for name, value in made.values.items():
        section, _, key = name.partition(".")
        values.setdefault(section, {})[key] = value
    (tmp_path / "federation.toml").write_text(tomli_w.dumps(values))
    (tmp_path / "members.toml").write_text("")
    assert read_members(write_members(tmp_path / "federation.toml")).cohorts == (2, 1, 1, 2, 2, 1, 1)
    runner = CliRunner()
    said = runner.invoke(app, ["deploy", "members", str(tmp_path / "federation.toml"), "--write"])
    assert "cohort 2" in said.stdout
    assert "masked runs sum at least 3 sites of a cohort; 1 may collude" in said.stdout
    refused = runner.invoke(app, ["deploy", "members", str(tmp_path / "members.toml"), "--write"])
    assert refused.exit_code != 0
