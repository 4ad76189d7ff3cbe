"""Who is to blame for a share that does not open: its holder proves it, and the server looks for itself.

The holder tells the point that it shares with the dealer, and proves that it is this point: the point is to the
dealer's public key what the holder's public key is to the curve's generator (Chaum and Pedersen, "Wallet Databases with
Observers", CRYPTO 1992; made non-interactive by Fiat and Shamir's hash). With the point the server opens the share as
the holder would have. So nobody can blame somebody who did as it should, however many others help.

What is told opens what these two clients have dealt to each other in this attempt, and nothing else; whichever of them
has cheated could have told it anyway, and is one of the colluders that the threshold allows for. So the attempt goes
on without the two. Shares are signed by their dealers (`signed`), and a holder complains about
signed ones only: else a server could change shares on the way, and would be told the keys to all of them.
"""

import secrets as randomness
from hashlib import sha256

from Crypto.PublicKey.ECC import EccPoint
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedspd.deploy.masks.member import CURVE, POINT_BYTES, SECRET_BYTES, PublicKeys, Secrets, points, public_keys
from fedspd.deploy.masks.shares import sealing_key, unseal

ORDER = int("FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551", 16)  # of the curve P-256, a prime
GENERATOR = EccPoint(
    int("6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296", 16),
    int("4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5", 16),
    "P-256",
)  # NIST, SP 800-186


def prove(secrets: Secrets, dealer: PublicKeys) -> bytes:
    """The point that the owner of these secrets shares with a dealer, and a proof that it is."""
    key, other = int.from_bytes(secrets.encryption_key, "big"), _point(dealer)
    shared, nonce = other * key, 1 + randomness.randbelow(ORDER - 1)
    challenge = _challenge(_point(public_keys(secrets)), other, shared, GENERATOR * nonce, other * nonce)
    answer = (nonce - challenge * key) % ORDER
    return _bytes(shared) + challenge.to_bytes(SECRET_BYTES, "big") + answer.to_bytes(SECRET_BYTES, "big")


def proved_key(proof: bytes, holder: PublicKeys, dealer: PublicKeys) -> bytes | None:
    """The key under which the two seal shares, if the proof is right."""
    if len(proof) != POINT_BYTES + 2 * SECRET_BYTES:
        return None
    numbers = proof[POINT_BYTES:]
    challenge, answer = (int.from_bytes(part, "big") for part in (numbers[:SECRET_BYTES], numbers[SECRET_BYTES:]))
    mine, other = _point(holder), _point(dealer)
    try:
        shared = _read(ec.EllipticCurvePublicKey.from_encoded_point(CURVE, proof[:POINT_BYTES]))
        nonces = GENERATOR * answer + mine * challenge, other * answer + shared * challenge
        right = challenge == _challenge(mine, other, shared, *nonces)
    except ValueError:  # no point, or the one at infinity
        return None
    return sealing_key(int(shared.x).to_bytes(SECRET_BYTES, "big")) if right else None


def is_true(
    proof: bytes, holder: int, dealer: int, sealed: bytes, holder_keys: PublicKeys, dealer_keys: PublicKeys
) -> bool:
    """Whether a complaint is true: it is proved, and the share that was dealt is none."""
    key = proved_key(proof, holder_keys, dealer_keys)
    return key is not None and unseal(key, dealer, holder, sealed) is None


def _challenge(*of: EccPoint) -> int:
    text = b"fedspd: proof of a shared point, " + b"".join(map(_bytes, of))
    return int.from_bytes(sha256(text).digest(), "big") % ORDER


def _point(public: PublicKeys) -> EccPoint:
    return _read(points(public)[0])


def _read(key: ec.EllipticCurvePublicKey) -> EccPoint:
    numbers = key.public_numbers()
    return EccPoint(numbers.x, numbers.y, "P-256")


def _bytes(point: EccPoint) -> bytes:
    numbers = ec.EllipticCurvePublicNumbers(int(point.x), int(point.y), CURVE)
    return numbers.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
