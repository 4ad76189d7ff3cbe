"""Faults of a deployment, with real processes over TLS: `make test-deploy`.

One federation of five sites that hold Adult; the fifth can be told to answer garbage.
"""

import json
import os
import signal
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tomli_w

from fedspd import run as simulated
from fedspd.deploy.federation import Federation, site_node
from fedspd.deploy.processes import wait_until
from fedspd.deploy.server.checkpoint import load
from fedspd.deploy.setup.init import Plan, write_app
from fedspd.deploy.setup.keys import write_node_key
from fedspd.privacy.ledger import Ledger, show, verify
from tests.deploy import evil

pytestmark = pytest.mark.deploy
SITES, ROUND_SECONDS = 5, 20.0
SMALL = 2  # the site whose budget is used up by one run
EVIL = 4


class Deployed(NamedTuple):
    """A federation with its sites."""

    federation: Federation
    app: Path
    homes: list[Path]

    def variant(self, name: str, **settings: Any) -> Path:
        """The app under another name and with other settings, in a folder of its own."""
        folder = self.app.parent / f"app-{name}"
        folder.mkdir()
        project = tomllib.loads((self.app / "pyproject.toml").read_text())
        config = project["tool"]["flwr"]["app"]["config"]
        wanted = {"deploy.name": name, "deploy.folder": str(folder / "server"), **settings}
        for key, value in wanted.items():
            section, _, field = key.partition(".")
            config[section][field] = value
        (folder / "pyproject.toml").write_text(tomli_w.dumps(project))
        return folder

    def round(self, app: Path) -> int:
        """The last round that a run has merged."""
        checkpoint = load(app / "server")
        return -1 if checkpoint is None else checkpoint.round

    def at_work(self, app: Path, round: int, node: int, run: int) -> None:
        """Wait until a node answers a message of the round after this one."""
        begun = wait_until(lambda: self.round(app) >= round and self.federation.client_app_pids(node), 120)
        assert begun, self.federation.server_log(run)

    def restart(self, node: int) -> None:
        """Start a killed node again, in the background, as soon as Flower lets it in."""

        def live() -> None:
            self.federation.start_node(node)
            threading.Event().wait()  # a process ends with the thread that started it

        threading.Thread(target=live, daemon=True).start()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("faults")
    app = folder / "adult"
    homes = write_app(Plan(app, SITES, None, 1.0, 1e-5, "plain"))
    for number, home in enumerate(homes):
        if number != SMALL:
            text = (home / "site.toml").read_text()
            (home / "site.toml").write_text(text.replace("epsilon = 1.0", "epsilon = 4.0"))
    spoiled = homes[EVIL] / "spoiled.json"
    spoiled.write_text("{}")
    script = homes[EVIL] / "bin" / "flwr-clientapp"
    script.write_text(script.read_text().replace("-P -m fedspd.deploy.guard", "-m tests.deploy.evil"))
    nodes = [site_node(home) for home in homes[:EVIL]]
    nodes.append(site_node(homes[EVIL], SPOILED=str(spoiled), PYTHONPATH=str(Path(evil.__file__).parents[2])))
    with Federation(folder / "federation", app, nodes, heartbeat_seconds=15) as federation:
        yield Deployed(federation, app, homes)


def statement(app: Path) -> dict[str, Any]:
    """What a finished run states."""
    return json.loads((app / "server" / "statement.json").read_text())


def charges(home: Path, run: str) -> int:
    """How often a site's ledger was charged by a run."""
    with Ledger(home / "ledger.db") as ledger:
        return sum(charged.times for charged in ledger.charges() if charged.run == run)


def assert_books_agree(deployed: Deployed, *apps: Path) -> None:
    """The server's count of each site is the ledger's, and no site is beyond its budget."""
    for home in deployed.homes:
        verify(home / "ledger.db")
        with Ledger(home / "ledger.db") as ledger:
            for stated in show(ledger, None):
                assert stated.epsilon <= stated.budget.epsilon
                assert stated.rule is not None
    for app in apps:
        stated = statement(app)
        for site, home in zip(stated["sites"], deployed.homes, strict=True):
            assert site["charges"] == charges(home, stated["run"])
            assert site["answered"] <= site["charges"]


def test_two_runs_that_share_ledgers_never_exceed_a_budget_and_go_on_without_a_site_that_has_none_left(
    deployed: Deployed,
) -> None:
    fed = deployed.federation
    settings = {"run.rounds": 2, "data.scaling": "min-max", "deploy.round_seconds": 2 * ROUND_SECONDS}
    apps = [deployed.variant(name, **settings) for name in ("first", "second")]
    runs = [fed.run(app_dir=app) for app in apps]
    assert [fed.wait(run, 240) for run in runs] == ["finished:completed"] * 2
    assert_books_agree(deployed, *apps)
    small = [statement(app)["sites"][SMALL] for app in apps]
    assert sum(site["charges"] for site in small) == 2  # what one run had planned, whichever of the two got it
    assert any(site["retired"] == "the site's budget is spent." for site in small)
    assert all(statement(app)["rounds"] == 2 for app in apps)


def test_a_stormy_run_ends_within_noise_of_a_calm_one(deployed: Deployed) -> None:
    fed, homes = deployed.federation, deployed.homes
    for name in ("ledger.db", "store.db"):  # as if its records were new
        for file in homes[SMALL].glob(f"{name}*"):
            file.unlink()
    faults = dict(zip(("1", "2", "3", "4", "6"), evil.FAULTS, strict=True))
    (homes[EVIL] / "spoiled.json").write_text(json.dumps(faults))
    app = deployed.variant("storm", **{"run.rounds": 8, "deploy.round_seconds": ROUND_SECONDS, "deploy.quorum": 2})
    first = fed.run(app_dir=app)
    deployed.at_work(app, 1, node=0, run=first)
    fed.kill_node(0)  # in the middle of round 2
    deployed.restart(0)
    deployed.at_work(app, 3, node=1, run=first)
    assert fed.kill_server_app()  # in the middle of round 4
    second = fed.run(app_dir=app)
    deployed.at_work(app, 4, node=1, run=second)
    stopped = fed.node_pids(1)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)  # a slow site, in round 5
    assert wait_until(lambda: deployed.round(app) >= 5, 3 * ROUND_SECONDS), fed.server_log(second)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    log = fed.server_log(first) + "".join(fed.follow(second))
    assert fed.wait(second, 60) == "finished:completed", log
    assert "goes on after round 3" in log
    for why in ("it is not finite", "it is float64 of shape (81, 2)", "its norm is", "it is of round"):
        assert f"the reply of site-5 is rejected: {why}" in log, log
    assert log.count("the reply of site-5 is rejected") >= 5, log
    for site in ("site-1", "site-2"):
        assert f"{site} keeps its last reply" in log, log
    assert "a late answer is dropped: round 5" in log, log
    assert_books_agree(deployed, app)
    stated = statement(app)
    assert stated["rounds"] == 8
    assert abs(stated["test_accuracy"] - np.mean(calm())) < max(4 * np.std(calm(), ddof=1), 0.01)


def calm() -> list[float]:
    """Test accuracies of the same run without faults, simulated."""
    settings = {"partition.clients": SITES, "run.participants": SITES, "run.rounds": 8, "metrics.criterion": False}
    return [simulated("proved", {**settings, "run.seed": seed}).summary["test_accuracy"] for seed in range(6)]


def test_a_node_without_a_registered_key_or_with_plain_text_is_not_let_in(deployed: Deployed) -> None:
    fed = deployed.federation
    stranger = write_node_key(deployed.app.parent, "stranger")
    command = fed.node_command(stranger, {"site": str(deployed.homes[0] / "site.toml")})
    assert fed.spawn("stranger", command).wait(60) != 0
    plain = [word for word in command if word not in ("--root-certificates", str(fed.certificates.authority))]
    plain = [word for word in plain if word not in ("--auth-supernode-private-key", str(stranger.private))]
    process = fed.spawn("plain", [*plain, "--insecure", "--max-retries", "1"])
    wait_until(lambda: process.poll() is not None, 20)
    assert "SuperNode ID" not in fed.log("stranger") + fed.log("plain")


def test_a_run_whose_sites_are_all_gone_stops_in_time_and_can_be_resumed(deployed: Deployed) -> None:
    fed = deployed.federation
    app = deployed.variant(
        "alone", **{"run.rounds": 3, "data.scaling": "min-max", "deploy.round_seconds": ROUND_SECONDS}
    )
    run = fed.run(app_dir=app)
    deployed.at_work(app, 1, node=3, run=run)
    before = [charges(home, _run_name(app)) for home in deployed.homes]
    for node in range(SITES):
        fed.kill_node(node)
    assert fed.wait(run, 4 * ROUND_SECONDS) == "finished:failed"
    assert "got 0 that answered round 2" in fed.server_log(run)
    assert deployed.round(app) == 1
    after = [charges(home, _run_name(app)) for home in deployed.homes]
    assert all(0 <= new - old <= 1 for new, old in zip(after, before, strict=True))


def _run_name(app: Path) -> str:
    checkpoint = load(app / "server")
    assert checkpoint is not None
    return checkpoint.run
