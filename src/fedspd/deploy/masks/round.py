"""A masked round from the server's side: it learns the sum of the uploads and no single one.

Five exchanges: keys, shares of secrets, masked uploads, signatures on whose uploads arrived, shares that unmask their
sum. A site may drop out in any of them; the difference it could not deliver is contained in its next one. A site that
does not do as it should is found out, named with a reason, and left out; where that leaves too few there is another
attempt without it, which costs those who have masked an upload another charge. Silence is no fault.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedspd.deploy.masks.dispute import is_true
from fedspd.deploy.masks.fixed_point import decode
from fedspd.deploy.masks.member import PublicKeys, points
from fedspd.deploy.masks.server import unmask
from fedspd.deploy.masks.shares import SEALED_BYTES
from fedspd.deploy.masks.signed import (
    MOST_ATTEMPTS,
    Scope,
    keys_are_signed,
    share_is_signed,
    survivors_are_signed,
)
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Members
from fedspd.deploy.protocol.terms import Terms
from fedspd.errors import InputError

Exchange = Callable[[str, Mapping[int, Any]], dict[int, Any]]
"""Sends each place a request of some kind and gives back replies and complaints, by place."""


class Parcels(NamedTuple):
    """Sealed shares by place, and their dealers' signatures."""

    shares: dict[int, bytes]
    signatures: dict[int, bytes]


class Round(NamedTuple):
    """What is summed: a round of uploads, or the moments before the first one."""

    number: int
    digests: dict[int, str]  # of the terms of each place that is asked
    kind: str  # of the message that asks for a masked vector
    request: Callable[[int, str, Parcels], Any]  # it, for a place, an attempt and the others' shares
    refuses: Callable[[int, messages.Masked], str | None]  # why a masked reply is not what was asked for
    step: float  # of the vectors
    terms: Terms  # of any place
    members: Members  # all that the terms name
    quorum: int = 1  # fewest vectors that are of use; never fewer than the threshold are summed

    @property
    def fewest(self) -> int:
        """How many must stay to the end."""
        return max(self.terms.threshold, self.quorum)


class Sum(NamedTuple):
    """What a masked round gives."""

    total: np.ndarray  # flat
    numbers: dict[int, int]  # of each reply in the sum, by place


class Outcome(NamedTuple):
    """What came of a masked round."""

    sum: Sum | None
    culprits: dict[int, str]  # who did not do as it should, and what it did
    why: str = ""  # there is no sum


class Group(NamedTuple):
    """Who masks with each other in an attempt."""

    publics: dict[int, PublicKeys]  # of all who dealt
    dealt: dict[int, Parcels]  # by dealer, for its holders

    def received(self, place: int) -> Parcels:
        """What the others have dealt to a site."""
        dealers = [peer for peer in self.publics if peer != place]
        return Parcels(
            {peer: self.dealt[peer].shares[place] for peer in dealers},
            {peer: self.dealt[peer].signatures[place] for peer in dealers},
        )


class NoSum(Exception):  # noqa: N818 (nobody need be at fault)
    """An attempt has come to nothing, for a reason."""


def sum_securely(round: Round, exchange: Exchange) -> Outcome:
    """The sum of the vectors of those who stayed to the end, and who was left out for what it did.

    Guarantees:
        There is another attempt only where somebody was found out in the last one, and none beyond a sum.
        Fewer vectors than the threshold, or than `quorum`, are never unmasked.
    """
    culprits, why = dict[int, str](), ""
    for _ in range(MOST_ATTEMPTS):
        attempt = Try(round, exchange, [place for place in round.digests if place not in culprits])
        try:
            return Outcome(attempt.sum(), culprits | attempt.culprits)
        except NoSum as reason:
            culprits, why = culprits | attempt.culprits, str(reason)
        if not attempt.culprits:
            break
    return Outcome(None, culprits, why)


class Try:
    """One attempt at a masked round, with fresh keys."""

    def __init__(self, round: Round, exchange: Exchange, places: list[int]) -> None:
        self.round, self.exchange, self.places = round, exchange, places
        self.scope = Scope(round.terms, round.number, secrets.token_hex(8))
        self.culprits: dict[int, str] = {}

    def sum(self) -> Sum:
        """Keys, shares, vectors, signatures on whose they are, and the shares that unmask their sum."""
        self._enough(self.places, "may take part")
        group = self._dealt(self._published())
        replies = self._replies(group)
        revealed = self._revealed(group, self._confirmed(replies))
        total = self._total(group, {place: reply.upload for place, reply in replies.items()}, revealed)
        return Sum(decode(total, self.round.step), {place: reply.charges for place, reply in replies.items()})

    def _published(self) -> dict[int, messages.Published]:
        """Keys that are points of the curve, and signed."""
        number, digests = self.round.number, self.round.digests
        asked = {place: messages.Exchange(digests[place], number, self.scope.attempt) for place in self.places}
        published = {
            place: answer
            for place, answer in self.exchange("train.exchange", asked).items()
            if self._fine(place, _on_curve(answer.keys), "its round keys are no points of the curve")
            and self._fine(
                place,
                keys_are_signed(self.scope, self.round.members, place, answer.keys, answer.signature),
                "its round keys are not signed by its key",
            )
        }
        self._enough(published, "published keys")
        return published

    def _dealt(self, published: Mapping[int, messages.Published]) -> Group:
        """Whoever gets through keys and shares takes part."""
        others = {place: published.keys() - {place} for place in published}
        asked = {
            place: messages.Deal(
                self.round.digests[place], self.round.number, self.scope.attempt,
                {peer: published[peer].keys for peer in others[place]},
                {peer: published[peer].signature for peer in others[place]},
            )
            for place in published
        }  # fmt: skip
        dealt = {
            place: Parcels(answer.shares, answer.signatures)
            for place, answer in self.exchange("train.deal", asked).items()
            if self._fine(place, _asked_for(answer, others[place]), "it dealt other shares than it was asked for")
            and self._fine(place, _of_one_length(answer), f"a share it dealt does not have {SEALED_BYTES} bytes")
            and self._fine(place, self._signed(place, answer), "the shares it dealt are not signed by its key")
        }
        self._enough(dealt, "dealt shares")
        return Group({place: PublicKeys(published[place].keys) for place in dealt}, dealt)

    def _signed(self, place: int, dealt: messages.Dealt) -> bool:
        return all(
            share_is_signed(self.scope, self.round.members, place, holder, sealed, dealt.signatures.get(holder, b""))
            for holder, sealed in dealt.shares.items()
        )

    def _replies(self, group: Group) -> dict[int, messages.Masked]:
        """Masked vectors; where shares were none, whoever is to blame is left out like one that dropped out."""
        round, attempt = self.round, self.scope.attempt
        asked = {place: round.request(place, attempt, group.received(place)) for place in group.publics}
        answers = self.exchange(round.kind, asked)
        complaints = {place: answer for place, answer in answers.items() if isinstance(answer, messages.Complaint)}
        self._judge(group, complaints)
        replies = {}
        for place, reply in answers.items():
            if place in complaints or place in self.culprits:
                continue
            why = round.refuses(place, reply)
            if self._fine(place, why is None, f"its masked upload is rejected: {why}"):
                replies[place] = reply
        self._enough(replies, "sent masked uploads")
        return replies

    def _judge(self, group: Group, complaints: Mapping[int, messages.Complaint]) -> None:
        """Blame whoever dealt a share that is none, as its holder has proved, or who complained without reason."""
        for holder, complaint in complaints.items():
            self._fine(holder, bool(complaint.proofs), "it complained about nobody")
            for dealer, proof in complaint.proofs.items():
                known = dealer != holder and dealer in group.dealt
                if known and is_true(
                    proof, holder, dealer, group.dealt[dealer].shares[holder], group.publics[holder],
                    group.publics[dealer],
                ):  # fmt: skip
                    self._fine(dealer, False, f"the share it dealt to {self.scope.name(holder)} is none")
                else:
                    about = self.scope.name(dealer) if known else "somebody else"
                    self._fine(holder, False, f"it complained about {about} without reason")

    def _confirmed(self, survivors: Mapping[int, Any]) -> dict[int, bytes]:
        """Signatures on who is to be summed, by those who are."""
        number, digests, listed = self.round.number, self.round.digests, sorted(survivors)
        asked = {place: messages.Confirm(digests[place], number, self.scope.attempt, listed) for place in listed}
        signatures = {
            place: answer.signature
            for place, answer in self.exchange("train.confirm", asked).items()
            if self._fine(
                place,
                survivors_are_signed(self.scope, self.round.members, place, listed, answer.signature),
                "who is to be summed is not signed by its key",
            )
        }
        self._enough(signatures, "signed who is to be summed", self.round.terms.threshold)
        return signatures

    def _revealed(self, group: Group, signatures: dict[int, bytes]) -> dict[int, dict[int, bytes]]:
        """Shares of everybody who dealt, from those who have signed."""
        number, digests = self.round.number, self.round.digests
        asked = {place: messages.Unmask(digests[place], number, self.scope.attempt, signatures) for place in signatures}
        return {
            place: answer.shares
            for place, answer in self.exchange("train.unmask", asked).items()
            if self._fine(
                place, answer.shares.keys() == group.publics.keys(), "it revealed other shares than it was asked for"
            )
        }

    def _total(
        self, group: Group, masked: Mapping[int, np.ndarray], revealed: Mapping[int, Mapping[int, bytes]]
    ) -> np.ndarray:
        sealed = {place: parcels.shares for place, parcels in group.dealt.items()}
        threshold = self.scope.terms.threshold
        opened = unmask(masked, group.publics, sealed, revealed, threshold, self.scope.context)
        for holder, owner in opened.wrong.items():
            self._fine(holder, False, f"it revealed a wrong share of {self.scope.name(owner)}")
        for owner in opened.faked:
            self._fine(owner, False, "the shares it dealt do not give what it published")
        if opened.total is None:
            missing = ", ".join(self.scope.name(owner) for owner in (*opened.faked, *opened.lacking))
            raise NoSum(f"there are not {threshold} right shares of {missing}")
        return opened.total

    def _fine(self, place: int, fine: bool, otherwise: str) -> bool:
        """Whether a site did as it should; what it did otherwise is remembered, the first thing only."""
        if not fine:
            self.culprits.setdefault(place, otherwise)
        return fine

    def _enough(self, places: Any, did: str, fewest: int = 0) -> None:
        fewest = fewest or self.round.fewest
        if len(places) < fewest:
            raise NoSum(f"{len(places)} sites {did}, {fewest} are needed")


def _asked_for(dealt: messages.Dealt, holders: set[int]) -> bool:
    return dealt.shares.keys() == holders >= dealt.signatures.keys()


def _of_one_length(dealt: messages.Dealt) -> bool:
    """Whether shares are as long as shares are: a longer one could be more than its holder's mail takes."""
    return all(len(sealed) == SEALED_BYTES for sealed in dealt.shares.values())


def _on_curve(keys: bytes) -> bool:
    try:
        points(PublicKeys(keys))
    except InputError:
        return False
    return True
