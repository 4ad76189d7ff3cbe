"""Runs on JAX that are killed go on to the same bits, and nobody is charged twice: on one host and on two."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedspd.engine.jax_engine.session import installed
from tests.cli.test_resume import SMALL, called, cut_off
from tests.support.command import environment
from tests.support.cut_off import charges, run_files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not installed(), reason="JAX is not installed")]

ON_JAX = (*SMALL, "--engine=jax")
SOON = 200.0  # seconds


def test_a_run_on_jax_that_was_killed_goes_on_to_the_same_bits_and_is_charged_once(tmp_path: Path) -> None:
    done = called(tmp_path, *ON_JAX, "--checkpoint-every=0", "--out", "whole")
    assert done.returncode == 0, done.stderr
    cut_off(tmp_path, ON_JAX, "cut", 4)
    done = called(tmp_path, "resume", "cut")
    assert (done.returncode, done.stderr) == (0, "")
    assert run_files(tmp_path / "cut") == run_files(tmp_path / "whole")
    assert charges(tmp_path / "cut" / "ledger.sqlite") == charges(tmp_path / "whole" / "ledger.sqlite")


def on_two_hosts(folder: Path, first: tuple[str, ...], second: tuple[str, ...]) -> list[subprocess.Popen[bytes]]:
    hosts = []
    for number, arguments in enumerate((first, second)):
        with (folder / f"said-{number}").open("wb") as said:
            command = [sys.executable, "-m", "fedspd", *arguments]
            hosts.append(subprocess.Popen(command, cwd=folder, env=environment(folder / "cache"), stderr=said))
    return hosts


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def assert_done(folder: Path, hosts: list[subprocess.Popen[bytes]]) -> None:
    try:
        for number, host in enumerate(hosts):
            assert host.wait(SOON) == 0, (folder / f"said-{number}").read_text()[-2000:]
    finally:
        end(hosts)


def end(hosts: list[subprocess.Popen[bytes]]) -> None:
    for host in hosts:
        host.send_signal(signal.SIGKILL)
        host.wait()


@pytest.mark.lengthy
def test_a_run_over_two_hosts_that_were_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    asked = (*ON_JAX, "--checkpoint-every=0", "--hosts")
    address = free_address()
    first, second = (*asked, f"{address},2,0", "--out", "whole"), (*asked, f"{address},2,1")
    assert_done(tmp_path, on_two_hosts(tmp_path, first, second))
    address = free_address()
    first, second = (*asked, f"{address},2,0", "--out", "cut"), (*asked, f"{address},2,1")
    hosts, deadline = on_two_hosts(tmp_path, first, second), time.monotonic() + SOON
    while not list((tmp_path / "cut").glob("checkpoint-[4-9]")) and time.monotonic() < deadline:
        time.sleep(0.001)
    over = [host.poll() for host in hosts]
    end(hosts)
    assert over == [None, None], "it was over too soon"
    assert_done(tmp_path, on_two_hosts(tmp_path, ("resume", "cut"), second))
    assert run_files(tmp_path / "cut") == run_files(tmp_path / "whole")
    assert charges(tmp_path / "cut" / "ledger.sqlite") == charges(tmp_path / "whole" / "ledger.sqlite")
