"""A site that answers garbage: the real one, whose replies are spoiled before they are sent.

    python -m tests.support.deploy.evil SITE.TOML SPOILED.JSON

SPOILED.JSON says what it does in which round: a JSON object from round to fault.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from fedspd.deploy.flower import quiet
from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import Reply
from fedspd.deploy.site import serve
from fedspd.deploy.site.respond import Response

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


def spoiling(plan: Path) -> Callable[..., tuple[Message, Response]]:
    """Answers as the site would, and then spoils it."""
    memory, honest = plan.with_suffix(".first"), serve.answer_to

    def answer_to(message: Message, answer: Callable[[str, Any], Response]) -> tuple[Message, Response]:
        answered, response = honest(message, answer)
        reply = response.content
        if not isinstance(reply, Reply):
            return answered, response
        if not memory.exists():
            values = {"terms": reply.terms, "round": reply.round, "charges": reply.charges}
            memory.write_text(json.dumps(values | {"upload": reply.upload.tolist()}))
        fault = json.loads(plan.read_text()).get(str(reply.round), "")
        return wire.answer(message, spoiled(reply, fault, memory)), response

    return answer_to


if __name__ == "__main__":
    quiet()
    serve.answer_to = spoiling(Path(sys.argv[2]))
    serve.serve_site(Path(sys.argv[1]), print)
