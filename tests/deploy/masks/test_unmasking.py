from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.deploy.masks.server import Opened
from fedspd.deploy.masks.shares import Share, seal, shared_key
from fedspd.errors import InputError
from tests.support.deploy.secure_round import (
    AFTER_MASKING,
    BEFORE_DEALING,
    STAYS,
    Dealt,
    dealt,
    honest_round,
    threshold_for,
    vectors_of,
)

pytestmark = pytest.mark.slow


def summed(vectors: Mapping[int, np.ndarray], over: Collection[int]) -> list[int]:
    """The sum by Python's integers, which do not wrap around."""
    return [sum(column) % 2**64 for column in zip(*(vectors[client].tolist() for client in over), strict=True)]


def summed_by(opened: Opened) -> list[int]:
    """The sum that shares have opened."""
    assert opened.total is not None, opened
    return opened.total.tolist()


def with_dealt(round: Dealt, dealer: int, shares: Mapping[int, Share]) -> Dealt:
    """The same where one client has dealt other shares to some."""
    sent = {
        holder: seal(shared_key(round.secrets[holder], round.publics[dealer]), dealer, holder, share)
        for holder, share in shares.items()
    }
    inbox = {me: {**got, dealer: sent[me]} if me in sent else got for me, got in round.inbox.items()}
    return replace(round, inbox=inbox, outbox={**round.outbox, dealer: {**round.outbox[dealer], **sent}})


@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 12).flatmap(
        lambda size: st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3]), min_size=size, max_size=size)
    )
)
def test_the_sum_of_the_survivors_is_exact_whoever_drops_out_and_whenever(fates_listed: list[int]) -> None:
    fates = {10 * place + 3: fate for place, fate in enumerate(fates_listed)}
    vectors = vectors_of(fates)
    round = dealt(fates, absent={client for client in fates if fates[client] == BEFORE_DEALING})
    survivors, opened = honest_round(round, fates, vectors)
    assert (opened.wrong, opened.faked) == ({}, ())
    if fates_listed.count(STAYS) < threshold_for(len(fates)):
        assert opened.total is None
        return
    assert survivors == {client for client in fates if fates[client] in (STAYS, AFTER_MASKING)}
    assert summed_by(opened) == summed(vectors, survivors)


def test_fewer_shares_than_the_threshold_do_not_give_a_secret() -> None:
    round = dealt(range(6))
    masked = {client: round.mask(client, vector) for client, vector in vectors_of(range(6)).items()}
    revealed = {client: round.reveal(client, set(masked)) for client in masked}
    for known in range(1, round.threshold):
        with suppress(ValueError):  # which most say by themselves, as what they give has no right end
            assert combine_shares([revealed[client][0] for client in range(known)]) != round.secrets[0].seed
        opened = round.unmask(masked, {client: revealed[client] for client in range(known)})
        assert opened == (None, {}, (), tuple(range(6)))
    assert combine_shares([revealed[client][0] for client in range(round.threshold)]) == round.secrets[0].seed


FORGED = [lambda s: b"", lambda s: s[:-1], lambda s: s[:20] + bytes([s[20] ^ 1]) + s[21:], lambda s: s + s]


@pytest.mark.parametrize("dropped", [set(), {0}])
@pytest.mark.parametrize("forge", FORGED)
def test_who_reveals_a_wrong_share_is_found_and_the_sum_is_right_where_enough_are_left(
    dropped: set[int], forge: Callable[[bytes], bytes]
) -> None:
    round, vectors = dealt(range(5)), vectors_of(range(5))
    masked = {client: round.mask(client, vectors[client]) for client in set(range(5)) - dropped}
    revealed = {client: round.reveal(client, set(masked)) for client in masked}
    revealed[1][0] = forge(revealed[1][0])
    opened = round.unmask(masked, revealed)
    assert opened.wrong == {1: 0}
    if dropped:  # three of four shares are right, and four are needed
        assert (opened.total, opened.lacking) == (None, (0,))
    else:
        assert summed_by(opened) == summed(vectors, masked)


def test_as_many_as_may_drop_out_may_also_lie_and_each_of_them_is_found() -> None:
    round, vectors = dealt(range(9)), vectors_of(range(9))
    masked = {client: round.mask(client, vectors[client]) for client in range(9)}
    revealed = {client: round.reveal(client, set(masked)) for client in masked}
    for liar in (1, 4, 7):
        revealed[liar] = {owner: share[::-1] for owner, share in revealed[liar].items()}
    opened = round.unmask(masked, revealed)
    assert (set(opened.wrong), opened.faked) == ({1, 4, 7}, ())
    assert summed_by(opened) == summed(vectors, masked)


@pytest.mark.parametrize("dropped", [set(), {0}])
@pytest.mark.parametrize("holders", [(1, 2, 3, 4), (1,), (2, 3)])
def test_who_deals_shares_of_another_secret_is_found_and_cannot_put_the_blame_on_their_holders(
    dropped: set[int], holders: tuple[int, ...]
) -> None:
    round = dealt(range(5))
    others = create_shares(b"x" * 32, round.threshold, 5)
    round = with_dealt(round, 0, {holder: Share(others[holder], others[holder]) for holder in holders})
    masked = {client: round.mask(client, vectors_of(range(5))[client]) for client in set(range(5)) - dropped}
    revealed = {client: round.reveal(client, set(masked)) for client in masked}
    assert round.unmask(masked, revealed) == (None, {}, (0,), ())


@pytest.mark.parametrize("own", [b"", bytes(52), b"\x02\x00\x00\x00" + bytes(48), bytes(4000)])
def test_an_owner_whose_own_share_is_wrong_is_found_where_it_is_needed_and_harmless_elsewhere(own: bytes) -> None:
    round, vectors = dealt(range(5)), vectors_of(range(5))
    masked = {client: round.mask(client, vectors[client]) for client in range(5)}
    revealed = {client: round.reveal(client, set(masked)) for client in masked}
    revealed[0][0] = own
    assert summed_by(round.unmask(masked, revealed)) == summed(vectors, masked)
    del revealed[4]
    assert round.unmask(masked, revealed) == (None, {}, (0,), ())


@pytest.mark.parametrize("key", [bytes(32), b"\xff" * 32, b"short" * 7])
def test_shares_of_a_mask_key_that_is_none_are_the_fault_of_their_owner(key: bytes) -> None:
    round = dealt(range(5))
    parts = create_shares(key, round.threshold, 5)
    round = with_dealt(round, 0, {holder: Share(parts[holder], parts[holder]) for holder in range(1, 5)})
    masked = {client: round.mask(client, vector) for client, vector in vectors_of(range(1, 5)).items()}
    revealed = {client: round.reveal(client, set(masked)) for client in masked}
    assert round.unmask(masked, revealed) == (None, {}, (0,), ())


def test_vectors_of_unequal_length_or_from_strangers_or_none_are_refused_a_sum() -> None:
    round = dealt(range(3))
    vector = np.zeros(3, np.uint64)
    for masked in ({}, {0: vector, 1: vector[:1], 2: vector}, {0: vector, 1: vector, 9: vector}):
        with pytest.raises(InputError, match="masked vectors must be of uint64"):
            round.unmask(masked, {})
