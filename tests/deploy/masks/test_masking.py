from itertools import pairwise

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from scipy import stats

from fedspd.deploy.masks.member import PublicKeys, Secrets, mask, new_secrets, pair_mask, public_keys, self_mask
from fedspd.deploy.masks.shares import SHARE_BYTES, Share, deal, reveal, seal, shared_key, unopened
from fedspd.errors import InputError
from tests.support.deploy.secure_round import CONTEXT, dealt

FIXED = [Secrets(bytes([1 + client]) * 96) for client in range(3)]


def looks_uniform(integers: np.ndarray) -> bool:
    """Kolmogorov and Smirnov on the integers, chi-square on their bytes and bits: each at one in ten thousand."""
    octets = np.ascontiguousarray(integers).view(np.uint8)
    ones = int(np.unpackbits(octets).sum())
    pvalues = [
        stats.kstest(integers / 2.0**64, "uniform").pvalue,
        stats.chisquare(np.bincount(octets, minlength=256)).pvalue,
        stats.binomtest(ones, 8 * octets.size).pvalue,
    ]
    return bool(np.min(pvalues) > 1e-4)


def test_a_single_masked_vector_is_uniform_whatever_the_values() -> None:
    others = {peer: public_keys(FIXED[peer]) for peer in (0, 2)}
    for values in (np.zeros(20_000, np.uint64), np.full(20_000, 2**64 - 1, np.uint64)):
        sent = mask(FIXED[1], 1, values, others, 2, CONTEXT)
        assert looks_uniform(sent)
        assert not np.any(sent == values)
        assert not looks_uniform((sent * 0.95).astype(np.uint64)), "the test sees a range that is 5 % too short"
        assert not looks_uniform(sent | (np.arange(20_000) % 20 == 0).astype(np.uint64) * np.uint64(0xFFFF))


def test_two_rounds_and_two_purposes_have_different_masks() -> None:
    one, two = (self_mask(FIXED[0].seed, 8, context) for context in (b"round 1", b"round 2"))
    pair_one, pair_two = (
        pair_mask(FIXED[0].mask_key, public_keys(FIXED[1]), 0, 1, 8, context) for context in (b"round 1", b"round 2")
    )
    for left, right in pairwise([one, two, pair_one, pair_two, one]):
        assert not np.any(left == right)
    assert new_secrets() != new_secrets()


def test_the_masks_of_the_two_ends_sum_to_zero() -> None:
    first = pair_mask(FIXED[0].mask_key, public_keys(FIXED[1]), 0, 1, 100, CONTEXT)
    second = pair_mask(FIXED[1].mask_key, public_keys(FIXED[0]), 1, 0, 100, CONTEXT)
    assert not np.any(first + second)
    assert np.all(first - second), "with equal signs nothing would cancel"


def test_flowers_generator_gives_two_keys_one_mask_so_ours_is_used() -> None:
    key = bytes(range(32))
    swapped = key[4:8] + key[:4] + key[8:]
    of_flower = [pseudo_rand_gen(seed, 2**62, [(100,)])[0] for seed in (key, swapped)]
    np.testing.assert_array_equal(of_flower[0], of_flower[1])
    ours = [self_mask(seed, 100, CONTEXT) for seed in (key, swapped)]
    assert not np.any(ours[0] == ours[1])


def test_of_everybody_one_secret_is_revealed_and_which_one_the_survivors_say() -> None:
    round = dealt(range(5))
    shares = round.reveal(0, {0, 1, 2, 3})
    assert {len(share) for share in shares.values()} == {SHARE_BYTES}
    others = round.reveal(0, {0, 1, 2, 4})
    assert [shares[owner] == others[owner] for owner in range(5)] == [True, True, True, False, False]


def test_with_fewer_survivors_than_the_threshold_nothing_is_revealed() -> None:
    round = dealt(range(5))
    assert round.threshold == 4
    with pytest.raises(InputError, match="at least 4 survivors are needed for client 0, got 3"):
        round.reveal(0, {0, 1, 2})
    with pytest.raises(InputError, match="each named once"):
        round.reveal(0, [0, 1, 2, 2, 1])


def test_strangers_and_a_client_called_dropped_itself_are_refused() -> None:
    round = dealt(range(5))
    with pytest.raises(InputError, match=r"strangers \[9\]"):
        round.reveal(0, {0, 1, 2, 3, 9})
    with pytest.raises(InputError, match="client 0 and others it has masked with must be the survivors"):
        round.reveal(0, {1, 2, 3, 4})


def test_a_share_that_was_changed_or_dealt_by_or_to_somebody_else_is_none() -> None:
    round = dealt(range(5))
    key = shared_key(round.secrets[0], round.publics[1])
    share, other = Share(bytes(SHARE_BYTES), bytes([1]) * SHARE_BYTES), Share(bytes(SHARE_BYTES), bytes(SHARE_BYTES))
    good, fine = round.inbox[0][1], seal(key, 1, 0, share)
    forged = [
        good[:140] + (b"A" if good[140:141] != b"A" else b"B") + good[141:],
        bytes([good[0] ^ 1]) + good[1:],
        round.inbox[0][2],
        round.inbox[1][0],  # what this client has dealt to the other, sent back: the same key opens it
        seal(key, 2, 0, share),
        seal(key, 1, 2, share),
        seal(key, 1, 0, Share(share.seed, b"")),
        seal(key, 1, 0, other)[:64] + fine[64:],  # not what was committed to
        good[:64],
        b"",
    ]
    everybody = set(range(5))
    for sealed in forged:
        inbox = {**round.inbox[0], 1: sealed}
        received = {dealer: inbox[dealer] for dealer in (1, 2, 3, 4)}
        assert unopened(round.secrets[0], 0, received, round.others(0)) == [1]
        with pytest.raises(InputError, match="a share dealt by client 1 to client 0 is needed"):
            reveal(round.secrets[0], 0, inbox, round.others(0), everybody, round.threshold)
    missing = {source: sent for source, sent in round.inbox[0].items() if source != 1}
    with pytest.raises(InputError, match="a share dealt by client 1 to client 0 is needed"):
        reveal(round.secrets[0], 0, missing, round.others(0), everybody, round.threshold)
    inbox = {**round.inbox[0], 1: fine}
    assert unopened(round.secrets[0], 0, {1: fine, 2: round.inbox[0][2]}, round.others(0)) == []
    assert reveal(round.secrets[0], 0, inbox, round.others(0), everybody, 4)[1] == share.seed


def test_a_client_that_publishes_the_key_of_another_takes_off_none_of_its_masks() -> None:
    with_the_owner = pair_mask(FIXED[0].mask_key, public_keys(FIXED[1]), 1, 0, 8, CONTEXT)
    with_the_thief = pair_mask(FIXED[0].mask_key, public_keys(FIXED[1]), 1, 2, 8, CONTEXT)
    assert np.all(with_the_owner + with_the_thief), "they would cancel if both were the same stream"


@pytest.mark.parametrize(("peers", "threshold"), [(0, 1), (1, 2), (2, 2), (5, 3), (3, 2), (4, 6), (4, 0)])
def test_a_threshold_of_at_most_half_of_the_holders_and_one_below_three_are_refused(peers: int, threshold: int) -> None:
    others = {peer: public_keys(new_secrets()) for peer in range(1, peers + 1)}
    with pytest.raises(InputError, match="shares need a threshold of 3 holders or more"):
        deal(FIXED[0], 0, others, threshold)


@pytest.mark.parametrize("part", [slice(0, 33), slice(33, 66), slice(66, 98)])
@pytest.mark.parametrize("owner", [0, 2])
def test_a_client_with_a_key_of_another_is_refused_whichever_key_it_is(part: slice, owner: int) -> None:
    copied = bytearray(public_keys(FIXED[1]))
    copied[part] = public_keys(FIXED[owner])[part]
    others = {1: PublicKeys(bytes(copied)), 2: public_keys(FIXED[2])}
    with pytest.raises(InputError, match=rf"got one key of clients .*{owner}"):
        deal(FIXED[0], 0, others, 3)
    assert deal(FIXED[0], 0, {**others, 1: public_keys(FIXED[1])}, 3)


def test_a_client_is_not_its_own_neighbor() -> None:
    others = {peer: public_keys(FIXED[peer]) for peer in range(3)}
    with pytest.raises(InputError, match="for client 0 with others"):
        deal(FIXED[0], 0, others, 3)
    with pytest.raises(InputError, match="without itself"):
        mask(FIXED[0], 0, np.zeros(3, np.uint64), others, 2, CONTEXT)


def test_with_fewer_others_than_the_threshold_demands_nothing_is_masked() -> None:
    values, others = np.zeros(3, np.uint64), {peer: public_keys(FIXED[peer]) for peer in (1, 2)}
    assert np.all(mask(FIXED[0], 0, values, others, 3, CONTEXT))
    with pytest.raises(InputError, match=r"at least 3 others must have dealt .* got 2"):
        mask(FIXED[0], 0, values, others, 4, CONTEXT)


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros(3, np.int64), np.zeros((3, 1), np.uint64)])
def test_only_encoded_vectors_are_masked_and_summed(values: np.ndarray) -> None:
    round = dealt(range(3))
    with pytest.raises(InputError, match=r"use `fixed_point\.encode`"):
        round.mask(0, values)
    with pytest.raises(InputError, match="must be of uint64"):
        round.unmask(dict.fromkeys(range(3), values), {})


def test_secrets_are_not_printed_and_come_back_from_their_bytes() -> None:
    secrets = new_secrets()
    assert repr(secrets) == "Secrets()"
    assert public_keys(Secrets(secrets.blob)) == public_keys(secrets)
    with pytest.raises(InputError, match="must be 96 bytes, got 95"):
        Secrets(secrets.blob[1:])


@pytest.mark.parametrize("public", [b"", bytes(98), b"\x05" * 98, public_keys(FIXED[1])[:-1]])
def test_bytes_that_are_no_public_keys_are_refused(public: bytes) -> None:
    others = {1: PublicKeys(public), 2: public_keys(FIXED[2])}
    with pytest.raises(InputError, match="public keys must be two points"):
        mask(FIXED[0], 0, np.zeros(3, np.uint64), others, 2, CONTEXT)
    with pytest.raises(InputError, match="public keys must be two points"):
        deal(FIXED[0], 0, others, 3)
