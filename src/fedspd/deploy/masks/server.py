"""The server's part in SecAgg+: who is whose neighbor, and the sum of the vectors that have arrived.

See `masking` for the protocol and its literature. The clients that have dealt fall into survivors, whose masked vector
has arrived, and dropped ones. The sum of the survivors' vectors carries each survivor's own mask, and the masks that
survivors share with dropped neighbors. Shares from enough clients give the seeds of the former and the mask keys of
the latter.
"""

from collections.abc import Collection, Mapping
from random import SystemRandom

import numpy as np
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from numpy.typing import NDArray

from fedspd.deploy.masks.member import (
    POINT_BYTES,
    SMALLEST_GROUP,
    PublicKeys,
    pair_mask,
    public_half,
    seed_commitment,
    self_mask,
)
from fedspd.errors import InputError

SMALLEST_DEGREE = 4  # from here on the threshold keeps the survivors connected


def neighbors_of(members: Collection[int], degree: int | None) -> dict[int, frozenset[int]]:
    """Each member's neighbors: `degree` of them, the nearest on a circle in random order; all others if None.

    A client's work grows with the degree. Bell et al. take one that grows like the logarithm of the group.

    Guarantees:
        Neighbors are mutual, and each member has the same number of them.
        With the threshold of `threshold_for`, a sum is given only if the survivors are connected, so that no part of
        it can be told apart: what separates a circle are two gaps as wide as half the degree, and beside such a gap
        more than a third of a client's shares are lost.
    """
    circle = sorted(set(members))
    if len(circle) < SMALLEST_GROUP:
        raise InputError(f"secure aggregation needs {SMALLEST_GROUP} members or more, got {len(circle)}; enlarge it.")
    if degree is None or degree >= len(circle) - 1:
        return {member: frozenset(circle) - {member} for member in circle}
    if degree < SMALLEST_DEGREE or degree % 2:
        raise InputError(f"degree must be even and at least {SMALLEST_DEGREE}, got {degree}; take an even one or None.")
    SystemRandom().shuffle(circle)
    offsets = [sign * away for away in range(1, degree // 2 + 1) for sign in (1, -1)]
    return {
        member: frozenset(circle[(place + offset) % len(circle)] for offset in offsets)
        for place, member in enumerate(circle)
    }


def threshold_for(holders: int) -> int:
    """How many shares give a secret: two thirds of the holders, rounded up.

    The holders are a client and its neighbors: `degree` + 1, or the whole group. More than half are needed, or a server
    could have both secrets of a client by telling two stories. Two thirds leave room for a third to drop out, and for
    fewer than a third to side with a server that tells two stories.
    """
    if holders < SMALLEST_GROUP:
        raise InputError(f"shares need {SMALLEST_GROUP} holders or more, got {holders}; enlarge the group.")
    return -(-2 * holders // 3)


def unmask(
    masked: Mapping[int, NDArray[np.uint64]],
    publics: Mapping[int, PublicKeys],
    graph: Mapping[int, Collection[int]],
    revealed: Mapping[int, Mapping[int, bytes]],
    threshold: int,
    context: bytes,
) -> NDArray[np.uint64]:
    """The sum of the survivors' vectors modulo 2^64.

    Args:
        masked: the vectors that have arrived, by survivor.
        publics: the keys of all who have dealt, survivors or not.
        revealed: what each client has revealed, by client and owner of the secret.

    Guarantees:
        The sum is exact, or there is none: too few shares or a wrong one are refused.
    """
    _check_vectors(masked, publics)
    dropped = publics.keys() - masked.keys()
    secrets = {owner: _combine(owner, graph[owner], revealed, threshold) for owner in publics}
    for owner, secret in secrets.items():
        _check_secret(owner, secret, publics[owner], owner in dropped)
    total = np.zeros_like(next(iter(masked.values())))
    for survivor, vector in masked.items():
        total += vector - self_mask(secrets[survivor], vector.size, context)
    for owner in dropped:
        for survivor in masked.keys() & set(graph[owner]):
            # What the dropped client would have added is the negative of what the survivor has.
            total += pair_mask(secrets[owner], publics[survivor], owner, survivor, total.size, context)
    return total


def _check_vectors(masked: Mapping[int, NDArray[np.uint64]], publics: Mapping[int, PublicKeys]) -> None:
    shapes = {(vector.dtype, vector.shape) for vector in masked.values()}
    strangers = masked.keys() - publics.keys()
    if len(shapes) != 1 or strangers or any(dtype != np.uint64 or len(shape) != 1 for dtype, shape in shapes):
        raise InputError(
            "masked vectors must be of uint64, equally long, and from clients that have dealt, got "
            f"{sorted(map(str, shapes))} and strangers {sorted(strangers)}; leave the round out."
        )


def _combine(
    owner: int, neighbors: Collection[int], revealed: Mapping[int, Mapping[int, bytes]], threshold: int
) -> bytes:
    """The secret of which `owner`'s neighbors and itself have revealed shares."""
    holders = sorted(holder for holder in {owner, *neighbors} if owner in revealed.get(holder, {}))
    if len(holders) < threshold:
        raise InputError(
            f"{threshold} shares of the secret of client {owner} are needed, got {len(holders)}; "
            "too many clients have dropped out, leave the round out."
        )
    shares = [revealed[holder][owner] for holder in holders[:threshold]]
    try:
        return combine_shares(shares)
    except ValueError:
        raise _wrong_share(owner) from None


def _check_secret(owner: int, secret: bytes, public: PublicKeys, is_dropped: bool) -> None:
    """Refuse a secret that is not the one its owner has published the other half of."""
    try:
        found = public_half(secret) if is_dropped else seed_commitment(secret)
    except ValueError:  # not a private key at all
        raise _wrong_share(owner) from None
    if found != (public[POINT_BYTES : 2 * POINT_BYTES] if is_dropped else public[2 * POINT_BYTES :]):
        raise _wrong_share(owner)


def _wrong_share(owner: int) -> InputError:
    return InputError(
        f"shares of client {owner} must give the secret it has committed to, got at least one that is wrong; "
        "leave the round out."
    )
