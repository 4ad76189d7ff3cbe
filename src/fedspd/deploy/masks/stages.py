"""A site's part in a masked round, stage by stage. Its secrets live in its store, and each serves one attempt.

The site takes neither keys nor shares from a server's word: both are signed by the sites they come from, and the names
that the terms give to places are bound to keys by the site's own file.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedspd.deploy.masks.dispute import prove
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP, encode, rounded
from fedspd.deploy.masks.member import PublicKeys, Secrets, mask, new_secrets, public_keys
from fedspd.deploy.masks.shares import deal, reveal, unopened
from fedspd.deploy.masks.signed import Scope, keys_are_signed, share_is_signed, sign_keys, sign_share
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Identity, Members
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.store import Store, Stored
from fedspd.errors import InputError

Asked = messages.AskMasked | messages.MeasureMasked
Sent = Callable[[np.ndarray], np.ndarray]
"""What the server will make of a vector that travels as whole numbers."""

STEPS = {messages.AskMasked: STEP, messages.MeasureMasked: MOMENTS_STEP}


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


def check_members(terms: Terms, identity: Identity | None, members: Members | None) -> tuple[Identity, Members]:
    """Refuse a masked run with sites that this one does not know, or in which it is not the one it is called."""
    if identity is None or members is None:
        raise Refusal(
            "masks need the site's own key and its file of the federation's members, which are not here; "
            "set site.key and site.members."
        )
    strangers = [name for name in terms.members if name not in members]
    if strangers:
        raise Refusal(f"the run has sites that this one's file of members does not name: {', '.join(strangers)}.")
    name = terms.members[terms.place]
    if members[name] != identity.public:
        raise Refusal(f"the run calls this site {name!r}, which has another key in the site's file of members.")
    return identity, members


class Masking:
    """The stages, each of which a site plays once in an attempt.

    Args:
        store: open, in a turn.
        terms: of the run.
        identity: the site's own key.
        members: the federation's, from the site's own file.
    """

    def __init__(self, store: Store, terms: Terms, identity: Identity | None, members: Members | None) -> None:
        self.store, self.terms = store, terms
        self.identity, self.members = check_members(terms, identity, members)

    def exchange(self, request: messages.Exchange) -> messages.Published:
        """Fresh keys, signed."""
        attempt = Attempt(new_secrets().blob.hex())
        self._keep(request, attempt)
        keys = public_keys(_secrets(attempt))
        signature = sign_keys(self._scope(request), self.identity, self.terms.place, keys)
        return messages.Published(request.terms, request.round, keys, signature)

    def deal(self, request: messages.Deal) -> messages.Dealt:
        """Shares of the site's secrets for its neighbors, sealed and signed."""
        attempt, scope, me = self._attempt(request), self._scope(request), self.terms.place
        if attempt.keys or request.place != me:
            raise Refusal("shares are dealt once in an attempt, by the site they belong to.", final=False)
        self._require_signed(request.keys, request.signatures, "round keys", lambda place, keys, signature: (
            keys_are_signed(scope, self.members, place, keys, signature)
        ))  # fmt: skip
        keys = {place: PublicKeys(key) for place, key in request.keys.items()}
        shares = _public(lambda: deal(_secrets(attempt), me, keys, request.threshold))
        own = shares.pop(me)
        kept = replace(attempt, threshold=request.threshold, keys=_texts(request.keys), own=own.hex())
        self._keep(request, kept)
        signatures = {holder: sign_share(scope, self.identity, me, holder, sealed) for holder, sealed in shares.items()}
        return messages.Dealt(request.terms, request.round, shares, signatures)

    def answer(self, request: Asked, release: Callable[[Sent], Stored]) -> messages.Masked | messages.Complaint:
        """The upload under its masks, or a complaint about those whose shares are none.

        Args:
            request: a round, or the moments.
            release: makes the upload and pays for it; not called where anything stands against masking it.
        """
        attempt = self._ready(request)
        secrets, publics = _secrets(attempt), attempt.public(request.shares)
        bad = unopened(secrets, self.terms.place, request.shares, publics)
        if bad:
            proofs = {dealer: prove(secrets, publics[dealer]) for dealer in bad}
            return messages.Complaint(request.terms, request.round, proofs)
        step, summands = STEPS[type(request)], len(self.terms.sizes)
        stored = release(lambda upload: rounded(upload, step, summands))
        values = encode(np.frombuffer(stored.upload, "<f8"), step, summands)
        context = self._scope(request).context
        hidden = mask(secrets, self.terms.place, values, publics, attempt.threshold, context)
        self._keep(request, replace(attempt, shares=_texts(request.shares), masked=True))
        return messages.Masked(request.terms, request.round, hidden, stored.number)

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

    def _ready(self, request: Asked) -> Attempt:
        """The attempt that a masked round belongs to; refused before anything is spent."""
        attempt, scope, me = self._attempt(request), self._scope(request), self.terms.place
        strangers = {str(place) for place in request.shares} - set(attempt.keys)
        if attempt.masked or not attempt.keys or strangers or len(request.shares) + 1 < attempt.threshold:
            raise Refusal("an upload is masked once, with enough neighbors that have dealt.", final=False)
        self._require_signed(request.shares, request.signatures, "shares", lambda place, sealed, signature: (
            share_is_signed(scope, self.members, place, me, sealed, signature)
        ))  # fmt: skip
        return attempt

    def _require_signed(
        self, what: dict[int, bytes], signatures: dict[int, bytes], name: str, good: Callable[[int, bytes, bytes], bool]
    ) -> None:
        """Refuse what does not come from the site that the terms have at its place."""
        for place, content in what.items():
            if not 0 <= place < len(self.terms.members):
                raise Refusal(f"the run has no site at place {place}.", final=False)
            if not good(place, content, signatures.get(place, b"")):
                raise Refusal(f"the {name} of {self.terms.members[place]} are not signed by its key.", final=False)

    def _scope(self, request: Any) -> Scope:
        return Scope(self.terms, request.round, request.attempt)

    def _attempt(self, request: Any) -> Attempt:
        stored = self.store.secrets(self.terms.run, request.round, request.attempt)
        if stored is None:
            raise Refusal("the site has no keys for this attempt at a masked round.", final=False)
        return Attempt(**json.loads(stored))

    def _keep(self, request: Any, attempt: Attempt) -> None:
        content = json.dumps(asdict(attempt)).encode()
        self.store.keep_secrets(self.terms.run, request.round, request.attempt, content)


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
