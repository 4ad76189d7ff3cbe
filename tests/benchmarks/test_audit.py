"""The tables of audits leave out no proved method, claim what they say, and are written into their places."""

import re
from dataclasses import fields
from itertools import product

import numpy as np
import pytest

from benchmarks.audit import PAGE, PARTICIPATIONS, PUBLISHED, RATIOS, hidden_state, tables_of, told, written
from benchmarks.audit_bounds import ours
from benchmarks.audit_claims import TRUSTS, UNITS, Kind, claims, variants
from benchmarks.audit_games import timed
from benchmarks.audit_limits import both_families, minimizers, without_jacobian
from benchmarks.audit_peers import PEERS, SCRIPTS, line, statement_of
from benchmarks.audit_records import rebuilt_table
from fedspd.algorithms import METHODS
from fedspd.audit.bounds import Claim, Lower, lower_bound
from fedspd.audit.game import play_game
from fedspd.audit.target import worst_pair
from fedspd.audit.verdict import Contest

PROVED = {name: method for name, method in METHODS.items() if method.guarantee == "proved"}


def test_every_proved_method_is_attacked_for_its_records() -> None:
    for name in PROVED:
        assert Kind(name, "records", "whole", "uploads") in claims()


def test_every_method_that_draws_records_is_attacked_for_both_ways_to_draw_them() -> None:
    for name, method in PROVED.items():
        draws = "batch_size" in {field.name for field in fields(method.settings)}
        for sampling in ("batches", "Poisson"):
            assert (Kind(name, "records", sampling, "uploads") in claims()) == draws


def test_every_unit_is_attacked_with_every_trust_that_can_protect_it() -> None:
    pairs = {(kind.unit, kind.trust) for kind in claims()}
    assert pairs == set(product(UNITS, TRUSTS)) - {("clients", "uploads")}
    by_place = {name for name, method in PROVED.items() if method.kind.exact or hasattr(method.kind, "blocks")}
    persons = {kind.method for kind in claims() if kind.unit == "persons"}
    assert persons == set(PROVED) - by_place, "who counts single records, or them by their place, has no persons"


def test_sums_are_attacked_with_the_members_stated_and_with_all_others() -> None:
    for kind, found in claims().items():
        assert len(found) == (2 if kind.trust == "sums" else 1), kind


@pytest.mark.parametrize(
    "kind", [("fedspd", "records", "whole", "uploads"), ("one-shot", "records", "whole", "uploads"),
             ("fedspd", "records", "batches", "sums"), ("dp-fedavg", "clients", "whole", "sums")]
)  # fmt: skip
def test_a_cell_attacks_the_claim_of_its_plan(kind: tuple[str, str, str, str]) -> None:
    attacked_for_its_plan(claims()[Kind(*kind)])


@pytest.mark.parametrize(("method", "unit"), [
    ("private-admm", "records"), ("dp-admm", "persons"), ("ps-admm", "persons"), ("multi-step-dp-admm", "persons"),
])  # fmt: skip
def test_gaussian_noise_on_whole_shards_leaks_most_of_its_claim(method: str, unit: str) -> None:
    """Of methods whose weights are not the server's: a record must be wrong wherever they are."""
    (contest,) = claims()[Kind(method, unit, "whole", "uploads")]
    lower = lower_bound(*play_game(contest.target, worst_pair(contest.target), 20_000, 0), contest.claim)
    assert 0.8 * contest.claim.epsilon < lower.epsilon <= contest.claim.epsilon


def test_a_row_attacks_the_claim_of_its_plan() -> None:
    for found in variants().values():
        attacked_for_its_plan(found)


def attacked_for_its_plan(contests: list[Contest]) -> None:
    for contest in contests:
        assert contest.claim.with_noise(1.0).epsilon == pytest.approx(contest.claim.epsilon, rel=1e-6)
    assert contests[0].claim.epsilon == pytest.approx(4.0, rel=1e-3)


def test_cells_of_the_published_table_claim_one_and_the_same() -> None:
    for ratio in RATIOS:
        for count in PARTICIPATIONS:
            target, claim = hidden_state(ratio, count)
            assert (claim.epsilon, claim.delta) == (PUBLISHED["epsilon"], PUBLISHED["delta"])
            assert target.participations == count
            assert target.multiplier > 4.4, "the classic formula needs an epsilon of at most one in a round"


def test_a_claim_that_is_exceeded_ends_the_program() -> None:
    with pytest.raises(SystemExit, match="REFUTED"):
        told("a method", "a server", Claim(1.0, 1e-5), Lower(1.1, None, 0.999, 5), 5)


def test_a_table_takes_the_place_of_the_last_one() -> None:
    page = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\nkept\n<!-- end -->\n"
    assert written(page, "x", ["| new |"]) == page.replace("old\n", "\n| new |\n\n")


def test_every_table_has_its_place_in_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert sorted(re.findall(r"<!-- (\w+) -->", page.replace("<!-- end -->", ""))) == sorted(tables_of(1.0))


def test_claims_that_pay_for_a_jacobian_are_less_without_it_and_prove_less_with_it_kept() -> None:
    assert {"one-shot", "dp-radmm"} <= set(minimizers())
    assert "ddp-admm-pvp" not in minimizers(), "it has nothing to pay for"
    for contest in minimizers().values():
        assert 0.5 * contest.claim.epsilon < without_jacobian(contest.claim) < 0.95 * contest.claim.epsilon
    shrinking, kept = both_families(minimizers()["one-shot"], minutes=1.0, share=1.0)
    assert kept.epsilon < shrinking.epsilon
    assert kept.direct == shrinking.direct, "of one game"


def test_parts_of_a_timed_game_have_draws_of_their_own() -> None:
    game = timed(minimizers()["one-shot"], 33)
    assert [len(np.unique(scores)) for scores in game.scores] == [33, 33]


def test_records_are_read_off_uploads_without_noise_and_only_then() -> None:
    none, ten, *_ = list(rebuilt_table())[2:]
    assert "100.0 %" in none
    assert float(ten.split("|")[2].split()[0]) < 20


def test_a_library_that_declares_nothing_is_neither_refuted_nor_not() -> None:
    releases = np.zeros((2000, 1)), np.ones((2000, 1))
    assert statement_of({}) is None
    assert line("a filter", {}, releases).endswith("| 2,000 | declares nothing |")
    assert line("a filter", {"epsilon": 1.0}, releases).endswith("| 2,000 | refuted |")


def test_a_declared_epsilon_of_gaussian_noise_is_held_against_its_whole_profile() -> None:
    statement = statement_of({"gaussian": 2.0, "delta": 1e-5})
    assert statement is not None
    assert statement.claim.epsilon == pytest.approx(2.0, rel=1e-3)
    assert statement.claim.history


def test_bounds_are_compared_in_the_order_in_which_the_other_program_has_them() -> None:
    """Of its script: three of scores, then for every run one of any profile and one of Gaussian DP."""
    scores = np.random.default_rng(0).standard_normal((2, 2000)) + np.array([[0.0], [2.0]])
    names = list(ours((scores[0], scores[1]), [(4000, 800, 458), (4000, 800, 626)]))
    assert [name.startswith("many runs") for name in names] == [True] * 3 + [False] * 4
    assert [name.endswith("Gaussian DP") for name in names] == [False, False, True, False, True, False, True]


def test_every_library_is_pinned_or_comes_with_this_project() -> None:
    assert all((SCRIPTS / peer.script).is_file() for peer in PEERS)
    assert all("==" in package for peer in PEERS for package in peer.installs)
