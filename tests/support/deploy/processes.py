"""Processes of a federation on this machine, found again by a mark in their environment.

Flower's processes start others, some in sessions of their own, so neither a parent nor a process group names them
all; the environment is inherited by every one. Linux only, since it is read from /proc.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# prctl(PR_SET_PDEATHSIG, SIGKILL), which lasts beyond exec; `preexec_fn` would run it between fork and exec, which a
# process with threads must not rely on. A starter that died before has left the child to another parent.
DIE_WITH_STARTER = """import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
MARK = "FEDSPD_FEDERATION_MEMBER"
POLL_SECONDS = 0.05


def free_port() -> int:
    """A loopback port that nothing listens on now, and that no outgoing connection is given later."""
    while True:
        # The kernel gives outgoing connections ports from 32768 on.
        port = random.SystemRandom().randrange(20000, 32768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def spawn(command: Sequence[str], mark: str, log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a marked process in its own session; what it and its children print is appended to `log`.

    It is killed when the thread that started it ends, so that it cannot outlive a killed test or demo.
    """
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-ISc", DIE_WITH_STARTER, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**environment, MARK: mark},
            start_new_session=True,
        )


def marked(mark: str, program: str = "") -> list[int]:
    """Ids of the living processes whose mark starts with this one, or only those that run the named program."""
    return [pid for pid in _all_pids() if _has_mark(pid, mark) and (not program or _runs(pid, program))]


def kill_marked(mark: str, program: str = "") -> list[int]:
    """SIGKILL the processes that `marked` finds, and those they start meanwhile; their ids, once none is left."""
    killed: list[int] = []
    while pids := marked(mark, program):
        for pid in pids:
            # A stopped process starts no other while the rest is being found.
            _signal(pid, signal.SIGSTOP)
        if set(marked(mark, program)) == set(pids):
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            killed += pids
        time.sleep(POLL_SECONDS)
    return sorted(set(killed))


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether a condition came true within some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _has_mark(pid: int, mark: str) -> bool:
    # A zombie has no environment left, so it counts as gone.
    start = f"{MARK}={mark}".encode()
    return any(entry.startswith(start) for entry in _proc(pid, "environ"))


def _runs(pid: int, program: str) -> bool:
    return any(Path(os.fsdecode(word)).name == program for word in _proc(pid, "cmdline")[:4])


def _proc(pid: int, file: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0")
    except OSError:  # it ended, or is another user's
        return []
