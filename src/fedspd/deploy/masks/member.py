"""A client's keys and masks: the server learns the sum of the clients' vectors and no single one.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017), in the variant
against a server that does not keep to the protocol. Everybody shares masks with everybody: on a sparse graph colluders
can cut the others into parts, and each part's sum is told. In one attempt at a round a client

1. makes fresh keys (`new_secrets`) and publishes their public halves (`public_keys`), signed by its long-term key
   (`signed`);
2. deals shares of its two secrets among the others and itself (`shares.deal`);
3. opens those that were dealt to it, or proves that it cannot (`dispute`);
4. sends its vector plus a mask of its own, plus or minus one mask for each other (`mask`); in the sum the latter
   cancel in pairs;
5. signs the set of those whose vectors have arrived, one set and no other (`signed`);
6. hands out, once `threshold` clients have signed that same set, one share of one secret of everybody
   (`shares.reveal`): of the seed of its own mask if it is in the set, else of its mask key. `server.unmask` does the
   rest, and the client erases all it kept.

The functions keep nothing. The caller (`stages`) keeps what belongs to an attempt in its own store and takes each step
once. *What a server can learn*, with c of the n clients on its side and 2 `threshold` > n + c: one sum, of at least
`threshold` vectors. For two sets with `threshold` signatures each have an honest signer in common, as
2 (threshold - c) > n - c, so one set has them at most, and of nobody both secrets are revealed. And whoever is in
this set has masked with an honest signer of it: with those it masked with it is one of `threshold` clients, of whom
`threshold` - c are honest, and the honest ones but for the signers are at most n - `threshold`, which is less; the
signers have masked with everybody in the set. So nothing but the sum over the whole set comes off its masks.

A server that swaps public keys or shares on the way is caught by every client whose own file binds names to long-term
keys. Vectors carry noise of their own; a vector is masked in one attempt and never again, for the difference of two
sums of the same vectors would tell single ones.

Masks are ChaCha20 key streams, read as integers modulo 2^64. Flower's `pseudo_rand_gen` is not used: it folds the key
to 32 bits, of which the keys it is given in fact fill 28, so its masks can be found by trying all seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import urandom
from typing import NewType

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from numpy.typing import NDArray

from fedspd.errors import InputError

CURVE = ec.SECP256R1()
SECRET_BYTES = 32  # of a private key on the curve, of a seed, and of the seed's commitment
POINT_BYTES = 33  # of a public key on the curve, compressed
PUBLIC_BYTES = 2 * POINT_BYTES + SECRET_BYTES  # of all that a client publishes

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
        """The private key of the masks shared with others."""
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


def mask(
    secrets: Secrets,
    me: int,
    values: NDArray[np.uint64],
    others: Mapping[int, PublicKeys],
    threshold: int,
    context: bytes,
) -> NDArray[np.uint64]:
    """The vector plus the client's own mask, plus or minus those shared with others, modulo 2^64.

    Args:
        others: those that have dealt.
        threshold: the one of this client's own file; never that of a message.
        context: names the attempt and the terms, the same for all clients.

    Guarantees:
        A single masked vector is uniform, whatever the values.
        With fewer others than the threshold demands nothing is masked: the server could remove what little mask
        there would be.
    """
    if len(others) + 1 < threshold:
        raise InputError(
            f"at least {threshold - 1} others must have dealt before a vector is masked, got {len(others)}; "
            "sit this round out."
        )
    if me in others or values.dtype != np.uint64 or values.ndim != 1:
        raise InputError(
            f"a vector of uint64 and the others of client {me} without itself are needed, got {values.dtype} of "
            f"{values.ndim} dimensions and others {sorted(others)}; use `fixed_point.encode`."
        )
    masked = values + self_mask(secrets.seed, values.size, context)
    for peer, public in others.items():
        masked += pair_mask(secrets.mask_key, public, me, peer, values.size, context)
    return masked


def self_mask(seed: bytes, size: int, context: bytes) -> NDArray[np.uint64]:
    """The mask that a client alone knows, until enough shares of its seed are revealed."""
    return _key_stream(seed, size, b"fedspd: mask of one client, " + context)


def pair_mask(
    mask_key: bytes, peer_public: PublicKeys, me: int, peer: int, size: int, context: bytes
) -> NDArray[np.uint64]:
    """The mask of a pair with the sign of client `me`: plus for the smaller number, minus for the larger.

    Guarantees:
        The masks of the two ends sum to zero modulo 2^64.
        A client that publishes the key of another has none of the other's masks.
    """
    shared = private_key(mask_key).exchange(ec.ECDH(), points(peer_public)[1])
    pair = f"fedspd: mask of clients {min(me, peer)} and {max(me, peer)}, ".encode()
    stream = _key_stream(shared, size, pair + context)
    return stream if me < peer else np.negative(stream)


def public_half(key: bytes) -> bytes:
    """The public key of a private one, as bytes."""
    return private_key(key).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def seed_commitment(seed: bytes) -> bytes:
    """What binds a client to its seed without telling it, so that a wrong share cannot go unnoticed."""
    return sha256(b"fedspd: commitment to a seed, " + seed).digest()


def private_key(key: bytes) -> ec.EllipticCurvePrivateKey:
    """A private key from its bytes."""
    return ec.derive_private_key(int.from_bytes(key, "big"), CURVE)


def points(public: PublicKeys) -> tuple[ec.EllipticCurvePublicKey, ec.EllipticCurvePublicKey]:
    """The keys for encryption and for masks that a client has published; refuses what is not on the curve."""
    try:
        if len(public) != PUBLIC_BYTES:
            raise ValueError
        encryption, masks = (public[start : start + POINT_BYTES] for start in (0, POINT_BYTES))
        read = ec.EllipticCurvePublicKey.from_encoded_point
        return read(CURVE, encryption), read(CURVE, masks)
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
