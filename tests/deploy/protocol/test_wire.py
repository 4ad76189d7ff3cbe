"""What is sent arrives as it was; what is no message of ours is refused and never half read."""

from typing import Any, get_type_hints

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import REPLIES, REQUESTS, Ask, Present, Refused, Reply
from fedspd.deploy.protocol.text import plain
from fedspd.errors import InputError

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower does for a server app

whole = st.integers(-(2**63), 2**63 - 1)
shapes = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=20),
    int: whole,
    float: st.floats(),
    bool: st.booleans(),
    bytes: st.binary(max_size=20),
    np.ndarray: st.one_of(arrays.arrays(np.float64, shapes), arrays.arrays(np.uint64, shapes)),
    dict[int, bytes]: st.dictionaries(whole, st.binary(max_size=9), max_size=3),
    list[int]: st.lists(whole, max_size=3),
}


def contents(kinds: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Any message of these kinds, with its type."""
    each = [
        st.tuples(st.just(name), st.builds(kind, **{key: FIELDS[hint] for key, hint in get_type_hints(kind).items()}))
        for name, kind in kinds.items()
    ]
    return st.one_of(each)


def same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    for one, other in zip(left, right, strict=True):
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        else:
            np.testing.assert_equal(one, other)


def request(kind: str = "train.play") -> Message:
    return wire.request(7, kind, REQUESTS["query.hello"](2, "nonce"), 60.0, "test")


@given(contents(REQUESTS))
def test_a_request_arrives_as_it_was_sent(sent: tuple[str, Any]) -> None:
    kind, content = sent
    message = wire.request(7, kind, content, 60.0, "round 1")
    assert (message.metadata.dst_node_id, message.metadata.message_type) == (7, kind)
    assert (message.metadata.ttl, message.metadata.group_id) == (2 * 60.0, "round 1")
    same(wire.read_request(message), content)


@given(contents(REPLIES))
def test_an_answer_arrives_as_it_was_sent(sent: tuple[str, Any]) -> None:
    kind, content = sent
    same(wire.read_answer(wire.answer(request(kind), content), kind), content)


@given(st.sampled_from(sorted(REPLIES)), st.text(max_size=9), st.booleans())
def test_a_refusal_is_read_as_one_whatever_was_asked(kind: str, reason: str, final: bool) -> None:
    found = wire.read_answer(wire.answer(request(kind), Refused(reason, final)), kind)
    assert found == Refused(plain(reason), final)


REPLY = {
    "terms": "t", "round": 1, "upload": np.zeros((2, 3)).tobytes(), "upload.shape": [2, 3], "upload.kind": "<f8",
    "charges": 1,
}  # fmt: skip
UNREADABLE: dict[str, dict[str, Any]] = {
    "a number of float32": {"upload.kind": "<f4", "upload": np.zeros((2, 3), np.float32).tobytes()},
    "a pickle": {"upload.kind": "|O"},
    "another byte order": {"upload.kind": ">f8"},
    "too few bytes": {"upload": bytes(47)},
    "too many bytes": {"upload": bytes(49)},
    "a negative length": {"upload.shape": [-2, -3]},
    "lengths that overflow": {"upload.shape": [2**62, 2**62], "upload": b""},
    "too many dimensions": {"upload.shape": [1, 2, 3, 1]},
    "a length that is no whole number": {"upload.shape": [2.0, 3.0]},
    "text in place of bytes": {"upload": "x" * 48},
    "a kind that is a list": {"upload.kind": ["<f8"]},
    "text in place of a number": {"round": "1"},
    "a truth in place of a number": {"round": True},
    "a fraction in place of a number": {"charges": 1.0},
    "one field more": {"more": 1},
    "no shape": {"upload.shape": None},
    "no upload": {"upload": None},
    "nothing": dict.fromkeys(REPLY),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_an_answer_that_is_no_message_of_ours_is_refused(what: str) -> None:
    record = {name: value for name, value in (REPLY | UNREADABLE[what]).items() if value is not None}
    message = request()
    with pytest.raises(InputError, match="expected a"):
        wire.read_answer(Message(RecordDict({"fedspd": ConfigRecord(record)}), reply_to=message), "train.play")
    good = Message(RecordDict({"fedspd": ConfigRecord(REPLY)}), reply_to=message)  # pyright: ignore[reportArgumentType]
    same(wire.read_answer(good, "train.play"), Reply("t", 1, np.zeros((2, 3)), 1))


def test_another_content_is_refused() -> None:
    config, array = ConfigRecord(REPLY), ArrayRecord({"upload": Array(np.zeros(3))})  # pyright: ignore[reportArgumentType]
    contents: list[RecordDict] = [
        RecordDict(), RecordDict({"other": config}), RecordDict({"fedspd": config, "other": config}),
        RecordDict({"fedspd": array}),
    ]  # fmt: skip
    for content in contents:
        with pytest.raises(InputError, match=r"^expected one record of fedspd in a message"):
            wire.read_answer(Message(content, reply_to=request()), "train.play")


def test_flowers_errors_are_refused() -> None:
    with pytest.raises(InputError, match="got Flower's error 3: out of memory"):
        wire.read_answer(Message(Error(3, "out of memory"), reply_to=request()), "train.play")


def test_the_answer_to_another_question_is_no_answer_to_this_one() -> None:
    with pytest.raises(InputError, match="expected a field"):
        wire.read_answer(wire.answer(request("query.hello"), Present("site", 3, "digest", "0.1.0", b"")), "train.play")


def test_only_float64_and_uint64_travel() -> None:
    for kind in (np.float32, np.int64, np.object_):
        content = Ask("t", 1, 0, np.zeros(2, kind), np.zeros(1), np.ones(1), 1.0)
        with pytest.raises(TypeError, match="do not travel"):
            wire.request(7, "train.play", content, 1.0, "test")


def test_what_was_read_may_be_changed_and_has_the_byte_order_of_the_machine() -> None:
    ask = Ask("t", 1, 0, np.ones(2, ">f8"), np.zeros(1), np.ones(1), 1.0)
    message = wire.request(7, "train.play", ask, 1.0, "test")
    weights = wire.read_request(message).weights
    weights += 1
    assert weights.dtype.isnative
    np.testing.assert_array_equal(weights, [2.0, 2.0])
