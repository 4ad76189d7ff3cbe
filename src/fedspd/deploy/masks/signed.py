"""What sites sign in a masked round by their long-term keys: round keys, the shares they deal, and who survived."""

import json
from collections.abc import Collection
from typing import NamedTuple

from fedspd.deploy.protocol.identity import Identity, Members, PublicKey
from fedspd.deploy.protocol.terms import Terms

KEYS, SHARE, SURVIVORS = "keys of a masked round", "share of a masked round", "survivors of a masked round"
MOST_ATTEMPTS = 3  # at a round: each that has masked an upload was charged
SIGNATURE_BYTES = 2 + 2 * (2 + 49)  # at most: a list of two numbers, each of 384 bits and a sign


class Scope(NamedTuple):
    """An attempt at a masked round: what is signed for it holds for nothing else."""

    terms: Terms  # of any site: its place does not count
    round: int
    attempt: str

    @property
    def context(self) -> bytes:
        """What masks are made for, and signatures: this attempt under these terms, and nothing else."""
        return json.dumps([self.terms.run, self.round, self.attempt, self.terms.common]).encode()

    def name(self, place: int) -> str:
        """Whom the terms have at a place."""
        return self.terms.members[place]

    def parts(self, place: int) -> tuple[bytes, ...]:
        """What every signature of a site begins with."""
        return self.context, self.name(place).encode()


def sign_keys(scope: Scope, identity: Identity, place: int, keys: bytes) -> bytes:
    """A site's signature on its round keys."""
    return identity.sign(KEYS, *scope.parts(place), keys)


def keys_are_signed(scope: Scope, members: Members, place: int, keys: bytes, signature: bytes) -> bool:
    """Whether round keys come from the site that the terms have at a place."""
    return _verified(members[scope.name(place)], signature, KEYS, *scope.parts(place), keys)


def sign_share(scope: Scope, identity: Identity, dealer: int, holder: int, sealed: bytes) -> bytes:
    """A dealer's signature on a sealed share."""
    return identity.sign(SHARE, *scope.parts(dealer), scope.name(holder).encode(), sealed)


def share_is_signed(scope: Scope, members: Members, dealer: int, holder: int, sealed: bytes, signature: bytes) -> bool:
    """Whether a sealed share comes from the dealer that the terms have at a place, and is for this holder."""
    parts = (*scope.parts(dealer), scope.name(holder).encode(), sealed)
    return _verified(members[scope.name(dealer)], signature, SHARE, *parts)


def sign_survivors(scope: Scope, identity: Identity, place: int, survivors: Collection[int]) -> bytes:
    """A site's signature on whose uploads are to be summed."""
    return identity.sign(SURVIVORS, *scope.parts(place), _listed(survivors))


def survivors_are_signed(
    scope: Scope, members: Members, place: int, survivors: Collection[int], signature: bytes
) -> bool:
    """Whether the site that the terms have at a place has signed these survivors."""
    return _verified(members[scope.name(place)], signature, SURVIVORS, *scope.parts(place), _listed(survivors))


def _listed(survivors: Collection[int]) -> bytes:
    return json.dumps(sorted(survivors)).encode()


def _verified(key: PublicKey, signature: bytes, purpose: str, *parts: bytes) -> bool:
    """Whether a signature is right, and no longer than one can be: it is passed on to others."""
    return len(signature) <= SIGNATURE_BYTES and key.verify(signature, purpose, *parts)
