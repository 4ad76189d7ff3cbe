"""The commands of a deployment, given what people and disks get wrong: a sentence and code 2, never a traceback."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedspd.deploy.setup.init import write_federation
from fedspd.deploy.setup.join import join
from fedspd.deploy.site.settings import Limits, read_site
from fedspd.deploy.site.worker import Worker
from fedspd.errors import InputError
from tests.deploy.setup.test_setup import plan
from tests.support.command import SCRIPT, Finished, run_all
from tests.support.deploy.live import unpacked
from tests.support.deploy.sites import write_records
from tests.support.ledger.crashes import fork

LONG = "x" * 300
INIT = ("deploy", "init")
SITES = ("--sites", "2")
BAD_HOSTS = {"umlaut": "münchen", "empty": "", "blank": "a b", "quote": 'a"b', "line": "a\nb", "scope": 'fe80::1%"'}
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "init at a file": ((*INIT, "/etc/passwd", *SITES), "expected a new or empty folder, got /etc/passwd"),
    "init under a file": ((*INIT, "/etc/passwd/wards", *SITES), "got /etc/passwd/wards"),
    "init in proc": ((*INIT, "/proc/wards", *SITES), "got /proc/wards"),
    "init under a long name": ((*INIT, LONG, *SITES), "File name too long"),
    "init at a loop": ((*INIT, "loop", *SITES), "expected a new or empty folder, got loop"),
    "init at a device": ((*INIT, "/dev/full", *SITES), "expected a new or empty folder, got /dev/full"),
    **{
        f"host {what}": ((*INIT, "wards", *SITES, "--host", host), "expected a host: an IP address or a name")
        for what, host in BAD_HOSTS.items()
    },
    **{
        f"epsilon {value}": ((*INIT, "wards", *SITES, f"--epsilon={value}"), "expected a finite --epsilon above 0, got")
        for value in ("inf", "nan", "0", "-1")
    },
    **{
        f"delta {value}": ((*INIT, "wards", *SITES, f"--delta={value}"), "expected a --delta above 0 and below 1, got")
        for value in ("0", "1", "nan", "-1")
    },
    "two sites and sums only": (
        (*INIT, "wards", *SITES, "--aggregation", "secure"),
        "expected at least 3 sites for secure aggregation, got 2",
    ),
    "site of dots": ((*INIT, "wards", "--site", ".."), "begin with a letter or digit, got '..'"),
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    root = tmp_path_factory.mktemp("refused")
    (root / "init-at-a-loop").mkdir()
    (root / "init-at-a-loop" / "loop").symlink_to("loop")
    return run_all(root, {what: arguments for what, (arguments, _) in REFUSED.items()})


@pytest.mark.parametrize("what", REFUSED)
def test_a_federation_nobody_could_use_is_refused_in_a_sentence_and_nothing_is_written(
    what: str, refusals: dict[str, Finished]
) -> None:
    done = refusals[what]
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert REFUSED[what][1] in done.err
    assert [path.name for path in done.folder.iterdir()] == (["loop"] if what == "init at a loop" else [])


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standing")
    for archive in write_federation(plan(folder)):
        write_records(unpacked(archive, folder) / "records.csv", 150, 0)
    return folder


def replaced(path: Path, *changes: tuple[str, str]) -> Path:
    """A file with some of its text replaced."""
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def spoiled(standing: Path, to: Path) -> dict[str, tuple[str, ...]]:
    """Commands on copies of a federation and a site, each spoiled in a way of its own."""

    def federation(name: str, *changes: tuple[str, str]) -> Path:
        subprocess.run(["cp", "-r", standing / "wards", to / name], check=True)
        return replaced(to / name / "federation.toml", *changes)

    def site(name: str, *changes: tuple[str, str]) -> Path:
        subprocess.run(["cp", "-r", standing / "north", to / name], check=True)
        return replaced(to / name / "site.toml", *changes)

    no_authority, lock, results, listed = (federation(name) for name in ("a", "b", "c", "d"))
    (no_authority.parent / "keys" / "ca.pem").unlink()
    (lock.parent / "server" / "lock").mkdir(parents=True)
    for file, summary in ((results, {"algorithm": "fedspd"}), (listed, [1])):
        run = file.parent / "server" / "run"
        run.mkdir(parents=True)
        (run / "summary.json").write_text(json.dumps(summary))
        (run / "sites.json").write_text("[3]")
    odd = federation("e")
    odd.write_text('federation = 3\n[[site]]\nname = "north"\n')
    random = site("f", ('authority = "ca.pem"', 'authority = "site.toml"'))
    key = site("g", ('key = "site.key"', 'key = "/proc/k"'))
    alone = site("h", ("[server]", "#"), ("address =", "#"), ("authority =", "#"))
    null = site("i", ('data = "records.csv"', 'data = "a\\u0000b"'))
    return {
        "renew --host": ("deploy", "renew", str(federation("j")), "--host", "münchen"),
        "renew without ca.pem": ("deploy", "renew", str(no_authority)),
        "stop": ("deploy", "stop", str(lock)),
        "server at a lock": ("deploy", "server", str(lock)),
        "server --set": ("deploy", "server", str(odd), "--set", "federation.quorum=1"),
        "report": ("deploy", "report", str(results)),
        "report --json": ("deploy", "report", str(listed), "--json"),
        "site with a random authority": ("deploy", "site", str(random)),
        "join at an odd key": ("deploy", "join", str(key)),
        "check without a server": ("deploy", "check", str(alone)),
        "check of a null": ("deploy", "check", str(null)),
    }


SPOILED = {
    "renew --host": "expected a host",
    "renew without ca.pem": "expected the authority's certificate at",
    "stop": "Is a directory",
    "server at a lock": "Is a directory",
    "server --set": "[federation] must be a table of keys, got 3",
    "report": "expected a finished run in",
    "report --json": "expected a finished run in",
    "site with a random authority": "certificate",
    "join at an odd key": "/proc/k",
    "check without a server": "expected a [server] with its address, got none",
    "check of a null": "site.data must be a path",
}


@pytest.fixture(scope="module")
def told(standing: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    folder = tmp_path_factory.mktemp("spoiled")
    return run_all(tmp_path_factory.mktemp("told"), spoiled(standing, folder))


@pytest.mark.parametrize("what", SPOILED)
def test_a_spoiled_file_is_told_of_in_a_sentence(what: str, told: dict[str, Finished]) -> None:
    done = told[what]
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert SPOILED[what] in done.out + done.err


@pytest.mark.parametrize(
    ("key", "value"), [("seconds", "1e300"), ("memory_mb", "9223372036854775807"), ("log_mb", "100000000000")]
)
def test_limits_that_no_machine_could_keep_are_refused(key: str, value: str, standing: Path, tmp_path: Path) -> None:
    lines = (standing / "north" / "site.toml").read_text().splitlines()
    file = tmp_path / "site.toml"
    file.write_text("\n".join(f"{key} = {value}" if line.startswith(f"{key} =") else line for line in lines))
    with pytest.raises(InputError, match=rf"limits\.{key} must be .*at most"):
        read_site(file)


def test_a_worker_keeps_to_the_limit_of_the_machine_where_that_is_lower(standing: Path) -> None:
    def child() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2**33, 2**33))
        with Worker(standing / "north" / "site.toml", Limits(memory_mb=10**6), print) as worker:
            assert worker._process.is_alive()

    _, status = os.waitpid(fork(child), 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_worker_is_deaf_to_ctrl_c_from_its_first_moment(standing: Path) -> None:
    worker = Worker(standing / "north" / "site.toml", Limits(), print)
    with worker:
        status = Path(f"/proc/{worker._process.pid}/status").read_text()
        ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
        assert int(ignored.split()[1], 16) & 1 << (signal.SIGINT - 1)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


STARTING = """
import os, signal, sys
from pathlib import Path
from fedspd.deploy.site.settings import Limits
from fedspd.deploy.site.worker import Worker

if __name__ == "__main__":
    import threading, time
    from multiprocessing import active_children
    def interrupt():
        while not active_children():
            time.sleep(0.001)
        for _ in range(20):
            for child in active_children():
                os.kill(child.pid, signal.SIGINT)
            time.sleep(0.02)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with Worker(Path(sys.argv[1]), Limits(), print) as worker:
        thread.join()
        assert worker._process.is_alive()
"""


def test_ctrl_c_while_a_worker_starts_ends_no_worker(standing: Path, tmp_path: Path) -> None:
    (tmp_path / "starting.py").write_text(STARTING)
    done = subprocess.run(
        [sys.executable, tmp_path / "starting.py", standing / "north" / "site.toml"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_log_on_a_full_disk_shows_no_traceback(standing: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", standing / "north", tmp_path / "north"], check=True)
    file = replaced(tmp_path / "north" / "site.toml", ('log = "site.log"', 'log = "/dev/full"'))
    join(file, lambda line: None)
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        site = subprocess.Popen([SCRIPT, "deploy", "site", file], stdout=subprocess.PIPE, stderr=stream, text=True)
        assert site.stdout is not None
        lines = [site.stdout.readline() for _ in range(2)]
        site.send_signal(signal.SIGTERM)
        site.communicate(timeout=60)
    assert any("north" in line for line in lines), lines
    assert "Traceback" not in errors.read_text()


@pytest.mark.parametrize("after", [0.05, 0.15, 0.25, 0.4, 0.7])
def test_ctrl_c_at_any_moment_shows_no_traceback_of_ours(after: float, tmp_path: Path) -> None:
    started = "import fedspd.cli, sys; print('up', flush=True); sys.argv[0] = 'fedspd'; fedspd.cli.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", started, "deploy", "init", "wards", "--sites", "900"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores the keyboard
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(after)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_system_is_one_sentence_with_the_files_name(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SCRIPT, "settings"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=tmp_path
        )
    assert done.returncode == 2
    assert done.stderr == "fedspd: No space left on device\n"


def test_a_reader_that_goes_away_is_no_error_to_be_told_of(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [SCRIPT, "settings"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=tmp_path
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
