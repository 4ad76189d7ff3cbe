"""A deployment with real processes over TLS, as the documents set it up: `make test-deploy`."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from typing import Any

import jsonschema
import numpy as np
import pytest
import tomli_w

from fedspd import run as simulated_run
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.setup.keys import write_certificates
from fedspd.deploy.site.store import Store, Stored
from fedspd.results.statement import schema
from tests.deploy.test_equal import PENALTY, STEP, deployed, simulated
from tests.support.deploy import evil
from tests.support.deploy.live import Live, change, fedspd, live
from tests.support.deploy.processes import free_port, marked, wait_until
from tests.support.deploy.twists import standing

pytestmark = pytest.mark.deploy
EVIL = 4


STORM = 24
"""Rounds of the run with faults: steps are short, and what a fault has cost takes rounds to make up for."""


@pytest.fixture(scope="module")
def calm() -> list[float]:
    """Test accuracies of the storm's run without faults, simulated with the columns that the sites' schema declares."""
    settings = {"partition.clients": 5, "run.participants": 5, "run.rounds": STORM, "metrics.criterion": False}
    settings["data.encode"] = "declared"  # the preset's "auto" cuts columns finer, worth a point
    return [simulated_run("proved", {**settings, "run.seed": seed}).summary["test_accuracy"] for seed in range(6)]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path, 2, budgets={0: 4.0, 1: 4.0}) as made:
        yield made


def test_ten_rounds_between_five_processes_equal_the_simulator(tmp_path: Path) -> None:
    made = deployed(tmp_path / "sites", "fedspd", STEP | PENALTY)
    port = free_port()
    write_certificates(made.folder / "keys")
    values: dict[str, object] = {"site": made.seats, "listen": {"port": port}}
    for name, value in (made.values | {"federation.start_seconds": 60.0, "federation.round_seconds": 20.0}).items():
        section, _, key = name.partition(".")
        values.setdefault(section, {})[key] = value  # pyright: ignore[reportIndexIssue]
    (made.folder / "federation.toml").write_text(tomli_w.dumps(values))
    for site in made.sites:
        server = f'\n[server]\naddress = "127.0.0.1:{port}"\nauthority = "../keys/ca.pem"\n'
        site.write_text(site.read_text() + server)
    processes = Live(made.folder, [site.parent for site in made.sites])
    try:
        processes.server()
        processes.sites()
        assert processes.await_end(120) == 0, processes.log()
    finally:
        processes.stop()
    expected = simulated(made)
    np.testing.assert_allclose(standing(made.saved), expected, rtol=0, atol=1e-12)
    with np.load(made.folder / "server" / "run" / "model.npz") as model:
        np.testing.assert_array_equal(model["weights"], standing(made.saved))


def test_a_run_leaves_the_folder_of_a_simulation_and_a_report_can_be_made_of_it(two: Live, tmp_path: Path) -> None:
    two.server()
    two.sites()
    assert two.await_end(90) == 0, two.log()
    run = two.folder / "server" / "run"
    simulated_run_folder = tmp_path / "simulated"
    fedspd("run", "--out", str(simulated_run_folder), "--quiet", "--set", "run.rounds=2")
    names = {path.name for path in run.iterdir()}
    assert names == {path.name for path in simulated_run_folder.iterdir()} - {"ledger.sqlite"} | {
        "sites.json",
        "rounds.csv",
    }
    ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (run, simulated_run_folder))
    alone_there = {"optimum_accuracy", "optimum_loss", "test_records"}  # of a simulator, which has all records
    assert set(ours) == set(theirs) - alone_there | {"run"}
    fedspd("report", str(run), "--out", str(tmp_path / "report.html"))
    assert "site-1" in fedspd("deploy", "report", str(two.file))
    assert "(1, 1e-05)-differential privacy, proved" in two.log()
    _require_filed(two, run)
    two.require_books("server")
    assert f"the run in {two.folder / 'server'} is complete" in fedspd("deploy", "server", str(two.file), code=2)


def test_sites_measure_the_model_that_they_trained_and_are_charged_for_it_once(two: Live) -> None:
    values = {"run.rounds": 4, "privacy.epsilon": 2.0}
    change(two.file, values)
    two.file.write_text(f"{two.file.read_text()}\n[evaluation]\nheld_out = 0.2\n\n[measure]\nsubgroup = 'sex'\n")
    for home in two.homes:
        change(home / "site.toml", {"policy.held_out": 0.2})
    two.server()
    two.sites()
    assert two.await_end(120) == 0, two.log()
    assert "held-out records at 2 sites: accuracy " in two.log()
    two.require_books("server")
    run = two.folder / "server" / "run"
    assert [two.charges(place) for place in (0, 1)] == [6, 6], "moments, four rounds, counts"
    found = json.loads(fedspd("evaluate", str(run), "--subgroup", "sex", "--json"))
    assert found["charged"]
    assert found["records"] == sum(site["records"] // 5 for site in two.results()["sites"])
    accuracy = next(one for one in found["measures"] if one["name"] == "accuracy" and one["group"] is None)
    assert accuracy["low"] - 0.02 <= two.results()["test_accuracy"] <= accuracy["high"] + 0.02, "of other records"
    assert (run / "evaluation.png").stat().st_size > 1000
    statement = json.loads((run / "statement.json").read_text())
    jsonschema.validate(statement, schema())
    assert statement["evaluation"]["charged"]
    assert "charged to each site's ledger" in statement["evaluation"]["told"]
    for command in (["evaluate", str(run), "--again"], ["infer", str(run)]):
        assert "are at its sites, which measure a model once" in fedspd(*command, code=2).replace("\n", " ")
    assert [two.charges(place) for place in (0, 1)] == [6, 6]
    assert (two.homes[0] / "ledger.db.key").stat().st_mode & 0o077 == 0


def _require_filed(made: Live, run: Path) -> None:
    """A site adds its ledger to the run's statement, signs it, and finds its numbers again."""
    jsonschema.validate(json.loads((run / "statement.json").read_text()), schema())
    ledger, key = (str(made.homes[0] / name) for name in ("ledger.db", "site.key"))
    fedspd("statement", str(run), "--ledger", ledger, "--sign", key)
    filed = json.loads((run / "statement.json").read_text())
    jsonschema.validate(filed, schema())
    assert filed["run"]["kind"] == "sites"
    assert filed["budget"]["client"] == "site-1"
    assert "Agrees: " in fedspd("ledger", "verify", ledger, "--against", str(run / "statement.json"))
    assert "signed it" in fedspd("statement", str(run), "--verify", read_identity(Path(key)).public.line)


def test_a_stormy_run_ends_within_noise_of_a_calm_one(tmp_path: Path, calm: list[float]) -> None:
    with live(tmp_path, 5) as made:
        faults = dict(zip(("1", "2", "3", "4", "6"), evil.FAULTS, strict=True))
        plan = made.homes[EVIL] / "spoiled.json"
        plan.write_text(json.dumps(faults))
        change(made.file, {"run.rounds": STORM, "federation.round_seconds": 6.0, "federation.quorum": 2})
        for place in range(4):
            made.site(place)
        made.start(
            "evil", [sys.executable, "-m", "tests.support.deploy.evil", str(made.homes[EVIL] / "site.toml"), str(plan)]
        )
        made.server()
        made.await_round(1)
        made.kill("site-0site.toml")  # in the middle of what follows
        made.site(0)
        made.await_round(3)
        made.kill("server")
        made.server(name="again")
        made.await_round(4)
        stopped = marked(f"{made._token}/site-1site.toml/")
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)  # a slow site
        time.sleep(8)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        assert made.await_end(120, "again") == 0, made.log("again")
        log = made.log() + made.log("again")
        assert "goes on after round" in made.log("again")
        for why in ("it is not finite", "it is float64 of shape (81, 2)", "its norm is", "it is of round"):
            assert f"the reply of site-5 is rejected: {why}" in log, log
        assert "site-2 keeps its last reply" in log, log
        made.require_books("server")
        results = made.results()
        assert results["rounds"] == STORM
        assert abs(results["test_accuracy"] - np.mean(calm)) < max(4 * np.std(calm, ddof=1), 0.01)


def test_two_servers_that_share_sites_never_exceed_a_budget_between_them(tmp_path: Path) -> None:
    """Each site runs two processes on one ledger and one store, one for each server."""
    with live(tmp_path, 3, budgets={0: 4.0, 1: 4.0}) as made:
        settings = {"run.rounds": 2, "data.scaling": "min-max", "federation.round_seconds": 20.0}
        ports = [free_port(), free_port()]
        for name, port in zip(("one", "two"), ports, strict=True):
            changes = {**settings, "listen.port": port, "federation.folder": name, "federation.name": name}
            change(made.file, changes, made.folder / f"{name}.toml")
            for place, home in enumerate(made.homes):
                change(home / "site.toml", {"server.address": f"127.0.0.1:{port}"}, home / f"{name}.toml")
                made.site(place, f"{name}.toml")
        for name in ("one", "two"):
            made.server(name=name, file=made.folder / f"{name}.toml")
        assert [made.await_end(90, name) for name in ("one", "two")] == [0, 0], made.log("one") + made.log("two")
        made.require_books("one", "two")
        small = [made.results(name)["sites"][2] for name in ("one", "two")]
        assert sum(site["charges"] for site in small) == 2  # what one run had planned, whichever of the two got it
        assert any(site["retired"] == "the site's budget is spent." for site in small)


def test_a_second_server_in_the_same_folder_is_refused_and_the_first_can_be_stopped(two: Live) -> None:
    change(two.file, {"run.rounds": 40, "federation.start_seconds": 60.0})
    two.server()
    assert wait_until(lambda: "waiting: 0 of 2 sites; not there: site-1, site-2" in two.log(), 30), two.log()
    process = two.processes["server"].pid
    second = fedspd("deploy", "server", str(two.file), code=2)
    assert f"which process {process} is at work in" in second
    two.sites()
    two.await_round(1)
    assert f"Process {process} has ended" in fedspd("deploy", "stop", str(two.file))
    assert two.processes["server"].wait(10) == 130
    assert "The same command goes on" in two.log()
    assert "No server is at work" in fedspd("deploy", "stop", str(two.file))
    rounds = two.round()
    assert all(two.charges(place) - (1 + rounds) in (0, 1) for place in (0, 1)), (
        "moments, the rounds, and one under way"
    )
    two.server(name="again")
    assert two.await_end(120, "again") == 0, two.log("again")
    assert two.results()["rounds"] == 40
    two.require_books("server")


def test_a_run_whose_sites_are_all_gone_stops_in_time_and_goes_on_when_they_are_back(two: Live) -> None:
    change(two.file, {"run.rounds": 30, "federation.round_seconds": 5.0, "federation.quorum": 2})
    two.server()
    two.sites()
    two.await_round(2)
    for place in (0, 1):
        two.kill(f"site-{place}site.toml")
    assert two.await_end(60) == 2, two.log()
    assert "expected at least federation.quorum = 2 sites within 5 s" in two.log()
    two.server(name="again")
    two.sites()
    assert two.await_end(90, "again") == 0, two.log("again")
    two.require_books("server")
    assert [two.charges(place) for place in (0, 1)] == [31, 31]


def test_with_its_messages_in_a_database_a_server_that_is_killed_goes_on_too(two: Live) -> None:
    change(two.file, {"run.rounds": 30, "listen.database": "messages.sqlite"})
    two.server()
    two.sites()
    two.await_round(2)
    two.kill("server")
    assert (two.folder / "messages.sqlite").stat().st_size > 0
    assert (two.folder / "messages.sqlite").stat().st_mode & 0o077 == 0
    two.server(name="again")
    assert two.await_end(120, "again") == 0, two.log("again")
    two.require_books("server")
    assert [two.charges(place) for place in (0, 1)] == [31, 31]


def test_a_killed_site_is_let_in_again_by_itself_and_one_that_is_ended_at_once(two: Live) -> None:
    two.server()
    two.site(0)
    assert wait_until(lambda: "connected to" in two.log("site-0site.toml"), 30)
    assert two.ask_to_end("site-0site.toml") == 0
    assert "start it again at any time" in two.log("site-0site.toml")
    begin = time.monotonic()
    two.site(0)
    assert wait_until(lambda: two.log("site-0site.toml").count("connected to") == 2, 30)
    assert time.monotonic() - begin < 8
    two.kill("site-0site.toml")
    begin = time.monotonic()
    two.site(0)
    assert wait_until(lambda: two.log("site-0site.toml").count("connected to") == 3, 60), two.log("site-0site.toml")
    assert time.monotonic() - begin < 40


@contextmanager
def masked(folder: Path, sites: int, until: int, **changes: Any) -> Iterator[Live]:
    """A masked run that has come to some round; where its sites share noise, their owners allow it."""
    with live(folder, sites, "--aggregation", "secure") as made:
        change(
            made.file, {"federation.round_seconds": 10.0} | {key.replace("__", "."): changes[key] for key in changes}
        )
        if "privacy__trust" in changes:
            fedspd("deploy", "members", str(made.file), "--write")
            for home in made.homes:
                change(home / "site.toml", {"budget.epsilon_alone": 5.0})
                copyfile(made.folder / "members.toml", home / "members.toml")
        made.server()
        made.sites()
        made.await_round(until, 120)
        yield made


def replies(made: Live, place: int) -> list[Stored]:
    """What a site has kept of its releases in the run."""
    with Store(made.homes[place] / "store.db") as store:
        found = [store.reply(made.results()["run"], number) for number in range(1, made.charges(place) + 1)]
    return [reply for reply in found if reply is not None]


def test_a_masked_run_survives_a_site_that_is_killed_in_it(tmp_path: Path) -> None:
    with masked(tmp_path, 4, 1, run__rounds=6, federation__round_seconds=6.0) as made:
        made.kill("site-3site.toml")
        made.site(3)
        assert made.await_end(180) == 0, made.log()
        made.require_books("server")
        results = made.results()
        assert results["rounds"] == 6
        assert not any(site["retired"] for site in results["sites"]), "a crash is no reason to leave anybody out"


def test_a_masked_run_whose_server_is_killed_goes_on_with_uploads_that_were_never_masked_before(tmp_path: Path) -> None:
    with masked(tmp_path, 4, 2, run__rounds=8) as made:
        made.kill("server")
        made.server(name="again")
        assert made.await_end(180, "again") == 0, made.log("again")
        made.require_books("server")
        results = made.results()
        assert 6 <= results["rounds"] <= 8, "an attempt that was cut off may have cost a round of the plan"
        for place in range(4):
            assert results["rounds"] <= made.charges(place) - 1 <= 8
            uploads = [reply.upload for reply in replies(made, place)]
            assert len(uploads) == len(set(uploads)) >= results["rounds"] + 1


def test_sites_that_share_noise_go_on_after_a_site_and_the_server_were_killed(tmp_path: Path) -> None:
    with masked(tmp_path, 5, 2, run__rounds=12, privacy__trust="secure-sums") as made:
        made.kill("site-2site.toml")
        made.site(2)
        made.await_round(4, 120)
        made.kill("server")
        made.server(name="again")
        assert made.await_end(240, "again") == 0, made.log("again")
        made.require_books("server")
        results = made.results()
        assert (results["trust"], results["clients"]) == ("secure-sums", 5)
        assert results["epsilon"] == 1 < results["epsilon_alone"] <= 5
        assert results["test_accuracy"] > 0.8
        for place in range(5):
            assert 1 < made.charges(place) <= 13
            assert all(reply.upload == b"" for reply in replies(made, place)), "nothing of a part is kept"


def test_a_cohort_whose_sites_are_killed_does_not_keep_the_others(tmp_path: Path) -> None:
    """Six sites in two cohorts, dealt by a hash of names: one of the second is left, and no sum of it can be."""
    numbers: dict[str, Any] = {"federation__threshold": 3, "federation__colluders": 0, "federation__quorum": 3}
    shared: dict[str, Any] = {"privacy__trust": "secure-sums", "privacy__cohorts": 2}
    with masked(tmp_path, 6, 2, run__rounds=6, federation__round_seconds=5.0, **numbers, **shared) as made:
        for place in (0, 3):
            made.kill(f"site-{place}site.toml")
        assert made.await_end(240) == 0, made.log()
        results = made.results()
        assert (results["cohorts"], results["members"], results["rounds"]) == (2, 3, 6)
        answered = [site["answered"] for site in results["sites"]]
        assert [answered[place] for place in (1, 2, 4)] == [6, 6, 6], made.log()
        (times,) = {answered[place] for place in (0, 3, 5)}
        assert 2 <= times < 6, "all of a cohort, or nobody"
        assert results["test_accuracy"] > 0.78


def test_a_person_confirms_a_run_once_and_the_server_waits_visibly(two: Live) -> None:
    change(two.homes[0] / "site.toml", {"policy.ask": True})
    two.server()
    two.sites()
    assert wait_until(lambda: "has yet to confirm the run" in two.log(), 60), two.log()
    assert two.charges(0) == 0
    asked = fedspd("deploy", "approve", str(two.homes[0] / "site.toml"), "--yes")
    assert "privacy.epsilon = 1.0" in asked
    assert two.await_end(90) == 0, two.log()
    two.require_books("server")
