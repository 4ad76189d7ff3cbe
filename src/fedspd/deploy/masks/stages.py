"""A site's part in a masked round, stage by stage. Its secrets live in its store, and each serves one attempt.

The site takes neither keys nor shares nor who survived from a server's word: all are signed by the sites they come
from, the names that the terms give to places are bound to keys by the site's own file, and so are the threshold and
the number of colluders.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedspd.deploy.masks.dispute import prove
from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP, encode, rounded
from fedspd.deploy.masks.member import PublicKeys, Secrets, mask, new_secrets, public_keys
from fedspd.deploy.masks.shares import check_survivors, deal, reveal, unopened
from fedspd.deploy.masks.signed import (
    MOST_ATTEMPTS,
    Scope,
    keys_are_signed,
    share_is_signed,
    sign_keys,
    sign_share,
    sign_survivors,
    survivors_are_signed,
)
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import NAME, Identity, Members
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.store import Store, Stored
from fedspd.errors import InputError

Asked = messages.AskMasked | messages.MeasureMasked | messages.CountMasked
Step = messages.Exchange | messages.Deal | messages.Confirm | messages.Unmask
Sent = Callable[[np.ndarray], np.ndarray]
"""What the server will make of a vector that travels as whole numbers."""

STEPS = {messages.AskMasked: STEP, messages.MeasureMasked: MOMENTS_STEP, messages.CountMasked: MOMENTS_STEP}
ONCE = {0: "its moments", messages.COUNTS: "counts of its held-out records"}
"""What a run plans one release of, by the number of the masked round."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a masked round, as far as it has come; bytes are kept as hexadecimal text."""

    secrets: str = field(repr=False)
    keys: dict[str, str] = field(default_factory=dict)  # of the others
    own: str = field(default="", repr=False)  # what the site dealt to itself
    shares: dict[str, str] = field(default_factory=dict)  # what the others dealt to the site
    masked: bool = False
    survivors: tuple[int, ...] = ()  # whom the site has signed

    def public(self, places: Any) -> dict[int, PublicKeys]:
        """The keys of some of the others."""
        return {int(place): PublicKeys(bytes.fromhex(self.keys[str(place)])) for place in places}


def check_members(terms: Terms, identity: Identity | None, members: Members | None) -> tuple[Identity, Members]:
    """Refuse a masked run with sites that this one does not know, by another name, or with another threshold.

    Guarantees:
        A run has the threshold and the colluders of the site's own file, however many of its members take part: the
        file's numbers are right for all of them, so they are for fewer, as long as the threshold can be met.
    """
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
    file = members.threshold, members.colluders
    if not members.threshold:
        raise Refusal(
            "the site's file of members has no threshold, and masks need one; ask the operator for a new file."
        )
    if (terms.threshold, terms.colluders) != file:
        raise Refusal(
            f"at least {file[0]} sites are summed and {file[1]} may collude by the site's file of members, the run has "
            f"{terms.threshold} and {terms.colluders}."
        )
    if (terms.cohorts or (1,) * len(terms.members)) != tuple(members.cohort(name) for name in terms.members):
        raise Refusal("the run has other cohorts than the site's file of members.")
    if len(terms.beside) < members.threshold:
        raise Refusal(f"at least {file[0]} sites are summed here, the run has {len(terms.beside)}.")
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

    def step(self, request: Step) -> Any:
        """Whatever comes before the upload or after it."""
        match request:
            case messages.Exchange():
                return self.exchange(request)
            case messages.Deal():
                return self.deal(request)
            case messages.Confirm():
                return self.confirm(request)
            case messages.Unmask():
                return self.unmask(request)

    def exchange(self, request: messages.Exchange) -> messages.Published:
        """Fresh keys, signed; every other attempt of the run is over."""
        known = self.store.secrets(self.terms.run, request.round, request.attempt)
        if known is not None or not NAME.fullmatch(request.attempt):
            raise Refusal("keys are published once in an attempt, which has a short name.", final=False)
        self._require_another(request.round)
        attempt = Attempt(new_secrets().blob.hex())
        self._keep(request, attempt)
        keys = public_keys(_secrets(attempt))
        signature = sign_keys(self._scope(request), self.identity, self.terms.place, keys)
        return messages.Published(request.terms, request.round, keys, signature)

    def deal(self, request: messages.Deal) -> messages.Dealt:
        """Shares of the site's secrets for the others, sealed and signed."""
        attempt, scope, me = self._attempt(request), self._scope(request), self.terms.place
        if attempt.keys:
            raise Refusal("shares are dealt once in an attempt.", final=False)
        self._require_signed(request.keys, request.signatures, "round keys", lambda place, keys, signature: (
            keys_are_signed(scope, self.members, place, keys, signature)
        ))  # fmt: skip
        keys = {place: PublicKeys(key) for place, key in request.keys.items()}
        shares = _public(lambda: deal(_secrets(attempt), me, keys, self.members.threshold))
        own = shares.pop(me)
        self._keep(request, replace(attempt, keys=_texts(request.keys), own=own.hex()))
        signatures = {holder: sign_share(scope, self.identity, me, holder, sealed) for holder, sealed in shares.items()}
        return messages.Dealt(request.terms, request.round, shares, signatures)

    def answer(self, request: Asked, release: Callable[[Sent], Stored]) -> messages.Masked | messages.Complaint:
        """The upload under its masks, or a complaint about those whose shares are none.

        Args:
            request: a round, the moments, or counts.
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
        if self.terms.shares_noise:  # whole numbers already: rounded once more their noise would have another law
            values = np.frombuffer(stored.upload, "<u8")
        else:
            values = encode(np.frombuffer(stored.upload, "<f8"), step, summands)
        context = self._scope(request).context
        hidden = mask(secrets, self.terms.place, values, publics, self.members.threshold, context)
        self._keep(request, replace(attempt, shares=_texts(request.shares), masked=True))
        return messages.Masked(request.terms, request.round, hidden, stored.number)

    def confirm(self, request: messages.Confirm) -> messages.Confirmed:
        """A signature on whose uploads are to be summed: one set in an attempt, and no other."""
        attempt, me = self._attempt(request), self.terms.place
        if not attempt.masked or attempt.survivors:
            raise Refusal("survivors are signed once, after the site's own upload.", final=False)
        _public(lambda: check_survivors(me, request.survivors, attempt.public(attempt.shares), self.members.threshold))
        self._keep(request, replace(attempt, survivors=tuple(sorted(request.survivors))))
        signature = sign_survivors(self._scope(request), self.identity, me, request.survivors)
        return messages.Confirmed(request.terms, request.round, signature)

    def unmask(self, request: messages.Unmask) -> messages.Unmasked:
        """Shares that remove the masks of the sum that enough sites have signed; then the secrets are erased."""
        attempt = self._attempt(request)
        self._require_confirmed(request, attempt)
        received = {int(place): bytes.fromhex(share) for place, share in attempt.shares.items()}
        received[self.terms.place] = bytes.fromhex(attempt.own)
        publics = attempt.public(attempt.shares)
        shares = _public(
            lambda: reveal(
                _secrets(attempt), self.terms.place, received, publics, attempt.survivors, self.members.threshold
            )
        )
        self.store.erase_secrets(self.terms.run)
        return messages.Unmasked(request.terms, request.round, shares)

    def _require_confirmed(self, request: messages.Unmask, attempt: Attempt) -> None:
        """Refuse to reveal before so many sites as the threshold have signed the set that this site signed."""
        if not attempt.survivors:
            raise Refusal("shares are revealed once, after the site has signed who is summed.", final=False)
        scope = self._scope(request)
        signed = [
            place
            for place, signature in request.signatures.items()
            if place in attempt.survivors
            and survivors_are_signed(scope, self.members, place, attempt.survivors, signature)
        ]
        if len(signed) < self.members.threshold:
            raise Refusal(
                f"{len(signed)} sites have signed the survivors that this one signed, {self.members.threshold} are "
                "needed before anything is revealed.",
                final=False,
            )

    def _require_another(self, round: int) -> None:
        """Refuse attempts without end: each in which the site uploads is charged, and some are planned once."""
        masked = self.store.masked_attempts(self.terms.run, round)
        if round in ONCE and masked:
            raise Refusal(f"the site has released {ONCE[round]}, and the run plans no second release; start a new run.")
        if masked >= MOST_ATTEMPTS:
            raise Refusal(f"round {round} was masked here in {MOST_ATTEMPTS} attempts; there are no more.")

    def _ready(self, request: Asked) -> Attempt:
        """The attempt that a masked round belongs to; refused before anything is spent."""
        attempt, scope, me = self._attempt(request), self._scope(request), self.terms.place
        strangers = {str(place) for place in request.shares} - set(attempt.keys)
        if attempt.masked or not attempt.keys or strangers or len(request.shares) + 1 < self.members.threshold:
            raise Refusal("an upload is masked once, with enough others that have dealt.", final=False)
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
            if place not in self.terms.beside:
                raise Refusal(f"{self.terms.members[place]} is in another cohort than this site.", final=False)
            if not good(place, content, signatures.get(place, b"")):
                raise Refusal(f"the {name} of {self.terms.members[place]} are not signed by its key.", final=False)

    def _scope(self, request: Any) -> Scope:
        return Scope(self.terms, request.round, request.attempt)

    def _attempt(self, request: Any) -> Attempt:
        stored = self.store.secrets(self.terms.run, request.round, request.attempt)
        if not stored:
            raise Refusal("the site has no keys for this attempt at a masked round, or it is over.", final=False)
        values = json.loads(stored)
        return Attempt(**values | {"survivors": tuple(values["survivors"])})

    def _keep(self, request: Any, attempt: Attempt) -> None:
        content = json.dumps(asdict(attempt)).encode()
        self.store.keep_secrets(self.terms.run, request.round, request.attempt, attempt.masked, content)


def _secrets(attempt: Attempt) -> Secrets:
    return Secrets(bytes.fromhex(attempt.secrets))


def _texts(content: dict[int, bytes]) -> dict[str, str]:
    return {str(place): value.hex() for place, value in content.items()}


def _public(act: Callable[[], Any]) -> Any:
    """The protocol's own refusals speak of places and keys, never of an upload."""
    try:
        return act()
    except InputError as error:
        raise Refusal(str(error), final=False) from None
