"""A client's part in SecAgg+: the server learns the sum of the clients' vectors and no single one.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017), on the sparse graph
of Bell et al., "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead" (CCS 2020). In one round a client

1. makes fresh keys (`new_secrets`) and publishes their public halves (`public_keys`);
2. deals shares of its two secrets among its neighbors and itself (`deal`);
3. sends its vector plus a mask of its own, plus or minus one mask for each neighbor (`mask`); in the sum the latter
   cancel in pairs;
4. hands out, of every neighbor, one share of one secret (`reveal`): of the seed of its own mask if its vector has
   arrived, of its mask key if it has dropped out. `unmasking` does the rest.

The functions keep nothing. The caller keeps `Secrets`, what it dealt and masked with, and the threshold in its own
store, uses them for one round, and calls `mask` and `reveal` once. A server that follows the protocol learns the sum
and no more; with c < `threshold` of a client's neighbors on its side it learns the sum of the others, at least
`threshold` - c vectors around that client. A server that swaps public keys on the way is out of scope, as keys are not
signed. Masks do not replace noise: every client adds its own in full.

Masks are ChaCha20 key streams, read as integers modulo 2^64. Flower's `pseudo_rand_gen` is not used: it folds the key
to 32 bits, of which the keys it is given in fact fill 28, so its masks can be found by trying all seeds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import urandom
from typing import NewType

import numpy as np
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat, share_keys_plaintext_separate
from numpy.typing import NDArray

from fedspd.errors import InputError

CURVE = ec.SECP256R1()
SECRET_BYTES = 32  # of a private key on the curve, of a seed, and of the seed's commitment
POINT_BYTES = 33  # of a public key on the curve, compressed
SHARE_BYTES = 52  # of a secret: the share's number (4) and three blocks (16 each), the last of them padding

SMALLEST_GROUP = 3  # clients in a sum

PublicKeys = NewType("PublicKeys", bytes)
"""What a client publishes: the keys for encryption and for masks, and a commitment to the seed of its own mask."""


@dataclass(frozen=True)
class Secrets:
    """What a client must not tell: private keys for encryption and for masks, and the seed of its own mask."""

    blob: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.blob) != 3 * SECRET_BYTES:
            raise InputError(
                f"a client's secrets must be {3 * SECRET_BYTES} bytes, got {len(self.blob)}; use `new_secrets`."
            )

    @property
    def encryption_key(self) -> bytes:
        """The private key that opens the shares dealt to this client."""
        return self.blob[:SECRET_BYTES]

    @property
    def mask_key(self) -> bytes:
        """The private key of the masks shared with neighbors."""
        return self.blob[SECRET_BYTES : 2 * SECRET_BYTES]

    @property
    def seed(self) -> bytes:
        """The seed of the client's own mask."""
        return self.blob[2 * SECRET_BYTES :]


def new_secrets() -> Secrets:
    """Fresh secrets for one round, from the operating system's randomness."""
    keys = [ec.generate_private_key(CURVE).private_numbers().private_value for _ in range(2)]
    return Secrets(b"".join(key.to_bytes(SECRET_BYTES, "big") for key in keys) + urandom(SECRET_BYTES))


def public_keys(secrets: Secrets) -> PublicKeys:
    """What the others need to know of these secrets."""
    return PublicKeys(
        public_half(secrets.encryption_key) + public_half(secrets.mask_key) + seed_commitment(secrets.seed)
    )


def deal(secrets: Secrets, me: int, neighbors: Mapping[int, PublicKeys], threshold: int) -> dict[int, bytes]:
    """Shares of the seed and of the mask key, one pair for each neighbor and for oneself, encrypted to its holder.

    Guarantees:
        Fewer shares than `threshold` do not give a secret.
        A threshold of at most half of the holders is refused: one half could be told that the client has dropped out,
        the other that it has not, and the server would have both of its secrets.
        Fewer than three holders are refused, since of two vectors each gives the other from the sum.
    """
    holders = sorted({me, *neighbors})
    if me in neighbors or len(holders) < SMALLEST_GROUP or not len(holders) < 2 * threshold <= 2 * len(holders):
        raise InputError(
            f"shares need {SMALLEST_GROUP} holders or more, a client and its neighbors, and a threshold above half of "
            f"them, got {threshold} for client {me} with neighbors {sorted(neighbors)}; sit this round out."
        )
    publics = {**neighbors, me: public_keys(secrets)}
    seed_shares = create_shares(secrets.seed, threshold, len(holders))
    key_shares = create_shares(secrets.mask_key, threshold, len(holders))
    return {
        holder: encrypt(
            _encryption_key(secrets, publics[holder]), share_keys_plaintext_concat(me, holder, seed_share, key_share)
        )
        for holder, seed_share, key_share in zip(holders, seed_shares, key_shares, strict=True)
    }


def mask(
    secrets: Secrets,
    me: int,
    values: NDArray[np.uint64],
    neighbors: Mapping[int, PublicKeys],
    threshold: int,
    context: bytes,
) -> NDArray[np.uint64]:
    """The vector plus the client's own mask, plus or minus those shared with neighbors, modulo 2^64.

    Args:
        neighbors: those that have dealt.
        threshold: the one this client has dealt with; never that of a later message.
        context: names the run and the round, the same for all clients.

    Guarantees:
        A single masked vector is uniform, whatever the values.
        With fewer neighbors than the threshold demands nothing is masked: the server could remove what little mask
        there would be.
    """
    if len(neighbors) + 1 < threshold:
        raise InputError(
            f"at least {threshold - 1} neighbors must have dealt before a vector is masked, got {len(neighbors)}; "
            "sit this round out."
        )
    if me in neighbors or values.dtype != np.uint64 or values.ndim != 1:
        raise InputError(
            f"a vector of uint64 and the neighbors of client {me} without itself are needed, got {values.dtype} of "
            f"{values.ndim} dimensions and neighbors {sorted(neighbors)}; use `fixed_point.encode`."
        )
    masked = values + self_mask(secrets.seed, values.size, context)
    for peer, public in neighbors.items():
        masked += pair_mask(secrets.mask_key, public, me, peer, values.size, context)
    return masked


def reveal(
    secrets: Secrets,
    me: int,
    ciphertexts: Mapping[int, bytes],
    publics: Mapping[int, PublicKeys],
    survivors: Collection[int],
    dropped: Collection[int],
    threshold: int,
) -> dict[int, bytes]:
    """Of every survivor the share of its seed, of every dropped neighbor the share of its mask key.

    Args:
        ciphertexts: what each of them, this client included, has dealt to this client.
        publics: the neighbors this client has masked with, from its own store.
        threshold: the one this client has dealt with; never that of a later message.

    Guarantees:
        Nobody's two secrets are revealed together.
        With fewer survivors than the threshold nothing is revealed: a server that calls almost everybody dropped would
        unmask single clients.
        A share that was changed, or dealt by or to somebody else, is refused.
    """
    known = {*publics, me}
    both, strangers = set(survivors) & set(dropped), {*survivors, *dropped} - known
    if both or strangers or me not in survivors:
        raise InputError(
            f"client {me} must be a survivor and everybody else a neighbor, survivor or dropped but not both, got "
            f"strangers {sorted(strangers)} and {sorted(both)} as both; nothing is revealed in this round."
        )
    if len(set(survivors)) < threshold:
        raise InputError(
            f"at least {threshold} survivors are needed around client {me}, got {len(set(survivors))}; "
            "nothing is revealed in this round."
        )
    everybody = {**publics, me: public_keys(secrets)}
    dealt = {owner: _open(secrets, me, ciphertexts, owner, everybody[owner]) for owner in {*survivors, *dropped}}
    return {owner: shares[0] if owner in survivors else shares[1] for owner, shares in dealt.items()}


def self_mask(seed: bytes, size: int, context: bytes) -> NDArray[np.uint64]:
    """The mask that a client alone knows, until enough shares of its seed are revealed."""
    return _key_stream(seed, size, b"fedspd: mask of one client, " + context)


def pair_mask(
    mask_key: bytes, peer_public: PublicKeys, me: int, peer: int, size: int, context: bytes
) -> NDArray[np.uint64]:
    """The mask of a pair with the sign of client `me`: plus for the smaller number, minus for the larger.

    Guarantees:
        The masks of the two ends sum to zero modulo 2^64.
    """
    shared = generate_shared_key(_private(mask_key), _point(peer_public, POINT_BYTES))
    stream = _key_stream(shared, size, b"fedspd: mask of two clients, " + context)
    return stream if me < peer else np.negative(stream)


def public_half(private_key: bytes) -> bytes:
    """The public key of a private one, as bytes."""
    return _private(private_key).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def seed_commitment(seed: bytes) -> bytes:
    """What binds a client to its seed without telling it, so that a wrong share cannot go unnoticed."""
    return sha256(b"fedspd: commitment to a seed, " + seed).digest()


def _open(
    secrets: Secrets, me: int, ciphertexts: Mapping[int, bytes], owner: int, public: PublicKeys
) -> tuple[bytes, bytes]:
    """The two shares that `owner` has dealt to this client."""
    try:
        plaintext = decrypt(_encryption_key(secrets, public), ciphertexts[owner])
    except (KeyError, InvalidToken):
        plaintext = b""  # which names neither sender nor receiver
    source, destination, seed_share, key_share = share_keys_plaintext_separate(plaintext)
    whole = len(seed_share) == len(key_share) == SHARE_BYTES
    if not whole or (source, destination) != (owner, me):
        raise InputError(
            f"a share dealt by client {owner} to client {me} is needed, got none or a changed one; "
            "nothing is revealed in this round."
        )
    return seed_share, key_share


def _encryption_key(secrets: Secrets, public: PublicKeys) -> bytes:
    return generate_shared_key(_private(secrets.encryption_key), _point(public, 0))


def _private(key: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(key, "big"), CURVE)


def _point(public: PublicKeys, start: int) -> ec.EllipticCurvePublicKey:
    try:
        if len(public) != 2 * POINT_BYTES + SECRET_BYTES:
            raise ValueError
        return ec.EllipticCurvePublicKey.from_encoded_point(CURVE, public[start : start + POINT_BYTES])
    except ValueError:
        raise InputError(
            f"public keys must be two points of {CURVE.name} and a commitment, got {len(public)} other bytes; "
            "use `public_keys`."
        ) from None


def _key_stream(key: bytes, size: int, info: bytes) -> NDArray[np.uint64]:
    """Uniform integers modulo 2^64; the key is fresh for every `info`, so the nonce need not be."""
    fresh = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(key)
    stream = Cipher(algorithms.ChaCha20(fresh, bytes(16)), mode=None).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, "<u8").astype(np.uint64)
