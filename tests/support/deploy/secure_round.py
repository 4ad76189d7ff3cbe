"""A round of secure aggregation among honest clients in one process, who may drop out at every stage."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from fedspd.deploy.masks.member import PublicKeys, Secrets, mask, new_secrets, public_keys
from fedspd.deploy.masks.server import Opened, unmask
from fedspd.deploy.masks.shares import deal, reveal
from fedspd.errors import InputError

CONTEXT = b"run 1, round 1"
STAYS, BEFORE_DEALING, AFTER_DEALING, AFTER_MASKING = range(4)


@dataclass(frozen=True)
class Dealt:
    """A round up to dealing: everybody's secrets and public keys, and what each was dealt, by sender."""

    secrets: Mapping[int, Secrets]
    publics: Mapping[int, PublicKeys]
    inbox: Mapping[int, Mapping[int, bytes]]
    outbox: Mapping[int, Mapping[int, bytes]]  # without what each dealt to itself
    threshold: int

    def others(self, client: int) -> dict[int, PublicKeys]:
        return {peer: public for peer, public in self.publics.items() if peer != client}

    def mask(self, client: int, values: np.ndarray) -> np.ndarray:
        return mask(self.secrets[client], client, values, self.others(client), self.threshold, CONTEXT)

    def reveal(self, client: int, survivors: Collection[int]) -> dict[int, bytes]:
        others = self.others(client)
        return reveal(self.secrets[client], client, self.inbox[client], others, survivors, self.threshold)

    def unmask(self, masked: Mapping[int, np.ndarray], revealed: Mapping[int, Mapping[int, bytes]]) -> Opened:
        return unmask(masked, self.publics, self.outbox, revealed, self.threshold, CONTEXT)


def threshold_for(members: int) -> int:
    """Two thirds, rounded up, and three at least."""
    return max(3, -(-2 * members // 3))


def dealt(members: Collection[int], absent: Collection[int] = ()) -> Dealt:
    threshold = threshold_for(len(members))
    secrets = {member: new_secrets() for member in members}
    publics = {member: public_keys(secrets[member]) for member in members}
    outbox = {
        member: deal(secrets[member], member, {peer: publics[peer] for peer in members if peer != member}, threshold)
        for member in members
        if member not in absent
    }
    inbox = {me: {source: sent[me] for source, sent in outbox.items() if me in sent} for me in members}
    others = {me: {holder: sent[holder] for holder in sent if holder != me} for me, sent in outbox.items()}
    return Dealt(secrets, {member: publics[member] for member in outbox}, inbox, others, threshold)


def vectors_of(members: Collection[int], size: int = 5) -> dict[int, np.ndarray]:
    draws = np.random.default_rng(7)
    return {member: draws.integers(0, 2**64, size, dtype=np.uint64) for member in members}


def honest_round(round: Dealt, fates: Mapping[int, int], vectors: Mapping[int, np.ndarray]) -> tuple[set[int], Opened]:
    """The survivors and what their shares give; a client that refuses has dropped out."""
    masked, revealed = {}, {}
    for client in round.publics:
        if fates[client] != AFTER_DEALING:
            try:
                masked[client] = round.mask(client, vectors[client])
            except InputError:
                continue
    for client in masked:
        if fates[client] != AFTER_MASKING:
            try:
                revealed[client] = round.reveal(client, set(masked))
            except InputError:
                continue
    nothing = Opened(None, {}, (), tuple(round.publics))
    return set(masked), round.unmask(masked, revealed) if masked else nothing
