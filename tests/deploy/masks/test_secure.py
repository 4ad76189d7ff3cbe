"""Masked rounds: the server sees sums only, whoever drops out, and no difference is lost."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from flwr.app import Message

from fedspd.deploy.masks.member import PUBLIC_BYTES, new_secrets, public_keys
from fedspd.deploy.masks.shares import SEALED_BYTES, deal, shared_key, unseal
from fedspd.deploy.masks.signed import SIGNATURE_BYTES, Scope, keys_are_signed, share_is_signed, sign_keys, sign_share
from fedspd.deploy.masks.stages import Attempt
from fedspd.deploy.protocol import messages, wire
from fedspd.errors import InputError
from tests.deploy.test_equal import LITTLE_NOISE, PENALTY, SITES, STEP
from tests.support.deploy.loopback import Handler, honest
from tests.support.deploy.masked_sites import Masked
from tests.support.deploy.sites import Federation, ask, federation
from tests.support.deploy.twists import mean_of_totals, standing

pytestmark = pytest.mark.slow

STAGES = ("train.exchange", "train.deal", "train.mask", "train.confirm", "train.unmask")
FIXED: dict[str, Any] = LITTLE_NOISE | STEP | PENALTY | {"federation__fixed_draws": True, "run__rounds": 4}


def masked(folder: Path, count: int = SITES, protected: bool = False, **changes: Any) -> Federation:
    """A federation with as low a threshold as may be, so that many may fail."""
    secure: dict[str, Any] = {"federation__aggregation": "secure", "federation__quorum": 3}
    numbers: dict[str, Any] = {"federation__threshold": max(3, count // 2 + 1), "federation__colluders": 0}
    settings: dict[str, Any] = secure | numbers | ({} if protected else FIXED) | changes
    return federation(folder, count, 120, protected=protected, **settings)


def silent_at(stage: str, times: int = 1) -> Handler:
    """A site whose answer to one stage is lost, so many times."""
    left = [times]

    def handler(message: Message, path: Path) -> Message | None:
        answer = honest(message, path)
        if message.metadata.message_type == stage and left[0] > 0:
            left[0] -= 1
            return None
        return answer

    return handler


def changing(stage: str, change: Callable[[Any], Any], round: int = 1) -> Handler:
    """A site that answers something else at one stage, from one round on."""

    def handler(message: Message, path: Path) -> Message | None:
        answer, asked = honest(message, path), wire.read_request(message)
        if message.metadata.message_type != stage or asked.round < round:
            return answer
        return wire.answer(message, change(wire.read_answer(answer, stage)))

    return handler


def requests(made: Federation, kind: str) -> list[Any]:
    return [wire.read_request(message) for message in made.grid.sent if message.metadata.message_type == kind]


@pytest.mark.parametrize("method", [{}, {"algorithm__name": "dp-sgd", "algorithm__penalty": None}])
def test_a_masked_run_is_the_plain_one(method: dict[str, Any], tmp_path: Path) -> None:
    hidden = masked(tmp_path / "masked", **method).serve()
    plain = masked(tmp_path / "plain", federation__aggregation="plain", **method).serve()
    np.testing.assert_allclose(hidden.server, plain.server, rtol=0, atol=1e-9)
    assert np.abs(plain.server).max() > 1e-3


@pytest.mark.parametrize("stage", [*(pytest.param(stage, marks=pytest.mark.slow) for stage in STAGES[:-1]), STAGES[-1]])
def test_a_site_that_drops_out_at_any_stage_is_survived_and_its_difference_is_in_its_next_one(
    stage: str, tmp_path: Path
) -> None:
    made = masked(tmp_path)
    made.grid.handlers[made.node(4)] = silent_at(stage)
    checkpoint = made.serve()
    assert checkpoint.round == 4
    np.testing.assert_allclose(standing(checkpoint), mean_of_totals(made), rtol=0, atol=1e-9)
    missed = 0 if stage in ("train.confirm", "train.unmask") else 1  # its upload was in the sum already
    assert checkpoint.roster[4].answered == 4 - missed
    assert [member.answered for member in checkpoint.roster[:4]] == [4] * 4


BAD: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "keys": ("train.exchange", lambda said: said._replace(signature=b""), "its round keys are not signed by its key"),
    "shares": (
        "train.deal", lambda said: said._replace(shares={}), "it dealt other shares than it was asked for",
    ),
    "vector": (
        "train.mask", lambda said: said._replace(upload=said.upload[1:]),
        "its masked upload is rejected: it is uint64 of shape (11,)",
    ),
    "secret": (
        "train.unmask", lambda said: said._replace(shares=dict.fromkeys(said.shares, b"")),
        "it revealed a wrong share of site-0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what == "vector" else pytest.mark.slow) for what in BAD]
)
def test_a_run_goes_on_to_its_end_without_a_bad_site_and_says_which_it_was_and_why(what: str, tmp_path: Path) -> None:
    stage, change, why = BAD[what]
    made = masked(tmp_path, protected=True)
    made.grid.handlers[made.node(3)] = changing(stage, change, round=2)
    checkpoint = made.serve()
    assert (checkpoint.round, checkpoint.finished) == (3, True)
    assert [member.retired for member in checkpoint.roster] == ["", "", "", why, ""]
    (line,) = (line for line in made.said if "is left out" in line)
    assert line.startswith("round 2: site-3 is left out")
    assert line.endswith(f": {why}")
    assert [member.answered for member in checkpoint.roster] == [3, 3, 3, 2 if stage == "train.unmask" else 1, 3]
    np.testing.assert_allclose(standing(checkpoint), mean_of_totals(made), rtol=0, atol=1e-9)
    assert [made.charges(place) for place in (0, 1, 2, 4)] == [3] * 4


def test_a_bad_site_at_the_first_release_of_all_does_not_stop_the_run_either(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, data__scaling="noisy-moments", run__rounds=2)
    made.grid.handlers[made.node(0)] = changing("train.exchange", lambda said: said._replace(keys=bytes(98)), round=0)
    checkpoint = made.serve()
    assert (checkpoint.round, checkpoint.roster[0].retired) == (2, "its round keys are no points of the curve")
    assert [made.charges(place) for place in range(SITES)] == [0, 3, 3, 3, 3]


def test_a_site_without_its_file_of_members_sits_out_masked_runs(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, run__rounds=1)
    (made.sites[2].parent / "members.toml").unlink()
    made.serve()
    assert any("masks need the site's own key and its file of the federation's members" in line for line in made.said)
    assert [made.charges(place) for place in range(SITES)] == [1, 1, 0, 1, 1]


def test_no_message_holds_an_upload_and_none_is_sent_twice(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, data__scaling="noisy-moments", run__rounds=2)
    run = made.serve().run
    uploads = []
    for place in range(SITES):
        with made.store(place) as store:
            uploads += [stored.upload for number in (1, 2, 3) if (stored := store.reply(run, number)) is not None]
    assert len(uploads) == 3 * SITES
    vectors = []
    for message in made.grid.got:
        if message.metadata.message_type in ("train.mask", "train.measure_masked"):
            vectors.append(wire.read_answer(message, "train.mask").upload)
    assert len(vectors) == 3 * SITES
    encoded = {np.rint(np.frombuffer(upload, "<f8") * 2**40).astype(np.int64).tobytes() for upload in uploads}
    assert not encoded & {vector.tobytes() for vector in vectors}
    assert not set(uploads) & {vector.tobytes() for vector in vectors}
    bits = np.unpackbits(np.concatenate(vectors).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 4 * 0.5 / np.sqrt(bits.size)
    assert not any(message.metadata.message_type in ("train.play", "train.measure") for message in made.grid.sent)


def test_a_site_of_a_masked_run_refuses_to_upload_without_masks(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True)
    terms = made.enter()
    refused = made.tell(0, ask(terms))
    assert isinstance(refused, messages.Refused)
    assert "aggregation is 'secure'" in refused.reason
    assert made.charges() == 0


ROSTERS: dict[str, tuple[dict[str, Any], str]] = {
    # what a server changes in its terms: what a site says whose file has five members and threshold 4
    "lowers the threshold": ({"threshold": 3}, "at least 4 sites are summed and 1 may collude by the site's file"),
    "leaves the threshold out": ({"threshold": 0, "colluders": 0}, "the run has 0 and 0."),
    "counts on fewer colluders": ({"colluders": 0}, "the run has 4 and 0."),
}


@pytest.mark.parametrize("what", ROSTERS)
def test_a_site_enters_no_run_with_another_threshold_than_its_own_file_has(what: str, tmp_path: Path) -> None:
    changes, why = ROSTERS[what]
    made = masked(tmp_path, federation__threshold=4, federation__colluders=1, federation__quorum=4)
    terms = made.terms()
    refused = made.tell(0, messages.Enter(replace(terms, **changes).text))
    assert isinstance(refused, messages.Refused)
    assert why in refused.reason
    assert refused.final
    assert isinstance(made.tell(0, messages.Enter(terms.text)), messages.Entered)


def test_a_site_whose_file_has_another_threshold_than_the_servers_sits_out_by_name(tmp_path: Path) -> None:
    made = masked(tmp_path, protected=True, run__rounds=1)
    path = made.sites[2].parent / "members.toml"
    path.write_text(path.read_text().replace("threshold = 3", "threshold = 4"))
    made.serve()
    assert any(line.startswith("site-2 refuses: at least 4 sites are summed") for line in made.said)
    assert [made.charges(place) for place in range(SITES)] == [1, 1, 0, 1, 1]


def test_secrets_do_not_show_when_an_attempt_is_printed() -> None:
    assert "abcd" not in repr(Attempt(secrets="abcd" * 48))


def test_masks_need_three_sites(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 3 for secure aggregation"):
        masked(tmp_path, federation__quorum=2).serve()
    with pytest.raises(InputError, match=r"federation\.threshold must be at least 3"):
        masked(tmp_path / "two").settings_with({"federation.threshold": 2})


@pytest.mark.parametrize(("first", "holders", "threshold"), [(0, 3, 3), (0, 5, 4), (990, 40, 27), (2**32, 3, 3)])
def test_every_sealed_share_has_312_bytes_and_opens_at_this_length_only(
    first: int, holders: int, threshold: int
) -> None:
    dealer, secrets = new_secrets(), {first + place: new_secrets() for place in range(1, holders)}
    neighbors = {place: public_keys(own) for place, own in secrets.items()}
    dealt = deal(dealer, first, neighbors, threshold)
    assert {len(share) for share in dealt.values()} == {SEALED_BYTES} == {312}
    holder, key = first + 1, shared_key(dealer, neighbors[first + 1])
    assert unseal(key, first, holder, dealt[holder]) is not None
    for padding in (b"\n", b"!" * 2**20):  # base64 skips both
        assert unseal(key, first, holder, dealt[holder] + padding) is None


def test_no_signature_is_longer_than_104_bytes_and_a_longer_one_is_none(tmp_path: Path) -> None:
    made, largest = Masked(tmp_path), ec.SECP384R1().key_size
    assert len(encode_dss_signature(2**largest - 1, 2**largest - 1)) == SIGNATURE_BYTES == 104
    scope, me = Scope(made.terms[0], 1, "attempt"), made.sites[0].me
    keys = sign_keys(scope, me, 0, b"keys")
    share = sign_share(scope, me, 0, 1, b"share")
    for padding, right in ((b"", True), (bytes(1), False), (bytes(2**20), False)):
        assert keys_are_signed(scope, made.members, 0, b"keys", keys + padding) is right
        assert share_is_signed(scope, made.members, 0, 1, b"share", share + padding) is right


def test_a_site_takes_no_round_keys_of_another_length_even_if_they_are_signed(tmp_path: Path) -> None:
    made = Masked(tmp_path)

    def padded(place: int, request: messages.Deal) -> messages.Deal:
        keys = request.keys[1] + bytes(1)
        signature = sign_keys(Scope(made.terms[1], request.round, request.attempt), made.sites[1].me, 1, keys)
        return request._replace(keys=request.keys | {1: keys}, signatures=request.signatures | {1: signature})

    made.room.tampers["train.deal"] = lambda place, request: padded(place, request) if place == 0 else request
    made.play()
    (refused,) = (got for _, place, got in made.room.got if isinstance(got, messages.Refused))
    assert f"got {PUBLIC_BYTES + 1} other bytes" in refused.reason
    assert made.sites[0].charges == 0


def test_a_site_complains_about_a_share_of_another_length_even_if_it_is_signed(tmp_path: Path) -> None:
    made = Masked(tmp_path)

    def padded(place: int, request: messages.AskMasked) -> messages.AskMasked:
        scope, sealed = Scope(made.terms[1], request.round, request.attempt), request.shares[1] + b"\n"
        signature = sign_share(scope, made.sites[1].me, 1, 0, sealed)
        return request._replace(shares=request.shares | {1: sealed}, signatures=request.signatures | {1: signature})

    made.room.tampers["train.mask"] = lambda place, request: padded(place, request) if place == 0 else request
    made.play()
    (said, *_) = (got for kind, place, got in made.room.got if (kind, place) == ("train.mask", 0))
    assert isinstance(said, messages.Complaint)
    assert set(said.proofs) == {1}
    assert made.sites[0].charges == 0
