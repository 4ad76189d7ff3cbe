"""The server's part in unmasking: the sum of the vectors that have arrived, and who has lied about shares.

See `member` for the protocol and its literature. The clients that have dealt fall into survivors, whose masked vector
has arrived, and dropped ones. The sum of the survivors' vectors carries each survivor's own mask, and the masks that
survivors share with dropped clients. Shares from enough clients give the seeds of the former and the mask keys of
the latter.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from numpy.typing import NDArray

from fedspd.deploy.masks.member import (
    POINT_BYTES,
    PublicKeys,
    pair_mask,
    public_half,
    seed_commitment,
    self_mask,
)
from fedspd.deploy.masks.shares import SHARE_BYTES, commitment, commitments
from fedspd.errors import InputError


class Opened(NamedTuple):
    """What revealed shares give, and whom they show to have cheated."""

    total: NDArray[np.uint64] | None  # the sum of the survivors' vectors modulo 2^64; None: a secret is missing
    wrong: dict[int, int]  # who has revealed a share that it was not dealt, and of whom
    faked: tuple[int, ...]  # whose shares are what it dealt, and do not give what it published
    lacking: tuple[int, ...]  # of whom there are too few shares


def unmask(
    masked: Mapping[int, NDArray[np.uint64]],
    publics: Mapping[int, PublicKeys],
    sealed: Mapping[int, Mapping[int, bytes]],
    revealed: Mapping[int, Mapping[int, bytes]],
    threshold: int,
    context: bytes,
) -> Opened:
    """The sum of the survivors' vectors modulo 2^64.

    Args:
        masked: the vectors that have arrived, by survivor.
        publics: the keys of all who have dealt, survivors or not.
        sealed: what each of them has dealt, by dealer and holder.
        revealed: what each client has revealed, by client and owner of the secret.
        threshold: how many shares give a secret.
        context: what the masks were made for.

    Guarantees:
        The sum is exact, or there is none.
        Wrong shares are left out, and there is a sum as long as enough right ones are left.
        Nobody is said to have cheated who did as it should.
    """
    _check_vectors(masked, publics)
    secrets, wrong, faked, lacking = dict[int, bytes](), dict[int, int](), list[int](), list[int]()
    for owner in publics:
        dropped = owner not in masked
        shares, liars = _right_shares(owner, sealed[owner], revealed, dropped)
        wrong = dict.fromkeys(liars, owner) | wrong
        if len(shares) < threshold:
            lacking.append(owner)
        elif (secret := _combined(shares[:threshold], publics[owner], dropped)) is None:
            faked.append(owner)
        else:
            secrets[owner] = secret
    total = _unmasked(masked, publics, secrets, context) if len(secrets) == len(publics) else None
    return Opened(total, wrong, tuple(faked), tuple(lacking))


def _unmasked(
    masked: Mapping[int, NDArray[np.uint64]],
    publics: Mapping[int, PublicKeys],
    secrets: Mapping[int, bytes],
    context: bytes,
) -> NDArray[np.uint64]:
    total = np.zeros_like(next(iter(masked.values())))
    for survivor, vector in masked.items():
        total += vector - self_mask(secrets[survivor], vector.size, context)
    for owner in publics.keys() - masked.keys():
        for survivor in masked:
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


def _right_shares(
    owner: int, sealed: Mapping[int, bytes], revealed: Mapping[int, Mapping[int, bytes]], dropped: bool
) -> tuple[list[bytes], list[int]]:
    """Shares of an owner's secret that are what it dealt, its own one last; and who revealed something else."""
    given = {holder: revealed[holder][owner] for holder in sorted(sealed) if owner in revealed.get(holder, {})}
    part = 1 if dropped else 0  # of the two commitments: to the mask key, or to the seed
    liars = [
        holder
        for holder, share in given.items()
        if len(share) != SHARE_BYTES or commitment(share) != commitments(sealed[holder])[part]
    ]
    shares = [share for holder, share in given.items() if holder not in liars]
    own = revealed.get(owner, {}).get(owner)  # nobody has seen a commitment to it: if it is wrong, so is the owner
    return shares + ([] if own is None else [own]), liars


def _combined(shares: list[bytes], public: PublicKeys, dropped: bool) -> bytes | None:
    """The secret of an owner; None where it is not the one that the owner has published the other half of."""
    if any(len(share) != SHARE_BYTES for share in shares):
        return None
    try:
        secret = combine_shares(shares)
        found = public_half(secret) if dropped else seed_commitment(secret)
    except ValueError:  # shares that do not belong together, or not a private key at all
        return None
    published = public[POINT_BYTES : 2 * POINT_BYTES] if dropped else public[2 * POINT_BYTES :]
    return secret if found == published else None
