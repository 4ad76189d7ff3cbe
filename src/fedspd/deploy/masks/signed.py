"""What sites sign in a masked round by their long-term keys: their round keys, and the shares they deal."""

import json
from typing import NamedTuple

from fedspd.deploy.protocol.identity import Identity, Members, PublicKey
from fedspd.deploy.protocol.terms import Terms

KEYS, SHARE = "keys of a masked round", "share of a masked round"  # what is signed
SIGNATURE_BYTES = 2 + 2 * (2 + 49)  # at most: a list of two numbers, each of 384 bits and a sign


class Scope(NamedTuple):
    """An attempt at a masked round: what is signed for it holds for nothing else."""

    terms: Terms  # of any site: its place does not count
    round: int
    attempt: str

    @property
    def context(self) -> bytes:
        """What masks are made for, and for nothing else."""
        return json.dumps([self.terms.run, self.round, self.attempt]).encode()

    def name(self, place: int) -> str:
        """Whom the terms have at a place."""
        return self.terms.members[place]

    def parts(self, place: int) -> tuple[bytes, ...]:
        """What every signature of a site begins with."""
        return self.context, self.name(place).encode(), self.terms.common.encode()


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


def _verified(key: PublicKey, signature: bytes, purpose: str, *parts: bytes) -> bool:
    """Whether a signature is right, and no longer than one can be: it is passed on to others."""
    return len(signature) <= SIGNATURE_BYTES and key.verify(signature, purpose, *parts)
