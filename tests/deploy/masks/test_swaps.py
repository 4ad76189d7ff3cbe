"""A server that swaps keys or shares on the way is caught by the sites, each by its own file of members."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fedspd.deploy.masks.member import new_secrets, public_keys
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Identity, Members
from fedspd.errors import InputError
from tests.support.deploy.masked_sites import NAMES, Masked

NORTH, SOUTH, EAST = 0, 1, 2
SERVERS = public_keys(new_secrets())


def only_to(victim: int, change: Any) -> Any:
    """What a bad server sends: something else to one site."""
    return lambda place, request: change(request) if place == victim else request


def refusals(made: Masked, place: int) -> list[str]:
    return [got.reason for _, site, got in made.room.got if site == place and isinstance(got, messages.Refused)]


def swapped(request: messages.Deal) -> messages.Deal:
    """A key of south that the server has the other half of."""
    return request._replace(keys=request.keys | {SOUTH: SERVERS})


KEYS: dict[str, tuple[Any, str]] = {
    # what the server does: (to the request of north, what north says)
    "swaps a key": (swapped, "the round keys of south are not signed by its key."),
    "leaves out a signature": (
        lambda request: request._replace(signatures={}), "the round keys of .* are not signed by its key."
    ),
    "gives south the keys of east": (
        lambda request: request._replace(
            keys=request.keys | {SOUTH: request.keys[EAST]},
            signatures=request.signatures | {SOUTH: request.signatures[EAST]},
        ),
        "the round keys of south are not signed by its key.",
    ),
    "invents a site": (
        lambda request: request._replace(keys=request.keys | {9: SERVERS}), "the run has no site at place 9."
    ),
    "counts from the end": (
        lambda request: request._replace(keys=request.keys | {-1: SERVERS}), "the run has no site at place -1."
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", KEYS)
def test_a_site_deals_nothing_to_keys_that_are_not_signed(what: str, tmp_path: Path) -> None:
    change, reason = KEYS[what]
    made = Masked(tmp_path)
    made.room.tampers["train.deal"] = only_to(NORTH, change)
    found = made.play()
    (said,) = refusals(made, NORTH)
    assert re.fullmatch(reason, said)
    assert set(found.numbers) == {1, 2, 3, 4}, "the others were told the truth"
    np.testing.assert_allclose(found.stack.sum(axis=0), made.true_sum({1, 2, 3, 4}), rtol=0, atol=1e-9)
    assert made.sites[NORTH].charges == 0
    assert not made.retired, "neither north nor south has done anything wrong"


def test_keys_of_an_earlier_attempt_are_refused_in_the_next(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.play(1)
    (old,) = (request for place, request in made.asked("train.deal") if place == NORTH)
    made.room.tampers["train.deal"] = only_to(
        NORTH, lambda request: request._replace(keys=old.keys, signatures=old.signatures)
    )
    assert set(made.play(2).numbers) == {1, 2, 3, 4}
    (said,) = refusals(made, NORTH)
    assert said.endswith("are not signed by its key.")


SHARES: dict[str, Any] = {
    "changes a share": lambda request: request._replace(shares=request.shares | {SOUTH: b"garbage"}),
    "swaps two shares": lambda request: request._replace(
        shares=request.shares | {SOUTH: request.shares[EAST]},
        signatures=request.signatures | {SOUTH: request.signatures[EAST]},
    ),
    "leaves out the signatures": lambda request: request._replace(signatures={}),
}


@pytest.mark.parametrize("what", SHARES)
def test_a_site_proves_nothing_about_shares_that_their_dealer_has_not_signed(what: str, tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.room.tampers["train.mask"] = only_to(NORTH, SHARES[what])
    found = made.play()
    (said,) = refusals(made, NORTH)
    assert said.startswith("the shares of ")
    assert said.endswith(" are not signed by its key.")
    assert not [got for _, _, got in made.room.got if isinstance(got, messages.Complaint)]
    assert set(found.numbers) == {1, 2, 3, 4}
    assert made.sites[NORTH].charges == 0
    assert not made.retired


def test_a_share_that_was_dealt_to_somebody_else_is_refused_like_one_that_is_not_signed(tmp_path: Path) -> None:
    made = Masked(tmp_path)

    def misdirected(request: Any) -> Any:
        (dealt,) = (got for kind, place, got in made.room.got if (kind, place) == ("train.deal", SOUTH))
        return request._replace(
            shares=request.shares | {SOUTH: dealt.shares[EAST]},
            signatures=request.signatures | {SOUTH: dealt.signatures[EAST]},
        )

    made.room.tampers["train.mask"] = only_to(NORTH, misdirected)
    assert set(made.play().numbers) == {1, 2, 3, 4}
    assert refusals(made, NORTH) == ["the shares of south are not signed by its key."]
    assert not made.retired


def test_sites_that_were_told_different_terms_do_not_mask_together(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    north = made.sites[NORTH]
    north.terms = replace(north.terms, sizes=(100, 101, 102, 103, 999))
    assert set(made.play().numbers) == {1, 2, 3, 4}
    assert made.retired == {NORTH: "its round keys are not signed by its key"}, "for the server's terms are others"


def test_a_site_without_a_key_or_without_a_file_of_members_refuses_masked_rounds(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[NORTH].identity = None
    made.sites[SOUTH].members = None
    assert set(made.play().numbers) == {2, 3, 4}
    assert set(made.retired) == {NORTH, SOUTH}
    for place in (NORTH, SOUTH):
        assert refusals(made, place) == [
            "masks need the site's own key and its file of the federation's members, which are not here; "
            "set site.key and site.members."
        ]


def test_a_site_refuses_a_run_with_sites_that_it_does_not_know(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[NORTH].members = Members([(name, made.members[name]) for name in NAMES[:4]], 3)
    made.play()
    assert refusals(made, NORTH) == ["the run has sites that this one's file of members does not name: center."]


def test_a_site_refuses_to_be_called_by_a_name_that_has_another_key(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.sites[NORTH].identity = Identity(ec.generate_private_key(ec.SECP384R1()))
    made.play()
    assert refusals(made, NORTH) == [
        "the run calls this site 'north', which has another key in the site's file of members."
    ]


def test_a_site_whose_file_has_another_key_for_a_neighbor_names_it(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    other = Identity(ec.generate_private_key(ec.SECP384R1())).public
    made.sites[NORTH].members = Members(
        [(name, other if name == "east" else made.members[name]) for name in NAMES[:5]], 3
    )
    assert set(made.play().numbers) == {1, 2, 3, 4}
    assert refusals(made, NORTH) == ["the round keys of east are not signed by its key."]
    assert not made.retired


def test_a_server_without_the_keys_of_its_sites_says_so(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    made.members = Members([(name, made.members[name]) for name in NAMES[:4]])
    with pytest.raises(InputError, match="a masked run needs the key of each of its sites"):
        made.play()
