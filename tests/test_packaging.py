"""The files of packaging/ are well formed, and what they start plays a run to its end, without a container."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fedspd.deploy.setup.kit import template
from tests.support.deploy.processes import free_port, kill_marked, spawn, wait_until

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
SCRIPTS = Path(sys.executable).parent
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
SERVICE_KEYS = {
    "image", "build", "user", "working_dir", "read_only", "tmpfs", "cap_drop", "security_opt", "init",
    "stop_grace_period", "command", "volumes", "ports", "networks", "restart",
}  # fmt: skip
UNIT_KEYS = {
    "Unit": {"Description", "After", "Wants"},
    "Service": {
        "User", "WorkingDirectory", "ExecStart", "Restart", "RestartSec", "RestartPreventExitStatus",
        "SuccessExitStatus", "KillSignal", "TimeoutStopSec", "UMask", "Environment", "ReadWritePaths",
        "CapabilityBoundingSet", "LockPersonality", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectClock",
        "ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
        "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "RestrictAddressFamilies", "RestrictNamespaces",
        "RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter",
    },
    "Install": {"WantedBy"},
}  # fmt: skip
UNITS = {
    "fedspd-server": (PACKAGING / "fedspd-server.service").read_text(),
    "fedspd-site": template("fedspd-site.service", name="site-1"),
}


class Instruction(NamedTuple):
    """A line of a Dockerfile."""

    name: str
    rest: str


def dockerfile() -> list[Instruction]:
    lines = [line for line in (PACKAGING / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in whole if line.strip()]


def last_stage() -> list[Instruction]:
    found = dockerfile()
    start = max(place for place, instruction in enumerate(found) if instruction.name == "FROM")
    return found[start:]


def compose() -> dict[str, Any]:
    return yaml.safe_load((PACKAGING / "compose.yaml").read_text())


def services() -> dict[str, Any]:
    return compose()["services"]


def folder_of(service: dict[str, Any]) -> str:
    """What is mounted where the service works."""
    (volume,) = service["volumes"]
    source, target = volume.split(":")
    assert target == service["working_dir"]
    return source


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read_string(UNITS[name])
    return parser


def setup() -> list[str]:
    """The commands of compose.yaml's head, which are run once."""
    return re.findall(r"^#   ((?:fedspd|tar) .*)$", (PACKAGING / "compose.yaml").read_text(), re.MULTILINE)


def test_the_image_has_known_instructions_and_a_pinned_base_and_fetches_nothing_by_address() -> None:
    assert {instruction.name for instruction in dockerfile()} == INSTRUCTIONS
    bases = [instruction.rest.split()[0] for instruction in dockerfile() if instruction.name == "FROM"]
    assert set(bases) == {"python:3.11-slim"}
    assert not re.search(r"https?://|curl|wget", "\n".join(instruction.rest for instruction in dockerfile()))


def test_everything_that_the_image_copies_is_in_the_repository_and_is_all_that_a_build_needs() -> None:
    copied = set[str]()
    for instruction in dockerfile():
        words = shlex.split(instruction.rest)
        if instruction.name == "COPY" and not words[0].startswith("--from"):
            copied.update(words[:-1])
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [project["project"]["readme"], *project["project"]["license-files"]]
    needed += project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {path.partition("/")[0] for path in needed} | {"pyproject.toml", "constraints.txt"} == copied


def test_every_installation_in_the_image_is_held_to_the_lock() -> None:
    (build,) = [instruction.rest for instruction in dockerfile() if "pip install" in instruction.rest]
    installs = [part for part in build.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in part for part in installs)
    assert "--no-build-isolation" in installs[1], "else the build's own tools are not"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (extra,) = re.findall(r"\.\[(\w+)\]", installs[1])
    assert extra in extras


def test_the_image_ends_as_nobody_special_and_runs_the_command() -> None:
    final = {instruction.name: instruction.rest for instruction in last_stage()}
    assert final["USER"].split(":")[0] not in ("", "0", "root")
    assert json.loads(final["ENTRYPOINT"]) == ["fedspd"]
    assert subprocess.run([SCRIPTS / "fedspd", *json.loads(final["CMD"])], capture_output=True, check=False).stdout
    names = [instruction.name for instruction in last_stage()]
    assert names.index("USER") > names.index("RUN"), "what it runs as root is over by then"


def test_every_service_works_in_one_folder_and_can_write_nowhere_else() -> None:
    assert set(services()) == {"server", "site-1", "site-2"}
    for name, service in services().items():
        assert set(service) <= SERVICE_KEYS, name
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "${FEDSPD_USER:-10001:10001}"
        context = (PACKAGING / service["build"]["context"]).resolve()
        assert context / service["build"]["dockerfile"] == PACKAGING / "Dockerfile"
    folders = [folder_of(service) for service in services().values()]
    assert len(set(folders)) == len(folders), "no site sees another's records"


def test_only_the_server_is_reached_from_outside_and_a_site_reaches_the_server_alone() -> None:
    networks = compose()["networks"]
    (published,) = services()["server"]["ports"]
    assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", published)
    for name, service in services().items():
        if name != "server":
            assert "ports" not in service
            assert all(networks[network]["internal"] is True for network in service["networks"])
    internal = {name for name, network in networks.items() if network.get("internal")}
    assert internal < set(services()["server"]["networks"])


def test_the_set_up_of_the_services_calls_the_server_by_the_name_and_port_that_they_have() -> None:
    begin, *rest = setup()
    words = shlex.split(begin)
    assert words[words.index("--host") + 1] in services()
    assert services()["server"]["ports"] == [f"127.0.0.1:{words[words.index('--port') + 1]}:9092"]
    assert [shlex.split(command)[0] for command in rest] == ["tar", "tar", "fedspd", "fedspd"]


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_has_known_keys_and_can_write_into_its_folder_alone(name: str) -> None:
    found = unit(name)
    assert found.sections() == list(UNIT_KEYS)
    for section, keys in UNIT_KEYS.items():
        assert set(found[section]) <= keys
    service = found["Service"]
    assert service["ProtectSystem"] == "strict"
    assert service["ReadWritePaths"] == service["WorkingDirectory"]
    assert service["User"] not in ("", "root", "0")
    assert service["UMask"] == "0077"
    assert service["CapabilityBoundingSet"] == ""
    assert Path(shlex.split(service["ExecStart"])[0]).is_absolute()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_itself_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    text = UNITS[name].replace("/srv/fedspd/venv/bin", str(SCRIPTS))  # it looks whether the command is there
    (tmp_path / f"{name}.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / f"{name}.service")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if name in line]) == (0, [])


class Machine:
    """Processes that are started as a container engine or an init system would, each in a folder of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self._token = uuid.uuid4().hex
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, home: Path, command: list[str]) -> None:
        into = ["sh", "-c", 'cd "$0" && exec "$@"', str(home), *command]
        self.processes[name] = spawn(into, f"{self._token}/{name}", self.folder / f"{name}.out", self.environment)

    def code(self, name: str, seconds: float = 90) -> int:
        """The exit code of a process that ends by itself."""
        assert wait_until(lambda: self.processes[name].poll() is not None, seconds), self.printed(name)
        return self.processes[name].returncode

    def told_to_end(self, name: str, number: int = signal.SIGTERM) -> int:
        self.processes[name].send_signal(number)
        return self.code(name)

    def printed(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def stop(self) -> None:
        kill_marked(self._token)
        for process in self.processes.values():
            process.wait()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """With the environment of the image, and nothing of the test's own."""
    (text,) = [instruction.rest for instruction in last_stage() if instruction.name == "ENV"]
    values = dict(word.split("=", 1) for word in shlex.split(text))
    values["PATH"] = values["PATH"].replace("/opt/fedspd/bin", str(SCRIPTS)).replace("$PATH", os.environ["PATH"])
    values["MPLCONFIGDIR"] = str(tmp_path / "matplotlib")
    made = Machine(tmp_path, values)
    try:
        yield made
    finally:
        made.stop()


def set_up(machine: Machine) -> None:
    """What compose.yaml's head says, word by word, but for the server's name and a port that is free here."""
    for command in setup():
        here = command.replace("--host server", "--host localhost").replace("9092", str(free_port()))
        done = subprocess.run(
            ["bash", "-ec", here],
            cwd=machine.folder,
            env=machine.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{here}\n{done.stderr}"


def require_the_end_of_a_run(machine: Machine) -> None:
    assert machine.code("server") == 0, machine.printed("server")
    told = json.loads((machine.folder / "adult" / "server" / "run" / "sites.json").read_text())
    assert [(site["site"], site["answered"], site["charges"]) for site in told] == [
        ("site-1", 100, 101),
        ("site-2", 100, 101),
    ]


@pytest.mark.deploy
def test_the_services_play_a_run_to_its_end(machine: Machine) -> None:
    set_up(machine)
    (entry,) = [json.loads(instruction.rest) for instruction in last_stage() if instruction.name == "ENTRYPOINT"]
    for name, service in services().items():
        machine.start(name, machine.folder / folder_of(service), [*entry, *service["command"]])
    require_the_end_of_a_run(machine)
    assert [machine.told_to_end(name) for name in ("site-1", "site-2")] == [0, 0]


@pytest.mark.deploy
def test_the_units_play_a_run_to_its_end_and_a_finished_one_is_not_begun_again(machine: Machine) -> None:
    set_up(machine)
    begin = {name: shlex.split(unit(name)["Service"]["ExecStart"]) for name in UNITS}
    for name, command in begin.items():
        assert command[0] == "/srv/fedspd/venv/bin/fedspd"
        begin[name] = [str(SCRIPTS / "fedspd"), *command[1:]]
    for name in ("site-1", "site-2"):
        machine.start(name, machine.folder / name, begin["fedspd-site"])
    machine.start("server", machine.folder / "adult", begin["fedspd-server"])
    require_the_end_of_a_run(machine)
    machine.start("again", machine.folder / "adult", begin["fedspd-server"])
    assert machine.code("again") == int(unit("fedspd-server")["Service"]["RestartPreventExitStatus"])
    number = getattr(signal, unit("fedspd-site")["Service"]["KillSignal"])
    assert [machine.told_to_end(name, number) for name in ("site-1", "site-2")] == [0, 0]


@pytest.mark.deploy
def test_a_server_that_is_told_to_end_says_so_by_the_status_that_its_unit_takes_for_success(machine: Machine) -> None:
    set_up(machine)
    service = unit("fedspd-server")["Service"]
    machine.start("server", machine.folder / "adult", [str(SCRIPTS / "fedspd"), *shlex.split(service["ExecStart"])[1:]])
    assert wait_until(lambda: "listening on" in machine.printed("server"), 30)
    assert machine.told_to_end("server") == int(service["SuccessExitStatus"])
