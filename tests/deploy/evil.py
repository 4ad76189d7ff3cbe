"""A site that answers garbage: the real client app, whose replies are spoiled before they are sent.

Its SuperNode finds a `flwr-clientapp` on its PATH that starts this file. What it does in which round is in the file
that SPOILED names: a JSON object from round to fault.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message

from fedspd.deploy import app, guard
from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import Reply

FAULTS = ("nan", "shape", "norm", "round", "replay")


def spoiled(reply: Reply, fault: str, memory: Path) -> Reply:
    """The reply with something wrong about it."""
    match fault:
        case "nan":
            return reply._replace(upload=np.full_like(reply.upload, np.nan))
        case "shape":
            return reply._replace(upload=reply.upload[:-1])
        case "norm":
            return reply._replace(upload=1e9 * (1 + np.abs(reply.upload)))
        case "round":
            return reply._replace(round=reply.round - 1)
        case "replay":
            old = json.loads(memory.read_text())
            return Reply(old["terms"], old["round"], np.array(old["upload"]), old["charges"])
        case _:
            return reply


def respond(message: Message, context: Context) -> Message:
    """Answer as the site would, and then spoil it."""
    answered = app.respond(message, context)
    if message.metadata.message_type != "train.play":
        return answered
    reply: Any = wire.read_answer(answered, "train.play")
    plan = Path(os.environ["SPOILED"])
    memory = plan.with_suffix(".first")
    if not memory.exists():
        values = {"terms": reply.terms, "round": reply.round, "charges": reply.charges}
        memory.write_text(json.dumps(values | {"upload": reply.upload.tolist()}))
    fault = json.loads(plan.read_text()).get(str(reply.round), "")
    return wire.answer(message, spoiled(reply, fault, memory))


if __name__ == "__main__":
    guard.client_app._registered_funcs["train.play"] = respond
    guard.main()
