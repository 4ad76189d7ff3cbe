"""One bad site does not stop a masked run: it is named, the others' sum is right, and nobody else is blamed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common.secure_aggregation.crypto.shamir import create_shares

from fedspd.deploy.masks.dispute import prove
from fedspd.deploy.masks.member import PublicKeys, new_secrets, public_keys
from fedspd.deploy.masks.shares import SEALED_BYTES, Share, seal, shared_key
from fedspd.deploy.masks.signed import sign_keys, sign_share, sign_survivors
from fedspd.deploy.protocol import messages
from tests.support.deploy.masked_sites import Masked, Site, Twist, dealt, published, scope_of, secrets_of, signed_for

SOUTH = 1


def by_another_name(site: Site, request: Any, answer: messages.Published) -> Any:
    return answer._replace(signature=sign_keys(scope_of(site, request), site.me, 0, answer.keys))


def another_secret(*holders: int) -> Twist:
    """Deals these holders well-formed shares of a secret that it never published."""

    def twist(site: Site, request: Any, answer: messages.Dealt) -> Any:
        secrets, _ = secrets_of(site, request)
        scope, me, parts = scope_of(site, request), site.terms.place, create_shares(b"x" * 32, site.terms.threshold, 5)
        shares = {
            holder: seal(
                shared_key(secrets, PublicKeys(request.keys[holder])), me, holder, Share(parts[holder], parts[holder])
            )
            for holder in holders
        }
        signed = {holder: sign_share(scope, site.me, me, holder, sealed) for holder, sealed in shares.items()}
        return answer._replace(shares=answer.shares | shares, signatures=answer.signatures | signed)

    return twist


def complains(site: Site, request: Any, answer: Any) -> Any:
    """About everybody, each time with the best proof there is."""
    secrets, attempt = secrets_of(site, request)
    proofs = {place: prove(secrets, attempt.public([place])[place]) for place in request.shares}
    return messages.Complaint(request.terms, request.round, proofs)


def complaint(proofs: dict[int, bytes]) -> Twist:
    return lambda site, request, answer: messages.Complaint(request.terms, request.round, proofs)


def flipped(site: Site, request: Any, answer: messages.Unmasked) -> Any:
    return answer._replace(
        shares={place: bytes([share[0], share[1] ^ 1]) + share[2:] for place, share in answer.shares.items()}
    )


OFF_CURVE, UNSIGNED = "its round keys are no points of the curve", "its round keys are not signed by its key"
OTHERS, SIZE = "it dealt other shares than it was asked for", "a share it dealt does not have 312 bytes"
EVERYBODY, THE_OTHERS = {0, 1, 2, 3, 4}, {0, 2, 3, 4}
BAD: dict[str, tuple[str, Twist, str, set[int]]] = {
    # what it does: (at which stage, how, what is said of it, whose uploads are in the sum)
    "publishes no points": ("train.exchange", published(b"\x05" * 98), OFF_CURVE, THE_OTHERS),
    "publishes too few bytes": ("train.exchange", published(b""), OFF_CURVE, THE_OTHERS),
    "publishes too many bytes": (
        "train.exchange", published(public_keys(new_secrets()) + bytes(2**20)), OFF_CURVE, THE_OTHERS,
    ),
    "publishes one bad point": (
        "train.exchange", published(public_keys(new_secrets())[:33] + b"\x02" + b"\xff" * 32 + bytes(32)), OFF_CURVE,
        THE_OTHERS,
    ),
    "does not sign its keys": (
        "train.exchange", lambda site, request, answer: answer._replace(signature=b""),
        UNSIGNED, THE_OTHERS,
    ),
    "pads its signature": (
        "train.exchange", lambda site, request, answer: answer._replace(signature=answer.signature + bytes(2**20)),
        UNSIGNED, THE_OTHERS,
    ),
    "signs for another round": (
        "train.exchange", signed_for(round=2), UNSIGNED, THE_OTHERS,
    ),
    "signs for another attempt": (
        "train.exchange", signed_for(attempt="other"), UNSIGNED, THE_OTHERS,
    ),
    "signs in another's name": ("train.exchange", by_another_name, UNSIGNED, THE_OTHERS),
    "deals to too few": (
        "train.deal",
        lambda site, request, answer: answer._replace(shares={0: answer.shares[0]}),
        OTHERS, THE_OTHERS,
    ),
    "signs for a stranger": (
        "train.deal",
        lambda site, request, answer: answer._replace(signatures=answer.signatures | {9: bytes(2**20)}),
        OTHERS, THE_OTHERS,
    ),
    "deals a share with padding that opens": (
        "train.deal", dealt(0, spoil=lambda share: share + b"\n" * 2**20), SIZE, THE_OTHERS,
    ),
    "deals a share with one byte more": ("train.deal", dealt(4, spoil=lambda share: share + b"\n"), SIZE, THE_OTHERS),
    "deals a share with one byte less": ("train.deal", dealt(0, 2, spoil=lambda share: share[:-1]), SIZE, THE_OTHERS),
    "pads the signature of a share": (
        "train.deal",
        lambda site, request, answer: answer._replace(
            signatures={holder: signature + bytes(2**20) for holder, signature in answer.signatures.items()}
        ),
        "the shares it dealt are not signed by its key", THE_OTHERS,
    ),
    "does not sign its shares": (
        "train.deal", lambda site, request, answer: answer._replace(signatures={}),
        "the shares it dealt are not signed by its key", THE_OTHERS,
    ),
    "deals garbage": ("train.deal", dealt(0, 2, 3, 4), "the share it dealt to north is none", THE_OTHERS),
    "deals garbage to one": ("train.deal", dealt(3), "the share it dealt to west is none", {0, 2, 4}),
    "deals another secret": (
        "train.deal", another_secret(0, 2, 3, 4), "the shares it dealt do not give what it published", THE_OTHERS,
    ),
    "deals another secret to one": (
        "train.deal", another_secret(0), "the shares it dealt do not give what it published", THE_OTHERS,
    ),
    "complains about everybody": ("train.mask", complains, "it complained about .* without reason", THE_OTHERS),
    "complains without a proof": (
        "train.mask", complaint({0: b"", 2: bytes(97)}), "it complained about north without reason", THE_OTHERS,
    ),
    "complains about strangers": (
        "train.mask", complaint({9: b"", 1: b""}), "it complained about somebody else without reason", THE_OTHERS,
    ),
    "complains about nobody": ("train.mask", complaint({}), "it complained about nobody", THE_OTHERS),
    "sends another vector": (
        "train.mask", lambda site, request, answer: answer._replace(upload=answer.upload[:-1]),
        r"its masked upload is rejected: it is uint64 of shape \(5,\)", THE_OTHERS,
    ),
    "does not sign who is summed": (
        "train.confirm", lambda site, request, answer: answer._replace(signature=b""),
        "who is to be summed is not signed by its key", EVERYBODY,
    ),
    "signs another set": (
        "train.confirm",
        lambda site, request, answer: answer._replace(
            signature=sign_survivors(scope_of(site, request), site.me, SOUTH, request.survivors[1:])
        ),
        "who is to be summed is not signed by its key", EVERYBODY,
    ),
    "reveals wrong shares": ("train.unmask", flipped, "it revealed a wrong share of .*", EVERYBODY),
    "reveals too little": (
        "train.unmask", lambda site, request, answer: answer._replace(shares={}),
        "it revealed other shares than it was asked for", EVERYBODY,
    ),
}  # fmt: skip
BEGUN_AGAIN = {"deals another secret", "deals another secret to one"}
"""What is seen only when the sum does not open: the others have uploaded, and do so again for another charge."""


@pytest.mark.parametrize("what", BAD)
def test_a_site_that_does_not_do_as_it_should_is_named_and_the_sum_of_the_others_is_right(
    what: str, tmp_path: Path
) -> None:
    stage, twist, reason, places = BAD[what]
    made = Masked(tmp_path)
    made.sites[SOUTH].twists[stage] = twist
    found = made.play()
    assert set(found.numbers) == places
    np.testing.assert_allclose(found.stack.sum(axis=0), made.true_sum(places), rtol=0, atol=1e-9)
    assert list(made.retired) == [SOUTH]
    until = "after this round" if SOUTH in places else "of the sum"
    (line,) = (line for line in made.said if "left out" in line)
    assert line == f"round 1: south is left out {until}: {made.retired[SOUTH]}"
    assert re.fullmatch(reason, made.retired[SOUTH])
    passed_on = [share for _, request in made.asked("train.mask") for share in request.shares.values()]
    assert {len(share) for share in passed_on} == {SEALED_BYTES}, "or a site might get more than it takes"
    charges = {place: made.sites[place].charges for place in THE_OTHERS}
    assert charges == {place: (1 + (what in BEGUN_AGAIN)) * (place in places) for place in THE_OTHERS}
    again = made.play(2)
    np.testing.assert_allclose(again.stack.sum(axis=0), made.true_sum(THE_OTHERS), rtol=0, atol=1e-9)
    assert all(place != SOUTH for place, request in made.asked("train.exchange") if request.round == 2)
    assert list(made.retired) == [SOUTH]


def test_a_complaint_with_more_than_its_proof_is_held_against_its_sender(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[2].twists["train.deal"] = dealt(SOUTH)
    made.sites[SOUTH].twists["train.mask"] = lambda site, request, answer: answer._replace(
        proofs={dealer: proof + bytes(2**20) for dealer, proof in answer.proofs.items()}
    )
    made.play()
    assert made.retired == {SOUTH: "it complained about east without reason"}


def test_moments_are_summed_without_a_bad_site_too(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[SOUTH].twists["train.deal"] = dealt(0, 2, 3, 4)
    found = made.measure()
    np.testing.assert_allclose(found.stack.sum(axis=0), made.true_sum({0, 2, 3, 4}).ravel(), rtol=0, atol=1e-8)
    assert made.retired == {SOUTH: "the share it dealt to north is none"}
    assert made.attempts == 2
    made.measure()
    assert len([place for place, _ in made.asked("train.exchange") if place == SOUTH]) == 1


def test_two_bad_sites_of_five_are_both_left_out_and_three_of_five_leave_no_sum(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[SOUTH].twists["train.deal"] = dealt(0)
    made.sites[2].twists["train.mask"] = complains
    found = made.play()
    assert set(made.retired) == {1, 2}
    np.testing.assert_allclose(found.stack.sum(axis=0), made.true_sum({0, 3, 4}), rtol=0, atol=1e-9)
    made.sites[3].twists["train.exchange"] = published(b"")
    assert not made.play(2).numbers
    assert set(made.retired) == {1, 2, 3}
    assert made.said[-1] == "round 2: no sum: 2 sites may take part, 3 are needed"


def test_a_majority_of_liars_leaves_no_sum_and_cannot_put_the_blame_on_a_site_that_did_as_it_should(
    tmp_path: Path,
) -> None:
    made = Masked(tmp_path, 7)
    for place in (1, 2, 3, 4):
        made.sites[place].twists["train.mask"] = lambda site, request, answer: complains(
            site, request, answer
        )._replace(proofs={0: complains(site, request, answer).proofs[0]})
    found = made.play()
    assert set(made.retired) == {1, 2, 3, 4}
    assert set(made.retired.values()) == {"it complained about north without reason"}
    assert not found.numbers
    assert made.said[-1] == "round 1: no sum: 3 sites may take part, 4 are needed"


def test_a_dealer_cannot_have_its_holders_retired_one_after_the_other(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    victims = iter((0, 2, 3, 4))
    made.sites[SOUTH].twists["train.deal"] = lambda *given: dealt(next(victims))(*given)
    for round, places in ((1, {2, 3, 4}), (2, THE_OTHERS), (3, THE_OTHERS)):
        assert set(made.play(round).numbers) == places
    assert list(made.retired) == [SOUTH]


@pytest.mark.parametrize("stage", ["train.exchange", "train.deal", "train.mask", "train.confirm", "train.unmask"])
def test_silence_is_never_held_against_a_site(stage: str, tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[SOUTH].twists[stage] = lambda site, request, answer: None
    for round in (1, 2):
        found = made.play(round)
        places = EVERYBODY if stage in ("train.confirm", "train.unmask") else THE_OTHERS
        np.testing.assert_allclose(found.stack.sum(axis=0), made.true_sum(places), rtol=0, atol=1e-9)
    assert not made.retired
    assert made.attempts == 2, "one in each round"


def test_fewer_than_the_quorum_are_never_unmasked(tmp_path: Path) -> None:
    made = Masked(tmp_path, quorum=5)
    made.sites[SOUTH].twists["train.mask"] = lambda site, request, answer: None
    assert not made.play().numbers
    assert not made.asked("train.unmask")
    assert not made.retired
    assert made.said[-1] == "round 1: no sum: 4 sites sent masked uploads, 5 are needed"
    assert made.attempts == 1, "nobody was found out, so there is no other attempt"


def test_a_site_that_masks_nonsense_spoils_the_sum_which_is_seen_but_nobody_is_named(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[SOUTH].twists["train.mask"] = lambda site, request, answer: answer._replace(upload=answer.upload * 3)
    assert not made.play().numbers
    assert made.said == ["round 1: the sum is rejected: its norm is beyond 5e+03"]
    assert not made.retired


def test_an_upload_too_large_for_the_ring_is_sent_as_the_largest_and_remembered_as_such(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[SOUTH].upload = np.full((3, 2), 1e12)
    made.sites[SOUTH].upload[0, 0] = 0.5
    found = made.play()
    assert not found.numbers, "its norm is beyond what is believed of the sum"
    sent = np.frombuffer(made.sites[SOUTH].kept[1].upload, "<f8")
    assert sent[0] == 0.5
    assert np.all(sent[1:] == sent[1])
    assert 1e6 < sent[1] <= 2.0**63 / 5 * 2.0**-40
    assert made.sites[SOUTH].charges == 1
    assert not made.retired
    assert {kind for kind, _, answer in made.room.got if isinstance(answer, messages.Refused)} == set()
