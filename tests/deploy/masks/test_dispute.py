"""Complaints are proved: an honest one convinces, and nothing blames a client that did as it should."""

import pytest
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.deploy.masks.dispute import GENERATOR, ORDER, is_true, prove, proved_key
from fedspd.deploy.masks.member import PublicKeys, new_secrets, public_keys
from fedspd.deploy.masks.shares import SHARE_BYTES, Share, seal, shared_key
from fedspd.deploy.protocol import messages, wire
from fedspd.errors import InputError

HOLDER, DEALER, OTHER = new_secrets(), new_secrets(), new_secrets()
HOLDERS, DEALERS, OTHERS = (public_keys(secrets) for secrets in (HOLDER, DEALER, OTHER))
SHARE = Share(bytes(SHARE_BYTES), bytes(SHARE_BYTES))
GOOD = seal(shared_key(DEALER, HOLDERS), 3, 7, SHARE)
PROOF = prove(HOLDER, DEALERS)


def judged(proof: bytes, sealed: bytes, holder: PublicKeys = HOLDERS, dealer: PublicKeys = DEALERS) -> bool:
    return is_true(proof, 7, 3, sealed, holder, dealer)


def test_a_proof_tells_the_key_of_the_two_and_each_of_them_can_make_one() -> None:
    assert proved_key(PROOF, HOLDERS, DEALERS) == shared_key(HOLDER, DEALERS) == shared_key(DEALER, HOLDERS)
    assert proved_key(prove(DEALER, HOLDERS), DEALERS, HOLDERS) == shared_key(HOLDER, DEALERS)
    assert prove(HOLDER, DEALERS) != PROOF, "a proof is never repeated"


BAD = {
    "garbage": b"garbage",
    "nothing": b"",
    "a share for somebody else": seal(shared_key(DEALER, HOLDERS), 3, 8, SHARE),
    "a share under another key": seal(shared_key(DEALER, OTHERS), 3, 7, SHARE),
    "a share that is too short": seal(shared_key(DEALER, HOLDERS), 3, 7, Share(b"", b"")),
    "a share that was not committed to": bytes(64) + GOOD[64:],
}


@pytest.mark.parametrize("what", BAD)
def test_a_complaint_about_a_share_that_is_none_is_true(what: str) -> None:
    assert judged(PROOF, BAD[what])


def test_a_complaint_about_a_right_share_is_not_true() -> None:
    assert not judged(PROOF, GOOD)


def test_a_proof_of_something_else_blames_nobody() -> None:
    for proof in (prove(HOLDER, OTHERS), prove(OTHER, DEALERS), prove(OTHER, HOLDERS), prove(DEALER, HOLDERS)):
        assert proved_key(proof, HOLDERS, DEALERS) is None
        assert not judged(proof, GOOD)
        assert not judged(proof, b"garbage")
    swapped = prove(HOLDER, OTHERS)[:33] + PROOF[33:]  # another point under the right proof
    assert not judged(swapped, GOOD)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(PROOF) * 8 - 1))
def test_a_proof_with_one_bit_changed_is_none(bit: int) -> None:
    changed = bytearray(PROOF)
    changed[bit // 8] ^= 1 << bit % 8
    assert proved_key(bytes(changed), HOLDERS, DEALERS) is None


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.binary(min_size=97, max_size=97), st.binary(max_size=200)), st.sampled_from([b"", b"\x02", PROOF[:33]])
)
def test_bytes_that_are_no_proof_are_none(proof: bytes, start: bytes) -> None:
    assert proved_key(start + proof[len(start) :], HOLDERS, DEALERS) is None


@pytest.mark.parametrize("numbers", [(0, 0), (0, 1), (ORDER, ORDER), (2**256 - 1, 2**256 - 1), (ORDER - 1, 1)])
def test_numbers_at_the_ends_are_no_proof(numbers: tuple[int, int]) -> None:
    challenge, answer = (number.to_bytes(32, "big") for number in numbers)
    assert proved_key(PROOF[:33] + challenge + answer, HOLDERS, DEALERS) is None
    assert proved_key(HOLDERS[:33] + challenge + answer, HOLDERS, DEALERS) is None


def test_a_complaint_is_an_answer_where_masks_are_asked_for_and_nowhere_else() -> None:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower does for a server app
    said = messages.Complaint("terms", 1, {3: PROOF, 5: b""})
    unmask = messages.Unmask("terms", 1, "attempt", {})
    answer = wire.answer(wire.request(7, "train.unmask", unmask, 60.0, "test"), said)
    for kind in ("train.mask", "train.measure_masked"):
        assert wire.read_answer(answer, kind) == said
    for kind in set(messages.REPLIES) - set(messages.OTHERWISE):
        with pytest.raises(InputError, match="expected a"):
            wire.read_answer(answer, kind)


def test_the_generator_is_that_of_the_curve() -> None:
    assert (GENERATOR * ORDER).is_point_at_infinity()
    one = public_keys(type(HOLDER)(b"\x00" * 31 + b"\x01" + bytes(31) + b"\x01" + bytes(32)))
    assert one[1:33] == int(GENERATOR.x).to_bytes(32, "big")
    assert one[0] == 2 + int(GENERATOR.y) % 2
