"""No command asks for another machine: nothing is fetched, nothing is told to anybody."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import fedspd
from fedspd.results.work import Work, write_work
from tests.security.commands import BUDGET, OWN, write_own_table
from tests.support.command import environment

DRIVER = """
import json, os, sys
from tests.support.network import deny_network

def tried(attempt):
    os.write(2, f"tried: {attempt}".encode())
    os._exit(99)

deny_network(tried)
from fedspd.results.work import Work, write_work
from tests.security.commands import command
for arguments in json.load(sys.stdin):
    command(*arguments)
print("all done")
"""
APART = (
    *OWN,
    *BUDGET,
    "--set",
    "evaluation.held_out=0.3",
    "--set",
    "partition.seed=1",
    "--ledger",
    "apart.sqlite",
    "--ledger-epsilon",
    "50",
)
SWEEP = (
    *OWN, "--set", "privacy.epsilon=5", "--grid", "algorithm.inverse_step=1.0,2.0", "--seeds", "1",
)  # fmt: skip
COMMANDS = (
    ("methods",), ("methods", "fedspd"), ("settings",),
    ("account", "--sampling", "whole-shard", "--noise-multiplier", "2", "--participations", "10", *BUDGET[2:]),
    ("plan", *OWN[:6], *BUDGET),
    ("data", "describe", "t.csv", "--target", "y"),
    ("ledger", "create", "ledger.sqlite"),
    ("run", *OWN, *BUDGET, "--ledger", "ledger.sqlite", "--out", "own"),
    ("run", "--set", "run.rounds=2", "--set", "partition.clients=5", "--set", "run.participants=5", "--out", "adult"),
    ("ledger", "show", "ledger.sqlite"), ("ledger", "verify", "ledger.sqlite"),
    ("predict", "own", "t.csv", "--out", "predictions.csv"),
    ("export", "own", "--to", "csv", "--out", "model.csv"),
    ("sweep", *SWEEP, "--out", "sweep"),
    ("ledger", "create", "apart.sqlite"),
    *(("run", *APART, "--set", f"run.seed={seed}", "--out", f"apart-{seed}") for seed in (1, 2)),
    ("evaluate", "apart-1", "--ledger", "apart.sqlite"), ("infer", "apart-1", "--ledger", "apart.sqlite"),
    ("select", "apart-1", "apart-2", "--ledger", "apart.sqlite"),
    ("audit", "own", "--runs", "1000", "--quiet"),
    ("statement", "own"), ("statement", "apart-1", "--ledger", "apart.sqlite", "--html", "--out", "statement.html"),
    ("card", "own"), ("resume", "taken-up"),
    ("compare", "--data", "breast-cancer", "--method", "fedspd", "--epsilon", "1", "--deal", "iid",
     "--participation", "full", "--seeds", "1", "--uploads", "2", "--out", "compared"),
    ("reproduce", "fig6", "--seeds", "1", "--out", "figures"),
    ("report", "own", "adult", "sweep", "--out", "page.html"),
)  # fmt: skip


def done(folder: Path, driver: str, told: str) -> tuple[int, str, str]:
    """A process with the sources that this one has, and with a driver of its own."""
    sources = os.pathsep.join(map(str, (Path(fedspd.__file__).parents[1], Path(__file__).parents[2])))
    ended = subprocess.run(
        [sys.executable, "-c", driver], input=told, cwd=folder, capture_output=True, text=True, timeout=300,
        env=environment(folder / "cache") | {"PYTHONPATH": sources}, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


def test_the_commands_reach_for_no_other_machine(tmp_path: Path) -> None:
    write_own_table(tmp_path)
    (tmp_path / "taken-up").mkdir()
    write_work(tmp_path / "taken-up", Work(("sweep",), SWEEP, str(tmp_path), ""))
    code, out, err = done(tmp_path, DRIVER, json.dumps(COMMANDS))
    assert (code, out.splitlines()[-1:]) == (0, ["all done"]), err


def test_a_command_that_reached_for_another_machine_would_be_caught(tmp_path: Path) -> None:
    reaching = DRIVER.replace("command(*arguments)", "__import__('socket').create_connection(('192.0.2.1', 80), 1)")
    code, _, err = done(tmp_path, reaching, "[[]]")
    assert (code, err) == (99, "tried: socket.getaddrinfo '192.0.2.1'")


def test_tests_have_no_network_but_that_of_their_machine() -> None:
    with pytest.raises(OSError, match="denied to tests"):
        urllib.request.urlopen("http://192.0.2.1/", timeout=1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out, pytest.raises(OSError, match="denied to tests"):
        out.sendto(b"hello", ("192.0.2.1", 53))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 1) as here:
        assert here.getpeername() == server.getsockname()
