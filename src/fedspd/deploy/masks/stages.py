"""A site's part in a masked round, stage by stage. Its secrets live in its store, and each serves one attempt."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedspd.deploy.masks.fixed_point import STEP, encode
from fedspd.deploy.masks.member import PublicKeys, Secrets, deal, mask, new_secrets, public_keys, reveal
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.store import Store
from fedspd.errors import InputError


@dataclass(frozen=True)
class Attempt:
    """One attempt at a masked round, as far as it has come; bytes are kept as hexadecimal text."""

    secrets: str = field(repr=False)
    threshold: int = 0
    keys: dict[str, str] = field(default_factory=dict)  # of the neighbors
    own: str = ""  # what the site dealt to itself
    shares: dict[str, str] = field(default_factory=dict)  # what neighbors dealt to the site
    masked: bool = False
    revealed: bool = False

    def public(self, places: Any) -> dict[int, PublicKeys]:
        """The keys of some neighbors."""
        return {int(place): PublicKeys(bytes.fromhex(self.keys[str(place)])) for place in places}


class Masking:
    """The stages, each of which a site plays once in an attempt."""

    def __init__(self, store: Store, terms: Terms) -> None:
        self.store, self.terms = store, terms

    def exchange(self, request: messages.Exchange) -> messages.Published:
        """Fresh keys."""
        attempt = Attempt(new_secrets().blob.hex())
        self._keep(request, attempt)
        return messages.Published(request.terms, request.round, public_keys(_secrets(attempt)))

    def deal(self, request: messages.Deal) -> messages.Dealt:
        """Shares of the site's secrets for its neighbors."""
        attempt = self._attempt(request)
        if attempt.keys or request.place != self.terms.place:
            raise Refusal("shares are dealt once in an attempt, by the site they belong to.", final=False)
        keys = {place: PublicKeys(key) for place, key in request.keys.items()}
        shares = _public(lambda: deal(_secrets(attempt), self.terms.place, keys, request.threshold))
        own = shares.pop(self.terms.place)
        kept = replace(attempt, threshold=request.threshold, keys=_texts(request.keys), own=own.hex())
        self._keep(request, kept)
        return messages.Dealt(request.terms, request.round, shares)

    def check(self, request: messages.AskMasked | messages.MeasureMasked) -> Attempt:
        """The attempt that a masked round belongs to; refused before anything is spent."""
        attempt = self._attempt(request)
        strangers = {str(place) for place in request.shares} - set(attempt.keys)
        if attempt.masked or not attempt.keys or strangers or len(request.shares) + 1 < attempt.threshold:
            raise Refusal("an upload is masked once, with enough neighbors that have dealt.", final=False)
        return attempt

    def mask(
        self, request: messages.AskMasked | messages.MeasureMasked, attempt: Attempt, upload: np.ndarray, number: int
    ) -> messages.Masked:
        """The upload under its masks."""
        values = encode(upload.ravel(), STEP, len(self.terms.sizes))
        neighbors = attempt.public(request.shares)
        context = context_of(self.terms.run, request.round, request.attempt)
        hidden = mask(_secrets(attempt), self.terms.place, values, neighbors, attempt.threshold, context)
        self._keep(request, replace(attempt, shares=_texts(request.shares), masked=True))
        return messages.Masked(request.terms, request.round, hidden, number)

    def unmask(self, request: messages.Unmask) -> messages.Unmasked:
        """Shares that remove the masks of neighbors: of each its own mask's, or those it has in common, never both."""
        attempt = self._attempt(request)
        if not attempt.masked or attempt.revealed:
            raise Refusal("shares are revealed once, after the site's own upload.", final=False)
        received = {int(place): bytes.fromhex(share) for place, share in attempt.shares.items()}
        received[self.terms.place] = bytes.fromhex(attempt.own)
        publics = attempt.public(attempt.shares)
        shares = _public(
            lambda: reveal(
                _secrets(attempt), self.terms.place, received, publics, request.survivors, request.dropped,
                attempt.threshold,
            )
        )  # fmt: skip
        self._keep(request, replace(attempt, revealed=True))
        return messages.Unmasked(request.terms, request.round, shares)

    def _attempt(self, request: Any) -> Attempt:
        stored = self.store.secrets(self.terms.run, request.round, request.attempt)
        if stored is None:
            raise Refusal("the site has no keys for this attempt at a masked round.", final=False)
        return Attempt(**json.loads(stored))

    def _keep(self, request: Any, attempt: Attempt) -> None:
        content = json.dumps(asdict(attempt)).encode()
        self.store.keep_secrets(self.terms.run, request.round, request.attempt, content)


def context_of(run: str, round: int, attempt: str) -> bytes:
    """What masks are made for, and for nothing else."""
    return json.dumps([run, round, attempt]).encode()


def _secrets(attempt: Attempt) -> Secrets:
    return Secrets(bytes.fromhex(attempt.secrets))


def _texts(content: dict[int, bytes]) -> dict[str, str]:
    return {str(place): value.hex() for place, value in content.items()}


def _public(act: Callable[[], dict[int, bytes]]) -> dict[int, bytes]:
    """The protocol's own refusals speak of places and keys, never of an upload."""
    try:
        return act()
    except InputError as error:
        raise Refusal(str(error), final=False) from None
