"""A server that lies to some sites, with some sites on its side, learns no upload: every lie is refused, by name."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fedspd.deploy.masks.signed import MOST_ATTEMPTS, Scope, sign_keys, sign_survivors
from fedspd.deploy.masks.stages import check_members
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Identity, Members
from fedspd.deploy.site.policy import Refusal
from fedspd.errors import InputError
from tests.support.deploy.masked_sites import NAMES, Masked, secrets_of
from tests.support.deploy.two_faced import TwoFaced, many_stories, two_halves

NORTH, SOUTH, EAST, WEST, CENTER = range(5)
EVERYBODY = range(5)


def begun(tmp_path: Path, **options: Any) -> TwoFaced:
    """All of five sites have uploaded."""
    server = TwoFaced(Masked(tmp_path, **options))
    server.publish()
    server.deal()
    server.mask()
    return server


def reason(answer: Any) -> str:
    assert isinstance(answer, messages.Refused), answer
    return answer.reason


def signatures(server: TwoFaced, survivors: Any = EVERYBODY, places: Any = EVERYBODY) -> dict[int, bytes]:
    found = {place: server.confirm(place, survivors) for place in places}
    assert all(isinstance(answer, messages.Confirmed) for answer in found.values()), found
    return {place: answer.signature for place, answer in found.items()}


@pytest.mark.parametrize(("members", "threshold", "colluders"), [(6, 4, 1), (20, 14, 6)])
def test_a_server_that_tells_everybody_of_other_survivors_unmasks_nobody(
    members: int, threshold: int, colluders: int, tmp_path: Path
) -> None:
    made = Masked(tmp_path, members, threshold=threshold, colluders=colluders)
    refused, unmasked = many_stories(TwoFaced(made, range(members - colluders, members)))
    assert not unmasked
    assert len(refused) == members - colluders, "nobody has revealed anything"
    assert all(f"this one signed, {threshold} are needed before anything is revealed" in why for why in refused)


def test_with_colluders_at_the_limit_two_halves_do_not_have_a_story_each(tmp_path: Path) -> None:
    made = Masked(tmp_path, 6, threshold=4, colluders=1)
    refused, unmasked = two_halves(TwoFaced(made, [5]))
    assert not unmasked
    assert len(refused) == 4, (
        "two of five honest sites refuse twice; the others are enough for a sum, which is the only one"
    )


def test_a_server_that_tells_the_truth_gets_a_share_of_every_seed_and_of_no_mask_key(tmp_path: Path) -> None:
    server = begun(tmp_path)
    assert server.show(dict.fromkeys(EVERYBODY, EVERYBODY)) == []
    assert all(len(server.shares[place, "seed"]) == 5 for place in EVERYBODY)
    assert not any(which == "mask key" for _, which in server.shares)


NUMBERS = [(6, 4, 2), (6, 3, 0), (5, 2, 0), (20, 13, 6), (5, 6, 0), (5, 3, 3), (5, 4, -1)]


@pytest.mark.parametrize(("members", "threshold", "colluders"), NUMBERS)
def test_a_file_whose_threshold_allows_two_stories_is_refused(members: int, threshold: int, colluders: int) -> None:
    sites = [(name, Identity(ec.generate_private_key(ec.SECP384R1())).public) for name in NAMES[:members]]
    with pytest.raises(InputError, match="twice the threshold must be more than"):
        Members(sites, threshold, colluders)
    assert Members(sites, members, 0).threshold == members


SURVIVORS: dict[str, tuple[list[int], str]] = {
    # whom a server calls survivors: what north says
    "too few": ([0, 1], "at least 3 survivors are needed for client 0, got 2"),
    "others alone": ([1, 2, 3, 4], "client 0 and others it has masked with must be the survivors"),
    "somebody twice": ([0, 1, 1], "each named once"),
    "a stranger": ([0, 1, 2, 9], r"got strangers \[9\]"),
    "one who counts from the end": ([0, 1, 2, -1], r"got strangers \[-1\]"),
}


@pytest.mark.parametrize("what", SURVIVORS)
def test_a_site_signs_survivors_only_if_it_is_one_of_enough_that_it_masked_with(what: str, tmp_path: Path) -> None:
    survivors, why = SURVIVORS[what]
    server = begun(tmp_path)
    assert re.search(why, reason(server.confirm(NORTH, survivors)))
    assert isinstance(server.confirm(NORTH, EVERYBODY), messages.Confirmed), "a refusal has used nothing up"


def test_a_site_signs_nobody_whose_share_it_was_not_shown(tmp_path: Path) -> None:
    server = TwoFaced(Masked(tmp_path))
    server.publish()
    server.deal()
    server.mask({NORTH: {SOUTH, EAST, WEST}})
    assert "got strangers [4]" in reason(server.confirm(NORTH, EVERYBODY))


def test_a_site_signs_one_set_and_only_after_its_own_upload(tmp_path: Path) -> None:
    server = TwoFaced(Masked(tmp_path))
    server.publish()
    server.deal()
    once = "survivors are signed once, after the site's own upload."
    assert reason(server.confirm(NORTH, EVERYBODY)) == once
    server.mask()
    assert isinstance(server.confirm(NORTH, [0, 1, 2]), messages.Confirmed)
    assert reason(server.confirm(NORTH, EVERYBODY)) == once
    assert reason(server.confirm(NORTH, [0, 1, 2])) == once


def test_nothing_is_revealed_before_so_many_as_the_threshold_have_signed_the_same_set(tmp_path: Path) -> None:
    server = begun(tmp_path)
    assert "after the site has signed who is summed" in reason(server.unmask(NORTH, {}))
    signed = signatures(server)
    other = Scope(server.made.terms[0], 1, "another")
    named = {place: sign_survivors(other, server.made.sites[place].me, place, EVERYBODY) for place in EVERYBODY}
    fewer = {place: sign_survivors(server.scope, server.made.sites[place].me, place, [0, 1, 2]) for place in EVERYBODY}
    for shown in (
        {},
        {NORTH: signed[NORTH], SOUTH: signed[SOUTH]},
        dict.fromkeys(EVERYBODY, signed[SOUTH]),  # one signature for all
        {place: signed[place] + bytes(1) for place in EVERYBODY},
        {place + 5: signature for place, signature in signed.items()} | {-1: signed[CENTER]},
        named,  # for another attempt
        fewer,  # of another set
    ):
        why = reason(server.unmask(NORTH, shown))
        assert re.fullmatch(r"[012] sites have signed the survivors that this one signed, 3 are needed .*", why)
    enough = {place: signed[place] for place in (SOUTH, WEST, CENTER)}
    assert set(server.unmask(NORTH, enough).shares) == set(EVERYBODY)


def test_a_signer_that_is_no_survivor_does_not_count(tmp_path: Path) -> None:
    server = begun(tmp_path)
    signed = signatures(server, [0, 1, 2], [0, 1])
    signed[WEST] = sign_survivors(server.scope, server.made.sites[WEST].me, WEST, [0, 1, 2])
    assert reason(server.unmask(NORTH, signed)).startswith("2 sites have signed")


def test_shares_are_revealed_once_and_then_the_secrets_are_gone_from_the_disk(tmp_path: Path) -> None:
    server = begun(tmp_path)
    site = server.made.sites[NORTH]
    secrets, attempt = secrets_of(site, messages.Exchange("", 1, "attempt"))
    kept = (secrets.blob.hex().encode(), attempt.own.encode(), attempt.shares["1"].encode())
    on_disk = b"".join(path.read_bytes() for path in tmp_path.glob("north.db*"))
    assert all(text in on_disk for text in kept)
    signed = signatures(server)
    assert isinstance(server.unmask(NORTH, signed), messages.Unmasked)
    assert reason(server.unmask(NORTH, signed)) == (
        "the site has no keys for this attempt at a masked round, or it is over."
    )
    on_disk = b"".join(path.read_bytes() for path in tmp_path.glob("north.db*"))
    assert not any(text in on_disk for text in kept)


def test_a_repeated_exchange_is_refused_at_every_stage_and_resets_nothing(tmp_path: Path) -> None:
    server = TwoFaced(Masked(tmp_path))
    server.publish()

    def again() -> str:
        return reason(server.say(NORTH, "train.exchange", "attempt"))

    once = "keys are published once in an attempt, which has a short name."
    assert again() == once
    server.deal()
    assert again() == once
    assert reason(server.deal_to(NORTH, {1: server.published[1]})) == "shares are dealt once in an attempt."
    server.mask()
    assert again() == once
    assert "an upload is masked once" in reason(server.ask(NORTH, {1, 2, 3, 4}))
    assert server.made.sites[NORTH].charges == 1
    signed = signatures(server)
    assert again() == once
    server.unmask(NORTH, signed)
    assert again() == once, "nor does an attempt that is over begin again"


def test_an_attempt_is_over_when_the_next_one_begins(tmp_path: Path) -> None:
    server = begun(tmp_path)
    signed = signatures(server)
    TwoFaced(server.made, attempt="next").publish()
    for place in EVERYBODY:
        assert "or it is over" in reason(server.unmask(place, signed))
        assert "once in an attempt" in reason(server.say(place, "train.exchange", "attempt"))


@pytest.mark.parametrize("name", ["", "x" * 61, "with space", "ä"])
def test_an_attempt_has_a_short_name(name: str, tmp_path: Path) -> None:
    server = TwoFaced(Masked(tmp_path), attempt=name)
    assert "which has a short name" in reason(server.say(NORTH, "train.exchange", name))


def test_keys_of_an_earlier_attempt_are_refused_whoever_signs_the_old_ones(tmp_path: Path) -> None:
    old = begun(tmp_path)
    new = TwoFaced(old.made, attempt="next")
    new.publish()
    replayed = {peer: old.published[peer] for peer in (1, 2, 3, 4)}
    assert reason(new.deal_to(NORTH, replayed)).endswith("are not signed by its key.")
    mixed = {peer: new.published[peer] for peer in (1, 2, 3)} | {4: old.published[4]}
    assert reason(new.deal_to(NORTH, mixed)) == "the round keys of center are not signed by its key."


def test_two_members_with_one_key_are_refused_though_each_has_signed_it(tmp_path: Path) -> None:
    server = TwoFaced(Masked(tmp_path))
    server.publish()
    keys = server.published[EAST].keys
    copied = sign_keys(server.scope, server.made.sites[SOUTH].me, SOUTH, keys)
    thief = server.published[SOUTH]._replace(keys=keys, signature=copied)
    others = {SOUTH: thief} | {peer: server.published[peer] for peer in (EAST, WEST, CENTER)}
    assert "got one key of clients" in reason(server.deal_to(NORTH, others))
    own = sign_keys(server.scope, server.made.sites[SOUTH].me, SOUTH, server.published[NORTH].keys)
    mirror = server.published[SOUTH]._replace(keys=server.published[NORTH].keys, signature=own)
    assert "got one key of clients" in reason(server.deal_to(NORTH, others | {SOUTH: mirror}))


def test_a_site_deals_and_masks_with_no_fewer_than_its_own_files_threshold(tmp_path: Path) -> None:
    server = TwoFaced(Masked(tmp_path, threshold=4, colluders=1))
    server.publish()
    assert "sit this round out" in reason(server.deal_to(NORTH, {peer: server.published[peer] for peer in (1, 2)}))
    server.deal()
    assert "with enough others" in reason(server.ask(NORTH, {1, 2}))
    assert server.made.sites[NORTH].charges == 0
    assert isinstance(server.ask(NORTH, {1, 2, 3}), messages.Masked)


TERMS: dict[str, tuple[dict[str, Any], str]] = {
    # what a server changes: what a site says whose file has five members, threshold 4 and one colluder
    "a lower threshold": ({"threshold": 3, "colluders": 0}, "at least 4 sites are summed and 1 may collude by the"),
    "fewer colluders": ({"colluders": 0}, "the run has 4 and 0."),
    "a higher threshold": ({"threshold": 5}, "the run has 5 and 1."),
    "a roster that is stuffed": (
        {"members": (*NAMES[:5], "spy"), "sizes": (1,) * 6}, "file of members does not name: spy.",
    ),
    "a roster that is thinned": ({"members": NAMES[:3], "sizes": (1,) * 3}, "are summed here, the run has 3."),
}  # fmt: skip


@pytest.mark.parametrize("what", TERMS)
def test_terms_with_other_numbers_or_members_than_the_sites_file_are_refused(what: str, tmp_path: Path) -> None:
    changes, why = TERMS[what]
    made = Masked(tmp_path, threshold=4, colluders=1)
    site = made.sites[NORTH]
    with pytest.raises(Refusal, match=re.escape(why)) as caught:
        check_members(replace(site.terms, **changes), site.identity, site.members)
    assert caught.value.final
    fewer = replace(site.terms, members=NAMES[:4], sizes=(1,) * 4)
    check_members(fewer, site.identity, site.members)  # fewer than all may take part, but not than the threshold
    site.terms = replace(site.terms, **changes)
    made.play()
    assert site.charges == 0


def test_a_file_of_members_without_a_threshold_is_not_enough_for_masks(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    site = made.sites[NORTH]
    with pytest.raises(Refusal, match="has no threshold, and masks need one"):
        check_members(site.terms, site.identity, Members(made.members.items()))


def test_a_round_is_masked_in_so_many_attempts_and_no_more(tmp_path: Path) -> None:
    made = Masked(tmp_path)
    for number in range(MOST_ATTEMPTS):
        server = TwoFaced(made, attempt=f"attempt-{number}")
        server.publish()
        server.deal()
        server.mask()
    refused = TwoFaced(made).say(NORTH, "train.exchange", "one-more")
    assert reason(refused) == "round 1 was masked here in 3 attempts; there are no more."
    assert refused.final
    assert made.sites[NORTH].charges == MOST_ATTEMPTS
    TwoFaced(made, round=2, attempt="one-more").publish()


def test_masks_and_signatures_belong_to_the_terms_of_their_run(tmp_path: Path) -> None:
    terms = Masked(tmp_path).terms[0]
    changes = {"threshold": 4, "colluders": 1, "largest_weight": 2.0, "sizes": (1,) * 5, "draws": 3}
    scopes = [Scope(terms, 1, "attempt"), Scope(terms, 2, "attempt"), Scope(terms, 1, "other")]
    scopes += [Scope(replace(terms, **{name: value}), 1, "attempt") for name, value in changes.items()]
    assert len({scope.context for scope in scopes}) == len(scopes)
    assert Scope(terms, 1, "attempt").context == Scope(replace(terms, place=3), 1, "attempt").context


def test_who_dies_before_or_after_masking_is_not_needed_and_nobody_elses_upload_is_told(tmp_path: Path) -> None:
    made = Masked(tmp_path, 6, threshold=4, colluders=1)
    made.sites[SOUTH].twists["train.mask"] = lambda site, request, answer: None
    made.sites[EAST].twists["train.confirm"] = lambda site, request, answer: None
    found = made.play()
    assert set(found.numbers) == {0, 2, 3, 4, 5}
    np.testing.assert_allclose(found.stack.sum(axis=0), made.true_sum(found.numbers), rtol=0, atol=1e-9)
    assert [len(request.survivors) for _, request in made.asked("train.confirm")] == [5] * 5
    assert {place for place, _ in made.asked("train.unmask")} == {0, 3, 4, 5}
    made.sites[WEST].twists["train.unmask"] = lambda site, request, answer: None
    assert not made.play(2).numbers, "three are left, and four shares of each secret are needed"
