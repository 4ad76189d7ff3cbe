"""A server that does not keep to the protocol of masked rounds, together with some of its sites.

It leads one attempt by hand and says what it likes to whom it likes. Of the sites on its side it knows everything:
their secrets, what was dealt to them, and their long-term keys, by which they sign whatever it wants.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from flwr.common.secure_aggregation.crypto.shamir import combine_shares

from fedspd.deploy.masks.fixed_point import STEP, decode
from fedspd.deploy.masks.member import PublicKeys, Secrets, pair_mask, self_mask
from fedspd.deploy.masks.shares import shared_key, unseal
from fedspd.deploy.masks.signed import Scope, sign_survivors
from fedspd.deploy.protocol import messages
from tests.support.deploy.masked_sites import SHAPE, Masked, secrets_of


class TwoFaced:
    """One attempt at a round, led by such a server.

    Args:
        made: the sites.
        colluders: those on its side.
    """

    def __init__(self, made: Masked, colluders: Collection[int] = (), round: int = 1, attempt: str = "attempt") -> None:
        self.made, self.colluders, self.round, self.attempt = made, set(colluders), round, attempt
        self.everybody = set(range(len(made.sites)))
        self.honest = self.everybody - self.colluders
        self.published: dict[int, messages.Published] = {}
        self.dealt: dict[int, messages.Dealt] = {}
        self.masked: dict[int, messages.Masked] = {}
        self.secrets: dict[int, Secrets] = {}  # of colluders
        self.shares: dict[tuple[int, str], dict[int, bytes]] = {}  # by owner and which secret: by holder

    def say(self, place: int, kind: str, *content: Any) -> Any:
        request = messages.REQUESTS[kind](self.made.terms[place].digest, self.round, *content)
        return self.made.sites[place].answer(kind, request)

    def publish(self, places: Collection[int] | None = None) -> None:
        for place in self.everybody if places is None else places:
            answer = self.say(place, "train.exchange", self.attempt)
            assert isinstance(answer, messages.Published), answer
            self.published[place] = answer

    def deal(self) -> None:
        for place in self.published:
            others = self.published.keys() - {place}
            answer = self.deal_to(place, {peer: self.published[peer] for peer in others})
            assert isinstance(answer, messages.Dealt), answer
            self.dealt[place] = answer
        for place in self.colluders & self.published.keys():
            request = messages.Exchange(self.made.terms[place].digest, self.round, self.attempt)
            self.secrets[place] = secrets_of(self.made.sites[place], request)[0]
            for dealer in self.published.keys() - {place}:
                key = shared_key(self.secrets[place], self.public(dealer))
                share = unseal(key, dealer, place, self.dealt[dealer].shares[place])
                assert share is not None
                self._note(place, {dealer: share.seed}, "seed")
                self._note(place, {dealer: share.mask_key}, "mask key")

    def deal_to(self, place: int, others: Mapping[int, messages.Published]) -> Any:
        keys = {peer: said.keys for peer, said in others.items()}
        signatures = {peer: said.signature for peer, said in others.items()}
        return self.say(place, "train.deal", self.attempt, keys, signatures)

    def mask(self, views: Mapping[int, Collection[int]] | None = None) -> None:
        """Everybody uploads, masked with everybody, or with those that the server shows to it."""
        for place in self.dealt:
            answer = self.ask(place, (views or {}).get(place, self.dealt.keys() - {place}))
            assert isinstance(answer, messages.Masked), answer
            self.masked[place] = answer

    def ask(self, place: int, dealers: Collection[int]) -> Any:
        shares = {dealer: self.dealt[dealer].shares[place] for dealer in dealers}
        signatures = {dealer: self.dealt[dealer].signatures[place] for dealer in dealers}
        numbers = np.zeros(SHAPE), np.zeros(2), np.ones(2), 1.0
        return self.say(place, "train.mask", 0, *numbers, self.attempt, shares, signatures)

    def confirm(self, place: int, survivors: Collection[int]) -> Any:
        return self.say(place, "train.confirm", self.attempt, sorted(survivors))

    def unmask(self, place: int, signatures: Mapping[int, bytes]) -> Any:
        return self.say(place, "train.unmask", self.attempt, dict(signatures))

    def forged(self, survivors: Collection[int]) -> dict[int, bytes]:
        """What the colluders sign, which is anything."""
        return {
            place: sign_survivors(self.scope, self.made.sites[place].me, place, survivors)
            for place in self.colluders & set(survivors)
        }

    def show(self, stories: Mapping[int, Collection[int]]) -> list[str]:
        """Tell each honest site who survived, then show it all signatures there are on that; what they refuse."""
        signed: dict[frozenset[int], dict[int, bytes]] = {}
        refused = []
        for place, survivors in stories.items():
            answer = self.confirm(place, survivors)
            on_it = signed.setdefault(frozenset(survivors), self.forged(survivors))
            if isinstance(answer, messages.Refused):
                refused.append(answer.reason)
            else:
                on_it[place] = answer.signature
        for place, survivors in stories.items():
            answer = self.unmask(place, signed[frozenset(survivors)])
            if isinstance(answer, messages.Refused):
                refused.append(answer.reason)
                continue
            for owner, share in answer.shares.items():
                self._note(place, {owner: share}, "seed" if owner in survivors else "mask key")
        return refused

    def upload_of(self, victim: int, masked_with: Collection[int]) -> np.ndarray | None:
        """One site's upload without its masks, if the shares give what they are made of."""
        seed, own = self._secret(victim, "seed"), self._secret(victim, "mask key")
        if seed is None:
            return None
        context, vector = self.scope.context, self.masked[victim].upload
        vector = vector - self_mask(seed, vector.size, context)
        for peer in masked_with:
            key = self.secrets[peer].mask_key if peer in self.colluders else self._secret(peer, "mask key")
            if own is not None:
                vector -= pair_mask(own, self.public(peer), victim, peer, vector.size, context)
            elif key is not None:
                vector += pair_mask(key, self.public(victim), peer, victim, vector.size, context)
            else:
                return None
        return decode(vector, STEP).reshape(SHAPE)

    def has(self, victim: int, masked_with: Collection[int]) -> bool:
        """Whether the server has one site's upload."""
        found = self.upload_of(victim, masked_with)
        return found is not None and np.allclose(found, self.made.sites[victim].upload, rtol=0, atol=1e-9)

    @property
    def scope(self) -> Scope:
        return Scope(self.made.terms[0], self.round, self.attempt)

    def public(self, place: int) -> PublicKeys:
        return PublicKeys(self.published[place].keys)

    def _note(self, holder: int, shares: Mapping[int, bytes], which: str) -> None:
        for owner, share in shares.items():
            self.shares.setdefault((owner, which), {})[holder] = share

    def _secret(self, owner: int, which: str) -> bytes | None:
        shares, threshold = self.shares.get((owner, which), {}), self.made.members.threshold
        return combine_shares(list(shares.values())[:threshold]) if len(shares) >= threshold else None


def many_stories(server: TwoFaced, victim: int = 0) -> tuple[list[str], bool]:
    """Every site hears of other survivors, so that all who share masks with the victim seem to have dropped out.

    The victim masks with as few as it agrees to: all colluders, and some honest sites. Of each of these enough others
    reveal the mask key, and everybody reveals the victim's seed.

    Returns:
        What sites refused, and whether the server has the victim's upload.
    """
    members, threshold = len(server.everybody), server.made.members.threshold
    friends = sorted(server.honest - {victim})[: threshold - 1 - len(server.colluders)]
    view = {*friends, *server.colluders}
    server.publish()
    server.deal()
    server.mask({victim: view})
    gone = {place: set[int]() for place in server.honest - {victim}}
    for friend in friends:
        willing = sorted(gone.keys() - {friend}, key=lambda place: len(gone[place]))
        for place in willing[: threshold - len(server.colluders)]:
            gone[place].add(friend)
    assert all(len(dropped) <= members - threshold for dropped in gone.values())
    stories = {place: server.everybody - dropped for place, dropped in gone.items()} | {victim: view | {victim}}
    return server.show(stories), server.has(victim, view)


def two_halves(server: TwoFaced, victim: int = 0) -> tuple[list[str], bool]:
    """One half of the honest sites hears that the other has dropped out, the other the same of the first.

    With the colluders each half signs its own story, and reveals one of the victim's two secrets.
    """
    server.publish()
    server.deal()
    server.mask()
    honest = sorted(server.honest)
    first, second = set(honest[: len(honest) // 2]), set(honest[len(honest) // 2 :])
    stories = {place: (first if place in first else second) | server.colluders for place in honest}
    return server.show(stories), server.has(victim, server.everybody - {victim})
