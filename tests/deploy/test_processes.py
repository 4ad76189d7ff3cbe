"""Processes of a federation are found by their mark: all of them, and nobody else's."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from fedspd.deploy.processes import free_port, kill_marked, listens, marked, spawn, wait_until

# Starts a child in a session of its own, as Flower does, and ends at once or waits.
PARENT = "import subprocess, sys, time; subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep({})"


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def start(seconds: float, mark: str, folder: Path) -> subprocess.Popen[bytes]:
    return spawn([sys.executable, "-c", PARENT.format(seconds)], mark, folder / "log", os.environ)


def test_a_child_in_a_session_of_its_own_is_found_and_killed_with_its_parent(tmp_path: Path, mark: str) -> None:
    parent = start(60, f"{mark}/a/", tmp_path)
    assert wait_until(lambda: marked(mark, "sleep"), 20)
    killed = kill_marked(mark)
    assert parent.pid in killed
    assert len(killed) == 2
    assert marked(mark) == []
    assert parent.wait() == -9


def test_a_child_that_outlived_its_parent_is_found_and_killed(tmp_path: Path, mark: str) -> None:
    assert start(0, f"{mark}/a/", tmp_path).wait() == 0
    assert len(marked(mark)) == 1
    assert len(kill_marked(mark)) == 1
    assert marked(mark) == []


def test_processes_with_another_mark_live_on(tmp_path: Path, mark: str) -> None:
    first, tenth = start(60, f"{mark}/node-1/", tmp_path), start(60, f"{mark}/node-10/", tmp_path)
    assert wait_until(lambda: len(marked(mark, "sleep")) == 2, 20)
    try:
        kill_marked(f"{mark}/node-1/")
        assert first.wait() == -9
        assert tenth.poll() is None
        assert len(marked(mark)) == 2
    finally:
        kill_marked(mark)
        tenth.wait()


def test_a_process_does_not_outlive_a_starter_that_was_killed(tmp_path: Path, mark: str) -> None:
    program = (
        "import os, pathlib, sys; from fedspd.deploy.processes import spawn; "
        "spawn(['sleep', '60'], sys.argv[1], pathlib.Path(sys.argv[2]), os.environ); os.kill(os.getpid(), 9)"
    )
    starter = subprocess.run([sys.executable, "-c", program, mark, str(tmp_path / "log")], check=False, timeout=60)
    assert starter.returncode == -9
    assert wait_until(lambda: not marked(mark), 10)


def test_a_free_port_has_no_listener_and_is_outside_the_ports_of_outgoing_connections() -> None:
    port = free_port()
    assert not listens(port)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert port < lowest
