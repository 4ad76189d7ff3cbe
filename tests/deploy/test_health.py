"""A health line for people and numbers for Prometheus, on loopback alone; and one server for a folder."""

import logging
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fedspd.deploy.flower import TESTED, require_flower
from fedspd.deploy.health import Health
from fedspd.deploy.server.lock import locked, process_of, stop
from fedspd.deploy.site.respond import _handler
from fedspd.deploy.site.settings import read_site
from fedspd.errors import InputError
from tests.support.deploy.processes import free_port, wait_until
from tests.support.deploy.sites import federation
from tests.support.ledger.crashes import fork


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


def test_a_page_on_loopback_shows_a_line_and_all_numbers() -> None:
    port, up = free_port(), True
    with Health("site", port) as health:
        health.watch(lambda: up)
        health.handled("answered", 0.25)
        health.handled("answered", 0.5)
        health.handled("refused", 0.01)
        assert get(port, "/").startswith("fedspd site: connected, messages_total")
        text = get(port, "/metrics")
        assert "# TYPE fedspd_site_messages_total counter" in text
        assert 'fedspd_site_messages_total{outcome="answered"} 2.0' in text
        assert 'fedspd_site_messages_total{outcome="refused"} 1.0' in text
        assert "fedspd_site_up 1.0" in text
        up = False
        assert get(port, "/").startswith("fedspd site: not connected")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(port, "/records")
    with pytest.raises(urllib.error.URLError):
        get(port, "/")


def test_without_a_port_there_is_no_page_and_a_taken_port_is_refused() -> None:
    with Health("server", 0) as health:
        health.set("round", 3)
        assert "round 3" in health.line()
    port = free_port()
    with (
        Health("site", port),
        pytest.raises(InputError, match=f"got {port}: Address already in use"),
        Health("b", port),
    ):
        pass


def test_a_folder_has_one_server_and_another_process_is_refused_by_number(tmp_path: Path) -> None:
    def other() -> None:
        with pytest.raises(InputError, match=f"which process {os.getppid()} is at work in"), locked(tmp_path):
            pass

    with locked(tmp_path):
        _, status = os.waitpid(fork(other), 0)
        assert os.waitstatus_to_exitcode(status) == 0
    with locked(tmp_path):
        pass


def test_a_server_that_was_killed_leaves_no_lock_and_nothing_to_stop(tmp_path: Path) -> None:
    def killed() -> None:
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(fork(killed), 0)
    assert stop(tmp_path) == f"No server is at work in {tmp_path}."
    with locked(tmp_path):
        pass


def test_stop_ends_the_process_that_holds_the_folder(tmp_path: Path) -> None:
    def serve() -> None:
        with locked(tmp_path):
            signal.pause()

    child = fork(serve)
    assert wait_until(lambda: (tmp_path / "lock").exists() and (tmp_path / "lock").read_text() == str(child), 5)
    assert f"Process {child} has ended" in stop(tmp_path)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM


@pytest.mark.parametrize("content", [b"", b"0", b"1", b"-1", b"north", b"\xff", "\u0663".encode()])
def test_a_lock_that_names_no_process_of_a_server_gives_no_number_to_end(content: bytes, tmp_path: Path) -> None:
    """Ending "process" 0 or -1 would end a whole group or machine: only the reading is tried here, never the signal."""
    (tmp_path / "lock").write_bytes(content)
    with pytest.raises(InputError, match="expected the number of the server's process"):
        process_of(tmp_path)


def test_a_long_log_begins_anew_stays_its_owners_and_other_processes_follow(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"limits.log_mb": 1})
    site = read_site(made.sites[0])
    handler, follower = _handler(site, begins_anew=True), _handler(site, begins_anew=False)

    def write(to: logging.Handler, text: str) -> None:
        to.handle(logging.LogRecord("site", logging.INFO, "", 0, text, None, None))

    for number in range(1200):
        write(handler, f"{number} " + "x" * 2000)
    write(follower, "from the other process")
    names = sorted(path.name for path in made.sites[0].parent.glob("site.log*"))
    assert names == ["site.log", "site.log.1", "site.log.2"]
    assert "from the other process" in (made.sites[0].parent / "site.log").read_text()
    assert {path.stat().st_mode & 0o777 for path in made.sites[0].parent.glob("site.log*")} == {0o600}
    for one in (handler, follower):
        one.close()


def test_another_version_of_flower_than_a_tested_one_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    require_flower()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.99.0")
    with pytest.raises(InputError, match=rf"{TESTED[0]}, got 1\.99\.0; pip install flwr=={TESTED[-1]}"):
        require_flower()
