"""A run between real processes is, number for number, the simulated one: `make test-deploy`."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tomli_w

from fedspd.deploy.federation import Federation as Processes
from fedspd.deploy.federation import site_node
from fedspd.deploy.guard import SCRIPT
from fedspd.deploy.processes import wait_until
from fedspd.deploy.server.checkpoint import load
from tests.deploy.sites import Federation
from tests.deploy.test_equal import PENALTY, STEP, deployed, simulated
from tests.deploy.twists import mean_of_totals

pytestmark = pytest.mark.deploy
ROUND_SECONDS = 20.0
PROJECT: dict[str, Any] = {"name": "same-run", "version": "1.0.0", "description": "A test", "license": "Apache-2.0"}
COMPONENTS = {"serverapp": "fedspd.deploy.app:server_app", "clientapp": "fedspd.deploy.app:client_app"}


class Running(NamedTuple):
    """Sites that need no protection, and their processes."""

    made: Federation
    processes: Processes
    app: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("same")
    made = deployed(folder / "sites", "fedspd", STEP | PENALTY)
    for site in made.sites:
        (site.parent / "bin").mkdir()
        (site.parent / "bin" / "flwr-clientapp").write_text(SCRIPT)
        (site.parent / "bin" / "flwr-clientapp").chmod(0o755)
    app = folder / "app"
    app.mkdir()
    nodes = [site_node(site.parent) for site in made.sites]
    with Processes(folder / "federation", app, nodes, heartbeat_seconds=10) as processes:
        yield Running(made, processes, app)


def start(running: Running, **settings: Any) -> int:
    """Write the app with these settings and start it."""
    running.made.values |= {"deploy.start_seconds": 60.0, "deploy.round_seconds": ROUND_SECONDS}
    running.made.values |= {name.replace("__", "."): value for name, value in settings.items()}
    config: dict[str, dict[str, Any]] = {}
    for name, value in running.made.values.items():
        section, _, key = name.partition(".")
        config.setdefault(section, {})[key] = value
    flower = {"app": {"publisher": "fedspd", "components": COMPONENTS, "config": config}}
    (running.app / "pyproject.toml").write_text(tomli_w.dumps({"project": PROJECT, "tool": {"flwr": flower}}))
    return running.processes.run()


def test_ten_rounds_between_five_processes_equal_the_simulator(running: Running) -> None:
    run = start(running)
    assert running.processes.wait(run, 300) == "finished:completed", running.processes.server_log(run)
    np.testing.assert_allclose(running.made.saved.server, simulated(running.made), rtol=0, atol=1e-6)
    assert running.made.saved.round == 10


def test_a_site_that_is_killed_in_a_masked_round_is_survived_and_nothing_of_it_is_lost(running: Running) -> None:
    folder = str(running.made.folder / "masked")
    run = start(
        running, deploy__folder=folder, deploy__name="masked", deploy__aggregation="secure", deploy__quorum=3,
        run__rounds=2,
    )  # fmt: skip
    site = running.made.sites[4].parent / "site.log"
    assert wait_until(lambda: "run masked" in site.read_text() and site.read_text().count("played") >= 11, 200)
    running.processes.kill_node(4)  # after it has played round 1 under masks, somewhere in what follows
    back = threading.Thread(target=running.processes.start_node, args=(4,))
    back.start()
    assert running.processes.wait(run, 300) == "finished:completed", running.processes.server_log(run)
    back.join()
    checkpoint = load(Path(folder))
    assert checkpoint is not None
    assert checkpoint.round == 2
    np.testing.assert_allclose(checkpoint.server, mean_of_totals(running.made), rtol=0, atol=1e-9)
