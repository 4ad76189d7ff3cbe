"""The wire format: named tuples into Flower's records and back. No other file knows it.

A message is one `ConfigRecord`. Arrays travel as raw little-endian bytes with their shape beside them:
no pickle is ever read, and a message is one object for Flower to move.
"""

from math import prod
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from fedspd.deploy.protocol.messages import OTHERWISE, REPLIES, REQUESTS, Refused, Waiting
from fedspd.deploy.protocol.text import plain
from fedspd.errors import InputError

RECORD = "fedspd"
KINDS = {"<f8": np.dtype("<f8"), "<u8": np.dtype("<u8")}


def request(node: int, kind: str, content: NamedTuple, seconds: float, group: str) -> Message:
    """A message to a node; its answer is waited for so many seconds, and known as a late one as long again."""
    return Message(_packed(content), node, kind, ttl=2 * seconds, group_id=group)


def answer(message: Message, content: NamedTuple) -> Message:
    """A reply."""
    return Message(_packed(content), reply_to=message)


def read_request(message: Message) -> Any:
    """What a server asked; refuses anything that is no request of ours."""
    return _unpacked(message.content, REQUESTS[message.metadata.message_type])


def read_answer(message: Message, kind: str) -> Any:
    """What a site answered to a request of this kind: the reply that belongs to it, a complaint, or `Refused`."""
    if message.has_error():
        raise InputError(
            f"expected a reply, got Flower's error {message.error.code}: {plain(str(message.error.reason))}."
        )
    names = {name.partition(".")[0] for name in _record(message.content)}
    others = [other for other in (Refused, OTHERWISE.get(kind)) if other and names == set(other._fields)]
    answer = _unpacked(message.content, others[0] if others else REPLIES[kind])
    match answer:
        case Refused(reason, final):
            return Refused(plain(reason), final)
        case Waiting(reason):
            return Waiting(plain(reason))
    return answer


def _record(content: RecordDict) -> Any:
    if list(content) != [RECORD] or not isinstance(content[RECORD], ConfigRecord):
        raise InputError("expected one record of fedspd in a message, got another content; update both sides.")
    return content[RECORD]


def _packed(content: NamedTuple) -> RecordDict:
    record = ConfigRecord()
    for name, value in content._asdict().items():
        if isinstance(value, np.ndarray):
            kind = value.dtype.newbyteorder("<").str
            if kind not in KINDS:
                raise TypeError(f"arrays of {value.dtype} do not travel")
            record[name] = value.astype(kind).tobytes()
            record[f"{name}.shape"] = [int(length) for length in value.shape]
            record[f"{name}.kind"] = kind
        elif isinstance(value, dict):
            record[f"{name}.places"] = [int(place) for place in value]
            record[name] = [bytes(share) for share in value.values()]
        elif isinstance(value, np.generic):
            record[name] = value.item()
        else:
            record[name] = value
    return RecordDict({RECORD: record})


def _unpacked(content: RecordDict, kind: Any) -> Any:
    record = dict(_record(content))
    values = {name: _value(record, name, wanted) for name, wanted in get_type_hints(kind).items()}
    if record:
        raise InputError(f"expected a {kind.__name__}, got more than it has; update both sides.")
    return kind(**values)


def _value(record: dict[str, Any], name: str, wanted: Any) -> Any:
    """Take one field out of a record, with the type it must have."""
    try:
        value = record.pop(name)
        if wanted is np.ndarray:
            return _array(value, record.pop(f"{name}.shape"), record.pop(f"{name}.kind"))
        if wanted == dict[int, bytes]:
            places = record.pop(f"{name}.places")
            return _of(dict(zip(_all(places, int), _all(value, bytes), strict=True)), dict)
        if wanted == list[int]:
            return _all(value, int)
        return _of(value, wanted)
    except (KeyError, ValueError, TypeError):
        raise InputError(f"expected a field {name} of type {wanted}, got another one; update both sides.") from None


def _array(content: Any, shape: Any, kind: Any) -> np.ndarray:
    lengths = _all(shape, int)
    if len(lengths) > 3 or any(length < 0 for length in lengths) or prod(lengths) * 8 != len(_of(content, bytes)):
        raise ValueError
    return np.frombuffer(content, KINDS[kind]).reshape(lengths).astype(KINDS[kind].newbyteorder("="))


def _of(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _all(values: Any, kind: type) -> list[Any]:
    return [_of(value, kind) for value in _of(values, list)]
