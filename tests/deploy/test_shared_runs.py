"""Runs of sites that share noise: what they are charged, what they keep, what they and the results say."""

import json
import sqlite3
from dataclasses import replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.assemble import agree
from fedspd.config import changed
from fedspd.deploy.masks.signed import Scope
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.sums import round_part
from fedspd.deploy.server.results import sites_of, table
from fedspd.deploy.setup.check import check_site
from fedspd.deploy.site import client as client_module
from fedspd.deploy.site.approval import waiting
from fedspd.deploy.site.client import Client
from fedspd.deploy.site.store import Store, Stored
from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian, SharedGaussian, spent
from fedspd.privacy.ledger import Ledger
from tests.deploy.masks.test_secure import changing, silent_at
from tests.support.deploy.shared import ALONE, pooled_query, sharing, watch
from tests.support.deploy.sites import Federation

SITES, HONEST = 5, 3


def history(made: Federation, place: int = 0) -> dict[Any, int]:
    with Ledger(made.sites[place].parent / "ledger.db") as ledger:
        (account,) = ledger.accounts.values()
        return dict(account.history)


def test_a_site_is_charged_for_both_numbers_and_the_results_say_them(tmp_path: Path) -> None:
    made = sharing(tmp_path, data__scaling="noisy-moments", run__rounds=3)
    checkpoint = made.serve()
    terms = made.terms()
    agreed = terms.agreed(made.schema)
    z, noise = float(agreed.plan.noise_multipliers[0]), round_part(terms, agreed, 6).noise
    assert history(made)[SharedGaussian(z, noise.alone)] == 3
    assert noise.alone == pytest.approx(z / sqrt(HONEST), rel=0.01)
    assert noise.alone < z / sqrt(HONEST), "the grid is paid for"
    assert len(history(made)) == 2, "moments are the other release"
    own = {Gaussian(event.own_multiplier): times for event, times in history(made).items()}
    alone = spent(own, 1e-5).epsilon
    assert made.run is not None
    summary = made.run.summary
    told = (summary.trust, summary.cohorts, summary.members, summary.threshold, summary.colluders)
    assert told == ("secure-sums", 1, SITES, 4, 1)
    assert summary.epsilon == 1.0
    assert summary.epsilon_alone == pytest.approx(alone, rel=1e-6)
    assert 1.5 < alone < ALONE
    assert [member.charges for member in checkpoint.roster] == [4] * SITES
    sites = sites_of(checkpoint)
    assert [site["epsilon_alone"] for site in sites] == pytest.approx([alone] * SITES, rel=1e-6)
    heads, *lines = table(sites).splitlines()
    assert heads.endswith("epsilon    alone")
    assert all(line.endswith(f"{ceil(alone * 1e4) / 1e4:.4f}") for line in lines)
    assert f"of {ALONE:g} if everybody else colludes, spent in all" in made.log()
    (line,) = (one.told for one in check_site(made.sites[0]) if one.what == "ledger")
    assert f"of {ALONE:g} if everybody else colludes, at delta 1e-05 spent" in line


class KeepsADual(Client):
    """The site remembers what it has released, and begins with that."""

    def _keep(self, entered: Any, reply: Stored, state: bytes | None) -> None:
        super()._keep(entered, reply, b"dual")


class KeepsItsPart(Client):
    """The site remembers its part."""

    def _keep(self, entered: Any, reply: Stored, state: bytes | None) -> None:
        super()._keep(entered, reply._replace(total=bytes(8)), state)


def keeps_something(made: Federation) -> bool:
    run = made.serve().run
    for place in range(SITES):
        with made.store(place) as store:
            found = [store.reply(run, number) for number in (1, 2, 3)]
            rows = store._connection.execute("SELECT secrets FROM attempts").fetchall()
            assert [one and one.round for one in found] == [0, 1, 2], "that it was released, and in which round"
            if store.state(run) is not None or any(one and (one.upload or one.total) for one in found):
                return True
            assert not any(secrets for (secrets,) in rows)
    return False


@pytest.mark.parametrize(("kind", "red"), [(Client, False), (KeepsADual, True), (KeepsItsPart, True)])
def test_a_site_keeps_nothing_of_what_it_released(
    kind: type[Client], red: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sharing(tmp_path, data__scaling="noisy-moments", run__rounds=2)
    monkeypatch.setattr("fedspd.deploy.site.respond.Client", kind)
    assert keeps_something(made) is red


def test_secrets_of_an_attempt_that_a_site_never_heard_the_end_of_are_erased_with_the_run(tmp_path: Path) -> None:
    made = sharing(tmp_path, run__rounds=1)
    made.grid.handlers[made.node(1)] = silent_at("train.confirm")
    made.serve()
    with made.store(1) as store:
        rows = store._connection.execute("SELECT masked, secrets FROM attempts").fetchall()
    assert rows == [(1, b"")]


def left_in_files(made: Federation, monkeypatch: pytest.MonkeyPatch) -> bool:
    """After a run, is a secret of a masked round anywhere on a site's disk?"""
    secrets, truth = set[bytes](), Store.keep_secrets

    def noted(self: Store, run: str, round: int, attempt: str, masked: bool, content: bytes) -> None:
        secrets.add(json.loads(content)["secrets"].encode())
        truth(self, run, round, attempt, masked, content)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "keep_secrets", noted)
        made.serve()
    assert len(secrets) == 2 * SITES, "fresh ones in each round"
    files = [path.read_bytes() for site in made.sites for path in site.parent.iterdir() if path.is_file()]
    return any(one in content for one in secrets for content in files)


@pytest.mark.parametrize("left", [False, True])
def test_secrets_that_were_erased_are_in_no_file_of_a_site(
    left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if left:  # planted: what is erased is not overwritten
        connect = sqlite3.connect
        monkeypatch.setattr(
            sqlite3, "connect", lambda *some, **more: connect(*some, **more, factory=WithoutOverwriting)
        )
    assert left_in_files(sharing(tmp_path, run__rounds=2), monkeypatch) is left


class WithoutOverwriting(sqlite3.Connection):
    """A database that leaves what is erased where it was."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("secure_delete = ON", "secure_delete = OFF"), *parameters)


@pytest.mark.parametrize("stage", ["train.mask", "train.unmask"])
def test_a_resumed_round_has_fresh_noise_and_is_charged_again(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sharing(tmp_path, run__rounds=3)
    for place in (2, 3, 4):
        made.grid.handlers[made.node(place)] = silent_at(stage)
    first = []
    truth = client_module.part_of_round

    def looking_on(*arguments: Any) -> np.ndarray:
        numbers = truth(*arguments)
        first.append((arguments[0].place, getattr(arguments[3], "attempt", ""), numbers))
        return numbers

    with monkeypatch.context() as patch:
        patch.setattr(client_module, "part_of_round", looking_on)
        with pytest.raises(InputError, match="got 0 that"):
            made.serve()
    assert [made.charges(place) for place in range(SITES)] == [1] * SITES
    assert made.saved.round == 0
    assert not made.saved.cohort.size
    before = {place: numbers for place, attempt, numbers in first if attempt}
    assert sorted(before) == [*range(SITES)]
    seen = watch(monkeypatch, made)
    again = {part.place: part for part in seen.parts if part.round == 1}
    for place in range(SITES):
        assert np.all(again[place].weights == 0), "the same query"
        apart = (again[place].numbers - before[place]).view(np.int64)
        assert np.mean(apart != 0) > 0.9, "and other noise"
    assert made.saved.round == 2, "one of three planned participations is gone"
    assert [made.charges(place) for place in range(SITES)] == [3] * SITES


def test_a_server_that_begins_anew_goes_on_with_the_cohorts_dual(tmp_path: Path) -> None:
    fixed: dict[str, Any] = {
        "protected": False, "federation__fixed_draws": True, "run__rounds": 4, "algorithm__inverse_step": 4.0,
        "algorithm__penalty": 4.0,
    }  # fmt: skip
    whole = sharing(tmp_path / "whole", **fixed).serve()
    made = sharing(tmp_path / "parts", **fixed)
    server = made.server()
    server._round()
    server._round()
    assert made.saved.round == 2
    np.testing.assert_array_equal(made.serve().server, whole.server)
    np.testing.assert_array_equal(made.saved.cohort, whole.cohort)


def test_below_the_threshold_nothing_changes(tmp_path: Path) -> None:
    made = sharing(tmp_path, run__rounds=2)
    server = made.server()
    server._round()
    before = made.saved
    for place in (0, 1):
        made.grid.handlers[made.node(place)] = silent_at("train.mask")
    with pytest.raises(InputError, match="goes on after round 1"):
        server._round()
    np.testing.assert_array_equal(made.saved.server, before.server)
    np.testing.assert_array_equal(made.saved.cohort, before.cohort)
    assert made.saved.round == 1
    assert [made.charges(place) for place in range(SITES)] == [2] * SITES


def test_the_sum_is_of_the_pooled_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sharing(tmp_path, run__rounds=1)
    (one,) = watch(monkeypatch, made).sums
    scale = round_part(made.terms(), made.terms().agreed(made.schema), 6).noise.scale
    assert one.arrived == (*range(SITES),)
    off = one.total - pooled_query(made, one.weights, range(SITES))
    assert np.abs(off).max() < 6 * scale * sqrt(SITES)


def test_a_site_whose_owner_has_not_allowed_shared_noise_refuses(tmp_path: Path) -> None:
    made = sharing(tmp_path)
    path = made.sites[0]
    path.write_text(path.read_text().replace(f"epsilon_alone = {ALONE}\n", ""))
    refused = made.tell(0, messages.Enter(made.terms().text))
    assert isinstance(refused, messages.Refused)
    assert "the budget here has no epsilon_alone" in refused.reason
    assert made.charges() == 0


def test_a_site_caps_what_its_own_noise_is_worth_and_a_run_can_keep_to_it(tmp_path: Path) -> None:
    made = sharing(tmp_path, site={"budget.epsilon_alone": 1.2})
    refused = made.tell(0, messages.Enter(made.terms().text))
    assert isinstance(refused, messages.Refused)
    assert "the budget here is epsilon 1.2 if everybody else colludes" in refused.reason
    terms = made.enter(privacy__epsilon_alone=1.2)
    assert 1.1 < terms.agreed(made.schema).plan.epsilon_alone <= 1.2


def test_a_cap_on_the_second_number_is_kept_to_where_the_grid_counts(tmp_path: Path) -> None:
    made = sharing(tmp_path, protected=False)
    most: dict[str, Any] = {"privacy__epsilon_alone": 40.0, "privacy__epsilon": 20.0}
    terms = made.terms(**most)
    plan = terms.agreed(made.schema).plan
    planned = agree(terms.config, terms.holdings, 6, made.schema.target).plan
    assert 39.0 < plan.epsilon_alone <= 40.0
    assert plan.noise_multipliers[0] == pytest.approx(1.01 * planned.noise_multipliers[0]), "there was no room"


def test_a_person_confirms_both_numbers(tmp_path: Path) -> None:
    made = sharing(tmp_path, site={"policy.ask": True})
    assert isinstance(made.tell(0, messages.Enter(made.terms().text)), messages.Waiting)
    (asked,) = waiting(made.sites[0], None)
    assert "at least 4 sites in a sum, of which 1 may collude" in asked.terms
    assert "epsilon 1 if no more of them tell what they know, and 1.8" in asked.terms
    assert asked.terms.splitlines()[2].endswith(" whatever all others do")


def test_draws_that_a_server_fixes_are_refused_by_a_site_with_a_budget(tmp_path: Path) -> None:
    made = sharing(tmp_path)
    refused = made.tell(0, messages.Enter(replace(made.terms(), draws=3).text))
    assert isinstance(refused, messages.Refused)
    assert "draws that a server fixes" in refused.reason


OTHERS: dict[str, dict[str, Any]] = {
    "epsilon": {"privacy.epsilon": 2.0},
    "delta": {"privacy.delta": 1e-6},
    "rounds": {"run.rounds": 4},
    "clipping": {"problem.clip_norm": 0.4},
    "colluders": {"privacy.colluders": 0},
}


@pytest.mark.parametrize("what", [*OTHERS, "sizes", "largest weight"])
def test_members_whose_noise_differs_mask_with_nobody_in_common(what: str, tmp_path: Path) -> None:
    terms = sharing(tmp_path).terms()
    if what == "sizes":
        other = replace(terms, sizes=(*terms.sizes[:-1], terms.sizes[-1] + 1))
    elif what == "largest weight":
        other = replace(terms, largest_weight=10.0)
    else:
        other = replace(terms, config=changed(terms.config, OTHERS[what]))
    assert other.common != terms.common
    assert Scope(other, 1, "one").context != Scope(terms, 1, "one").context


def test_programs_of_different_versions_mask_with_nobody_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise follows from the terms by a program's rules: a server that lets versions meet must not mix their noise."""
    made = sharing(tmp_path)
    terms = [made.enter(place) for place in range(SITES)]
    published = {place: made.tell(place, messages.Exchange(terms[place].digest, 1, "one")) for place in range(4)}
    with monkeypatch.context() as patch:
        patch.setattr("fedspd.deploy.protocol.terms.__version__", "0.0.9", raising=False)
        published[4] = made.tell(4, messages.Exchange(terms[4].digest, 1, "one"))
    others = {place: answer for place, answer in published.items() if place}
    keys = {place: answer.keys for place, answer in others.items()}
    signatures = {place: answer.signature for place, answer in others.items()}
    refused = made.tell(0, messages.Deal(terms[0].digest, 1, "one", keys, signatures))
    assert isinstance(refused, messages.Refused)
    assert refused.reason == "the round keys of site-4 are not signed by its key."
    fine = {place: key for place, key in keys.items() if place != 4}
    assert isinstance(made.tell(0, messages.Deal(terms[0].digest, 1, "one", fine, signatures)), messages.Dealt)


def test_a_bad_site_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    made = sharing(tmp_path, run__rounds=3)
    made.grid.handlers[made.node(3)] = changing("train.exchange", lambda said: said._replace(signature=b""), round=2)
    checkpoint = made.serve()
    assert (checkpoint.round, checkpoint.finished) == (3, True)
    assert [member.answered for member in checkpoint.roster] == [3, 3, 3, 1, 3]
    assert checkpoint.roster[3].retired == "its round keys are not signed by its key"


def test_a_run_of_fewer_sites_than_the_federation_has_shares_noise_among_them(tmp_path: Path) -> None:
    made = sharing(tmp_path, run__rounds=1)
    path = made.sites[2]
    path.write_text(path.read_text().replace(f"epsilon_alone = {ALONE}\n", ""))
    made.serve()
    assert any(line.startswith("site-2 refuses: the run's sites share noise") for line in made.said)
    assert made.run is not None
    assert (made.run.summary.members, made.run.summary.threshold, made.run.summary.colluders) == (4, 4, 1)
    assert [made.charges(place) for place in range(SITES)] == [1, 1, 0, 1, 1]
