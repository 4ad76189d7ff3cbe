"""Shares of a client's two secrets: dealt sealed, opened by their holders, revealed one of the two.

A sealed share is a commitment to each of its two parts, followed by their encryption to the holder. The commitments are
for everybody's eyes: whoever deals something else than it committed to, or reveals something else than it was dealt,
is found out.
"""

from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import NamedTuple

from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat, share_keys_plaintext_separate

from fedspd.deploy.masks.member import POINT_BYTES, PublicKeys, Secrets, points, private_key, public_keys
from fedspd.deploy.protocol.identity import SMALLEST_GROUP
from fedspd.errors import InputError

SHARE_BYTES = 52  # of a secret: the share's number (4) and three blocks (16 each), the last of them padding
COMMITMENT_BYTES = 32  # to a share of one secret
_PLAIN_BYTES = 8 + 8 + 4 + 2 * SHARE_BYTES  # dealer, holder, length of the first share, and the two
_TOKEN_BYTES = 1 + 8 + 16 + 16 * (_PLAIN_BYTES // 16 + 1) + 32  # Fernet's version, time, start, padded blocks, tag
SEALED_BYTES = 2 * COMMITMENT_BYTES + 4 * -(-_TOKEN_BYTES // 3)  # a token travels in base 64


class Share(NamedTuple):
    """What one holder has of a client's two secrets."""

    seed: bytes
    mask_key: bytes


def deal(secrets: Secrets, me: int, others: Mapping[int, PublicKeys], threshold: int) -> dict[int, bytes]:
    """Sealed shares of the seed and of the mask key, for each of the others and for oneself.

    Guarantees:
        Fewer shares than `threshold` do not give a secret.
        A threshold of at most half of the holders is refused: one half could be told that the client has dropped out,
        the other that it has not, and the server would have both of its secrets.
        A threshold below three is refused, since of two vectors each gives the other from the sum.
        Two clients with a key in common are refused: one of them has copied the other's.
    """
    holders = sorted({me, *others})
    if me in others or threshold < SMALLEST_GROUP or not len(holders) < 2 * threshold <= 2 * len(holders):
        raise InputError(
            f"shares need a threshold of {SMALLEST_GROUP} holders or more, a client and others, and of more than half "
            f"of them, got {threshold} for client {me} with others {sorted(others)}; sit this round out."
        )
    publics = {**others, me: public_keys(secrets)}
    _require_own_keys(publics)
    seeds = create_shares(secrets.seed, threshold, len(holders))
    mask_keys = create_shares(secrets.mask_key, threshold, len(holders))
    return {
        holder: seal(shared_key(secrets, publics[holder]), me, holder, Share(seed, mask_key))
        for holder, seed, mask_key in zip(holders, seeds, mask_keys, strict=True)
    }


def _require_own_keys(publics: Mapping[int, PublicKeys]) -> None:
    owners = dict[bytes, int]()
    for owner, public in publics.items():
        for key in (*(public[start : start + POINT_BYTES] for start in (0, POINT_BYTES)), public[2 * POINT_BYTES :]):
            if owners.setdefault(key, owner) != owner:
                raise InputError(
                    f"each client must have round keys of its own, got one key of clients {owners[key]} and {owner}; "
                    "sit this round out."
                )


def seal(key: bytes, dealer: int, holder: int, share: Share) -> bytes:
    """Commitments to a share, and the share under a key that dealer and holder know."""
    return b"".join(map(commitment, share)) + encrypt(key, share_keys_plaintext_concat(dealer, holder, *share))


def unseal(key: bytes, dealer: int, holder: int, sealed: bytes) -> Share | None:
    """The share; None where it cannot be opened, is for somebody else, or is not what was committed to.

    Guarantees:
        A share of another length is none, even if what is too much would be skipped in reading it.
    """
    if len(sealed) != SEALED_BYTES:
        return None
    try:
        plaintext = decrypt(key, sealed[2 * COMMITMENT_BYTES :])
    except InvalidToken:
        return None
    source, destination, *parts = share_keys_plaintext_separate(plaintext)
    share = Share(*parts)
    whole = len(share.seed) == len(share.mask_key) == SHARE_BYTES and (source, destination) == (dealer, holder)
    return share if whole and tuple(map(commitment, share)) == commitments(sealed) else None


def commitment(part: bytes) -> bytes:
    """What binds a dealer and a holder to a share of one secret without telling it."""
    return sha256(b"fedspd: commitment to a share, " + part).digest()


def commitments(sealed: bytes) -> tuple[bytes, bytes]:
    """The commitments to the share of the seed and to that of the mask key."""
    return sealed[:COMMITMENT_BYTES], sealed[COMMITMENT_BYTES : 2 * COMMITMENT_BYTES]


def unopened(secrets: Secrets, me: int, sealed: Mapping[int, bytes], publics: Mapping[int, PublicKeys]) -> list[int]:
    """The dealers whose shares for this client are none."""
    keys = {dealer: shared_key(secrets, publics[dealer]) for dealer in sealed}
    return sorted(dealer for dealer in sealed if unseal(keys[dealer], dealer, me, sealed[dealer]) is None)


def reveal(
    secrets: Secrets,
    me: int,
    sealed: Mapping[int, bytes],
    publics: Mapping[int, PublicKeys],
    survivors: Collection[int],
    threshold: int,
) -> dict[int, bytes]:
    """Of every survivor the share of its seed, of everybody else the share of its mask key.

    Args:
        secrets: of this client.
        me: its place.
        sealed: what each of them, this client included, has dealt to this client.
        publics: the others this client has masked with, from its own store.
        survivors: those whose vectors have arrived, as enough clients have signed.
        threshold: the one of this client's own file; never that of a message.

    Guarantees:
        Nobody's two secrets are revealed together.
        With fewer survivors than the threshold nothing is revealed: a server that calls almost everybody dropped would
        unmask single clients.
        A share that was changed, or dealt by or to somebody else, is refused.
    """
    check_survivors(me, survivors, publics, threshold)
    everybody = {**publics, me: public_keys(secrets)}
    dealt = {owner: _opened(secrets, me, sealed, owner, public) for owner, public in everybody.items()}
    return {owner: share.seed if owner in survivors else share.mask_key for owner, share in dealt.items()}


def check_survivors(me: int, survivors: Collection[int], others: Collection[int], threshold: int) -> None:
    """Refuse a set that this client is not in, that is too small, or with somebody it has not masked with."""
    strangers = set(survivors) - {*others, me}
    if strangers or me not in survivors or len(set(survivors)) < len(survivors):
        raise InputError(
            f"client {me} and others it has masked with must be the survivors, each named once, got strangers "
            f"{sorted(strangers)} in {sorted(survivors)}; nothing is revealed in this attempt."
        )
    if len(survivors) < threshold:
        raise InputError(
            f"at least {threshold} survivors are needed for client {me}, got {len(survivors)}; "
            "nothing is revealed in this attempt."
        )


def shared_key(secrets: Secrets, public: PublicKeys) -> bytes:
    """The key under which a client and another one seal shares for each other."""
    return sealing_key(private_key(secrets.encryption_key).exchange(ec.ECDH(), points(public)[0]))


def sealing_key(shared: bytes) -> bytes:
    """The key that belongs to the first coordinate of a shared point."""
    info = b"fedspd: key of sealed shares"
    return urlsafe_b64encode(HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(shared))


def _opened(secrets: Secrets, me: int, sealed: Mapping[int, bytes], owner: int, public: PublicKeys) -> Share:
    share = unseal(shared_key(secrets, public), owner, me, sealed.get(owner, b""))
    if share is None:
        raise InputError(
            f"a share dealt by client {owner} to client {me} is needed, got none or a changed one; "
            "nothing is revealed in this attempt."
        )
    return share
