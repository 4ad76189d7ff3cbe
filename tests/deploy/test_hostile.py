"""Attacks on a deployment with real processes over TLS: a stranger's code, open doors, forged names."""

import os
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
import tomli_w
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest, RegisterNodeFleetRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import sign_message
from flwr.supercore.task_identity import TaskIdentity

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.identity import Identity, read_identity
from fedspd.deploy.protocol.messages import VERSION, Hello
from fedspd.deploy.setup.keys import write_certificates, write_private_key
from tests.support.deploy.live import Live, change, fedspd, live
from tests.support.deploy.processes import free_port, wait_until

pytestmark = pytest.mark.deploy
PROGRAMS = Path(sys.executable).parent
PAYLOAD = """
import os, pathlib
pathlib.Path({loot!r}).write_text(pathlib.Path({records!r}).read_text()[:1000])
from flwr.agentapp import AgentApp
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
agent = AgentApp()
client = ClientApp()
server = ServerApp()
"""


def package(folder: Path, kind: str, loot: Path, records: Path) -> Path:
    """A Flower app that steals records as soon as it is imported, built by Flower's own command."""
    app = folder / "evil"
    app.mkdir(parents=True)
    (app / "payload.py").write_text(PAYLOAD.format(loot=str(loot), records=str(records)))
    agent = {"agentapp": "payload:agent"}
    usual = {"serverapp": "payload:server", "clientapp": "payload:client"}
    flower = {"app": {"publisher": "evil", "components": agent if kind == "flwr-agentapp" else usual, "config": {}}}
    project = {"name": "app", "version": "1.0.0", "description": "", "license": "Apache-2.0", "dependencies": []}
    (app / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": flower}}))
    (app / "LICENSE").write_text("none")
    subprocess.run([PROGRAMS / "flwr", "build", "--app", app], cwd=folder, check=True, capture_output=True, timeout=60)
    (found,) = folder.glob("*.fab")
    return found


def hostile(made: Live, kind: str, loot: Path) -> int:
    """Start a hostile server whose run is of this kind; its port."""
    folder, port = made.folder.parent / "hostile", free_port()
    write_certificates(folder / "keys")
    fab = package(folder, kind, loot, made.homes[0] / "records.csv")
    key = read_identity(made.homes[0] / "site.key").public
    (folder / "victim.pub").write_text(key.line)
    command = [sys.executable, "-m", "tests.support.deploy.hostile", str(folder), str(port), kind, str(fab)]
    made.start("hostile", [*command, str(folder / "victim.pub")])
    return port


@pytest.mark.parametrize("kind", ["flwr-agentapp", "flwr-serverapp"])
def test_code_that_a_server_sends_is_never_run_at_a_site(kind: str, tmp_path: Path) -> None:
    with live(tmp_path, 1) as made:
        loot, home, folder = tmp_path / "loot", made.homes[0], tmp_path / "hostile"
        port = hostile(made, kind, loot)
        server = {"server.address": f"127.0.0.1:{port}", "server.authority": str(folder / "keys" / "ca.pem")}
        change(home / "site.toml", server)
        made.site(0)
        answers = [folder / "answer-query", folder / "answer-train.play"]
        assert wait_until(lambda: all(answer.exists() for answer in answers), 90), made.log("hostile")
        time.sleep(3)
        assert not loot.exists()
        for answer in answers:
            assert "runs no code that a server sends" in answer.read_text()
        for log in (made.log("site-0site.toml"), (home / "site.log").read_text()):
            assert log.count("refused a message that is not of fedspd") == 2
        assert made.charges(0) == 0
        assert made.processes["site-0site.toml"].poll() is None, "and it goes on"


def test_the_same_server_reads_the_records_of_flowers_own_node(tmp_path: Path) -> None:
    """Else the test above would show nothing."""
    with live(tmp_path, 1) as made:
        loot, home, folder = tmp_path / "loot", made.homes[0], tmp_path / "hostile"
        port = hostile(made, "flwr-agentapp", loot)
        command = [str(PROGRAMS / "flower-supernode"), "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
        command += ["--port", str(free_port()), "--root-certificates", str(folder / "keys" / "ca.pem")]
        os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        path = f"PATH={PROGRAMS}:{os.environ['PATH']}"
        flower_home = f"FLWR_HOME={tmp_path / 'flower'}"
        key = ["--auth-supernode-private-key", str(home / "site.key")]
        made.start("supernode", ["env", path, flower_home, *command, *key])
        assert wait_until(loot.exists, 90), made.log("supernode")
        assert loot.read_text().startswith((home / "records.csv").read_text()[:100])


def signed(identity: Identity) -> dict[str, str]:
    """What Flower's node authentication wants in the headers."""
    timestamp = now().isoformat()
    signature = sign_message(identity.key, timestamp.encode())
    return {
        FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(identity.public.raw).decode(),
        TIMESTAMP_HEADER: timestamp,
        FLEET_HTTP_SIGNATURE_HEADER: b64encode(signature).decode(),
        "content-type": "application/protobuf",
        "accept": "application/protobuf",
    }


def call(made: Live, path: str, content: Any, headers: dict[str, str], scheme: str = "https") -> httpx.Response:
    port = made.file.read_text().split("port = ")[1].split()[0]
    verify = __import__("ssl").create_default_context(cafile=str(made.folder / "keys" / "ca.pem"))
    body = content if isinstance(content, bytes) else content.SerializeToString()
    address = f"{scheme}://127.0.0.1:{port}{path}"
    return httpx.post(address, content=body, headers=headers, verify=verify, timeout=20.0)


CLOSED = (
    "/v1/control/start-run", "/v1/control/stop-run", "/v1/control/list-runs", "/v1/control/register-node",
    "/v1/control/unregister-node", "/v1/runtime/pull-messages", "/v1/runtime/push-messages", "/v1/fleet/register-node",
    "/v1/fleet/unregister-node", "/v1/fleet/get-fab", "/v1/fleet/get-run", "/docs", "/openapi.json", "/health", "/",
    "/v1/fleet/../control/list-runs", "/v1/fleet/pull-messages/../get-fab", "//v1/fleet/get-fab",
)  # fmt: skip


def test_a_site_reaches_eight_calls_and_no_other_door_of_the_server(tmp_path: Path) -> None:
    with live(tmp_path, 2) as made:
        made.server()
        made.site(0)
        assert wait_until(lambda: "site-1 is there" in made.log(), 60), made.log()
        identity = read_identity(made.homes[1] / "site.key")
        headers = signed(identity)
        for path in CLOSED:
            answer = call(made, path, b"", headers)
            assert (path, answer.status_code) == (path, 404)
        request = RegisterNodeFleetRequest(public_key=identity.public.raw)
        assert call(made, "/v1/fleet/register-node", request, headers).status_code == 404
        with pytest.raises(httpx.HTTPError):
            call(made, "/v1/fleet/pull-messages", b"", headers, scheme="http")


def test_nobody_gets_messages_without_a_registered_key_or_in_the_name_of_another(tmp_path: Path) -> None:
    with live(tmp_path, 2) as made:
        made.server()
        made.site(0)
        assert wait_until(lambda: "site-1 is there" in made.log(), 60), made.log()
        write_private_key(tmp_path / "stranger")
        stranger, other = read_identity(tmp_path / "stranger"), read_identity(made.homes[1] / "site.key")
        nodes = [Node(node_id=number) for number in (0, 1, 2**63)]
        for identity in (stranger, other):
            for node in nodes:
                answer = call(made, "/v1/fleet/pull-messages", PullMessagesRequest(node=node), signed(identity))
                assert answer.status_code == 401
        assert call(made, "/v1/fleet/pull-messages", PullMessagesRequest(), {}).status_code in (400, 415)
        made.site(1)
        assert wait_until(lambda: "starts with 2 sites" in made.log(), 60), made.log()
        assert made.await_end(60) == 0


def test_a_site_cannot_answer_for_another(tmp_path: Path) -> None:
    """Flower checks who calls, not in whose name a reply speaks: the mail room does."""
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, ActivateNodeResponse

    with live(tmp_path, 2) as made:
        made.server()
        identity = read_identity(made.homes[1] / "site.key")
        assert wait_until(lambda: "waiting" in made.log(), 30)
        request = ActivateNodeRequest(public_key=identity.public.raw, heartbeat_interval=30)
        answer = call(made, "/v1/fleet/activate-node", request, signed(identity))
        own = ActivateNodeResponse.FromString(answer.content).node_id
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # Flower asks for them
        message = wire.request(7, "query.hello", Hello(VERSION, "nonce"), 60.0, "test")
        for sender, code in ((own + 1, 403), (1, 403)):
            forged = message_to_proto(message)
            forged.metadata.src_node_id = sender
            push = PushMessagesRequest(node=Node(node_id=own), messages_list=[forged])
            assert call(made, "/v1/fleet/push-messages", push, signed(identity)).status_code == code


def test_a_site_that_calls_itself_by_another_sites_name_is_left_out(tmp_path: Path) -> None:
    with live(tmp_path, 2) as made:
        home = made.homes[1]
        for file in home.glob("*.db*"):
            file.unlink()
        change(home / "site.toml", {"site.name": "site-1"})
        fedspd("deploy", "join", str(home / "site.toml"))
        change(made.file, {"federation.start_seconds": 8.0})
        made.server()
        made.sites()
        assert made.await_end(60) == 0, made.log()
        assert "site-2 is left out: it calls itself 'site-1', its key is that of 'site-2'" in made.log()
        assert [site["site"] for site in made.results()["sites"]] == ["site-1"]


def test_a_stolen_certificate_authority_file_is_of_no_use_without_a_key(tmp_path: Path) -> None:
    with live(tmp_path, 2) as made:
        stranger = made.homes[1]
        (stranger / "site.key").unlink()
        write_private_key(stranger / "site.key")
        made.server()
        made.site(1)
        assert wait_until(lambda: "does not let this site in" in made.log("site-1site.toml"), 30)
        assert "connected to" not in made.log("site-1site.toml")


def test_a_worker_that_takes_too_long_is_ended_and_the_site_goes_on(tmp_path: Path) -> None:
    with live(tmp_path, 1, budgets={0: 4.0}) as made:
        change(made.homes[0] / "site.toml", {"limits.seconds": 0.001})
        change(made.file, {"federation.start_seconds": 20.0, "federation.round_seconds": 10.0})
        made.server()
        made.site(0)
        assert wait_until(lambda: "it took longer than limits.seconds = 0.001" in made.log("site-0site.toml"), 60)
        assert made.processes["site-0site.toml"].poll() is None
        assert made.charges(0) == 0


def test_a_worker_without_enough_memory_fails_before_anything_is_charged(tmp_path: Path) -> None:
    with live(tmp_path, 1, budgets={0: 4.0}) as made:
        change(made.homes[0] / "site.toml", {"limits.memory_mb": 256})
        rows = (made.homes[0] / "records.csv").read_text().splitlines()
        (made.homes[0] / "records.csv").write_text("\n".join([rows[0], *rows[1:] * 8]))
        change(made.file, {"federation.start_seconds": 30.0})
        made.server()
        made.site(0)
        assert wait_until(lambda: "could not answer" in made.log("site-0site.toml"), 60), made.log("site-0site.toml")
        assert made.charges(0) == 0
