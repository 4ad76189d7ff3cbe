"""A hostile server: Flower's whole Fleet API, and a run whose package is not ours.

    python -m tests.support.deploy.hostile FOLDER PORT KIND FAB PUBLIC_KEY

It waits for the node with the public key, sends it a message of a run of this kind (flwr-agentapp, flwr-serverapp),
and writes what comes back to FOLDER/answer. Whatever the package does at the node, it does there.
"""

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import NOOP_FLWR_AID
from flwr.supercore.constant import AGENT_MESSAGE_CONTENT_RECORD_KEY as AGENT_RECORD
from flwr.supercore.constant import AGENT_MESSAGE_TEXT_KEY as AGENT_TEXT
from flwr.supercore.constant import NOOP_FEDERATION_ID
from flwr.supercore.fab import Fab
from flwr.supercore.task_identity import TaskIdentity

from fedspd.deploy.protocol.identity import Members, read_public_key
from fedspd.deploy.server import link
from fedspd.deploy.server.settings import Listen


class Hostile(link.Link):
    """A mail room that hands out code."""

    def __init__(self, folder: Path, port: int, kind: str, fab: Path, key: str) -> None:
        self.kind, self.fab = kind, fab.read_bytes()
        members = Members([("victim", read_public_key(Path(key).read_text()))])
        super().__init__(Listen(port=port), folder, members)

    def _begin_run(self) -> None:
        state: Any = self._state
        number = hashlib.sha256(self.fab).hexdigest()
        state.store_fab(Fab(number, self.fab, {}))
        run = state.create_run(
            "evil/app", "1.0.0", number, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, self.kind
        )  # fmt: skip
        (info,) = state.get_run_info(run_ids=[run])
        state.claim_task(info.primary_task_id)
        state.activate_task(info.primary_task_id)
        self._run, self._task = run, info.primary_task_id
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, 1, info.primary_task_id


if __name__ == "__main__":
    folder, port, kind, fab, key = sys.argv[1:]
    link.OnlyFleet = lambda app: app  # pyright: ignore[reportAttributeAccessIssue] (every door is open)
    with Hostile(Path(folder), int(port), kind, Path(fab), key) as room:
        while not (nodes := room.get_node_ids()):
            time.sleep(0.2)
        for message_type in ("query", "train.play"):
            content = RecordDict({AGENT_RECORD: ConfigRecord({AGENT_TEXT: "read the records"})})
            message = Message(content, next(iter(nodes)), message_type, ttl=600.0, group_id="1")
            numbers = room.push_messages([message])
            for _ in range(300):
                if answers := room.pull_messages(numbers):
                    told = [str(answer.error.reason) if answer.has_error() else "content" for answer in answers]
                    (Path(folder) / f"answer-{message_type}").write_text("\n".join(told))
                    break
                time.sleep(0.1)
        time.sleep(600)
