"""A site answers a server: every release is allowed, paid for and remembered before it is sent."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fedspd import __version__
from fedspd.assemble import Agreed
from fedspd.data import Schema, Table, read_schema
from fedspd.deploy.masks.stages import Masking, check_members
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.terms import SECURE, Terms, agreement_of, digest_of, read_terms
from fedspd.deploy.site.approval import awaited, require_name
from fedspd.deploy.site.local import first_state, measure, moments_scale, play_round, round_scale
from fedspd.deploy.site.memory import from_bytes, to_bytes
from fedspd.deploy.site.parts import part_of_moments, part_of_round
from fedspd.deploy.site.policy import Refusal, check_ask, check_terms
from fedspd.deploy.site.records import Records
from fedspd.deploy.site.rehearsal import rehearse
from fedspd.deploy.site.settings import Site
from fedspd.deploy.site.spending import MOMENTS, EnteredRun, Session, Spending
from fedspd.deploy.site.store import Store, Stored, StoredRun, digest_of_ask
from fedspd.errors import InputError
from fedspd.privacy.accounting import Event

HERE = Session()
"""Of a site that answers within this process."""
Line = Callable[[str], None]
"""Where a site writes what happened: never a number that was computed from records."""


class Client:
    """A site at work, for one message.

    Guarantees:
        A request that is refused has cost nothing.
        A release is charged durably before the records are used, and remembered durably before it is returned.
        The very same request is answered with the very same reply and costs nothing more.

    Args:
        site: the owner's file.
        store: open.
        log: says what happened.
        records: what an earlier message has read already.
        session: of the process that leads the site.
    """

    def __init__(
        self, site: Site, store: Store, log: Line, records: Records | None = None, session: Session | None = None
    ) -> None:
        self.site, self.store, self.log = site, store, log
        self.records, self.session = records or Records(), session or HERE
        self.schema: Schema = read_schema(site.path("schema"))
        self.spending: Spending | None = None

    def answer(self, request: Any) -> Any:
        """Whatever the request asks for, or `Refusal`."""
        with self.store.turn(), ExitStack() as stack:
            if self.site.budget is not None:
                self.spending = Spending(self.site, self.store, self.session, self.log)
                stack.callback(self.spending.close)
            return self._answer(request)

    def _answer(self, request: Any) -> Any:
        match request:
            case messages.Hello():
                return self.hello(request)
            case messages.Enter():
                return self.enter(request)
            case messages.Measure():
                return self.measure(request)
            case messages.Ask():
                return self.play(request)
            case messages.Close():
                return self.close(request)
            case messages.AskMasked():
                return self.play_masked(request)
            case messages.MeasureMasked():
                return self.measure_masked(request)
            case messages.Exchange() | messages.Deal() | messages.Confirm() | messages.Unmask():
                return self._masking(request).step(request)
        raise Refusal("this kind of request is not known here; update both sides.")

    def hello(self, request: messages.Hello) -> messages.Present:
        """Who the site is and how many records it holds, signed."""
        if request.version != messages.VERSION:
            raise Refusal(
                f"the site speaks version {messages.VERSION}, the server {request.version}; update both sides."
            )
        said = messages.Present(self.site.name, len(self._table()), self.schema.digest, __version__, b"")
        self.log(f"a server asked who is there: {said.records} records told")
        return said._replace(
            signature=read_identity(self.site.path("key")).sign(
                "present", *messages.signed_presence(said, request.nonce)
            )
        )

    def enter(self, request: messages.Enter) -> messages.Entered | messages.Waiting:
        """Agree to a run's terms, or refuse them; nothing is spent."""
        try:
            terms = read_terms(request.terms)
            agreed = agreed_on(terms.text, self.schema)
        except InputError as error:  # of public numbers
            raise Refusal(str(error)) from None
        check_terms(self.site, terms, agreed, self.schema, len(self._table()))
        known = self.store.run(terms.run)
        if known is None:
            waiting = self._enter(EnteredRun(terms, agreed))
            if waiting is not None:
                return messages.Waiting(waiting)
        elif known.terms != terms.text:
            raise Refusal(f"a run named {terms.run!r} was entered under other terms; name the run anew.")
        return messages.Entered(terms.digest, agreement_of(agreed), __version__)

    def _enter(self, entered: EnteredRun) -> str | None:
        """Enter a run, or say what it waits for."""
        if entered.terms.aggregation == SECURE:
            check_members(entered.terms, *self.site.signing)
        if self.spending is not None:
            self.spending.require_room(entered)
        waiting = awaited(self.site, self.store, entered.terms, entered.agreed.plan)
        if waiting is not None:
            self.log(f"run {entered.terms.base_name}: waits for a person, `fedspd deploy approve` answers")
            return waiting
        rehearse(entered.terms, entered.agreed, self.schema)
        self.store.enter(StoredRun(entered.run, entered.terms.text, self._fingerprint()))
        self.log(f"run {entered.run}: entered under terms {entered.terms.digest}")
        return None

    def measure(self, request: messages.Measure) -> messages.Measured:
        """Release the noised moments of the site's columns."""
        entered = self._entered(request.terms)
        if entered.terms.aggregation == SECURE:
            raise Refusal("the run's aggregation is 'secure', the moments are asked for without masks.")
        stored = self.measured(entered)
        return messages.Measured(request.terms, np.frombuffer(stored.upload, "<f8"), stored.number)

    def measured(self, entered: EnteredRun, sent: Callable[[np.ndarray], np.ndarray] = lambda sums: sums) -> Stored:
        """The site's moments: the stored ones, or new ones that are charged."""
        group = entered.group
        if group is None or group.moments is None:
            raise Refusal("the terms of the run have no release of moments.")
        if entered.terms.shares_noise:
            return self._part(entered, 0, MOMENTS, partial(part_of_moments, entered.terms, entered.agreed, self.schema))
        stored = self.store.repeated(entered.run, MOMENTS)
        if stored is None:
            table, scale = self._frozen_table(entered), moments_scale(entered.terms, entered.agreed, self.schema)
            number = self._charge(entered, group.moments, MOMENTS)
            sums = sent(measure(entered.terms, entered.agreed, self.schema, table, scale))
            stored = Stored(number, 0, MOMENTS, to_bytes(sums), b"")
            self._keep(entered, stored, None)
            self.log(f"run {entered.run}: released moments, {self._paid(entered, number)}")
        return stored

    def play(self, request: messages.Ask) -> messages.Reply:
        """Play a round."""
        entered = self._entered(request.terms)
        check_ask(self.site, entered.terms, entered.agreed, self.schema, request)
        stored = self.released(entered, request)
        upload = np.frombuffer(stored.upload, "<f8").reshape(request.weights.shape)
        return messages.Reply(request.terms, request.round, upload, stored.number)

    def play_masked(self, request: messages.AskMasked) -> messages.Masked | messages.Complaint:
        """Play a round and mask the upload, or complain about those who keep the site from it."""
        entered = self._entered(request.terms)
        check_ask(self.site, entered.terms, entered.agreed, self.schema, request)
        return self._masking(request).answer(request, lambda sent: self.released(entered, request, sent))

    def measure_masked(self, request: messages.MeasureMasked) -> messages.Masked | messages.Complaint:
        """Release the moments, masked, or complain about those who keep the site from it."""
        entered = self._entered(request.terms)
        if request.round != 0:  # whose upload is masked once
            raise Refusal(f"moments are asked for before round 1, got round {request.round}.")
        return self._masking(request).answer(request, lambda sent: self.measured(entered, sent))

    def _masking(self, request: Any) -> Masking:
        terms = self._terms(request.terms)
        if terms.aggregation != SECURE:
            raise Refusal("the run's uploads are not masked.")
        return Masking(self.store, terms, *self.site.signing)

    def released(
        self, entered: EnteredRun, ask: Any, sent: Callable[[np.ndarray], np.ndarray] = lambda upload: upload
    ) -> Stored:
        """The reply to a round that was asked for: the stored one, or a new one that is charged.

        Args:
            entered: the run.
            ask: the round, checked.
            sent: what the server will make of an upload that travels as whole numbers.
        """
        digest, last = digest_of_ask(ask), self.store.last(entered.run)[1]
        stored = self.store.repeated(entered.run, digest)
        if stored is not None and not entered.terms.shares_noise:
            self.log(f"run {entered.run}, round {ask.round}: asked again, same reply")
            return stored
        if ask.round < last:
            raise Refusal(f"round {ask.round} is over: the site has answered round {last}.", final=False)
        if entered.terms.shares_noise:
            make = partial(part_of_round, entered.terms, entered.agreed, self.records, ask)
            return self._part(entered, ask.round, digest, make)
        held, state = self._held(entered, ask), self._state(entered)
        scale = round_scale(entered.terms, entered.agreed, ask, state)
        table, group = self._frozen_table(entered), entered.group
        number = self._charge(entered, None if group is None else group.event, entered.terms.config.algorithm.name)
        played = play_round(entered.terms, entered.agreed, self.records, table, ask, state, scale)
        reply = np.asarray(played.replies)[0]
        upload = sent(reply - held if entered.agreed.algorithm.keeps_replies else reply)
        stored = Stored(number, ask.round, digest, to_bytes(upload), to_bytes(held + upload))
        self._keep(entered, stored, to_bytes(played.client))
        self.log(f"run {entered.run}, round {ask.round}: played, {self._paid(entered, number)}")
        return stored

    def _part(self, entered: EnteredRun, round: int, request: str, make: Callable[[Table], np.ndarray]) -> Stored:
        """The site's part of a sum, paid for; nothing of what is in it is kept, for it is sent once, under masks."""
        if self.store.repeated(entered.run, request) is not None:
            raise Refusal("a part of a sum is made once, and nothing of it is kept.", final=False)
        table, group, method = self._frozen_table(entered), entered.group, entered.terms.config.algorithm.name
        number = self._charge(entered, *((group.event, method) if round else (group.moments, MOMENTS)))
        numbers, kept = make(table), Stored(number, round, request, b"", b"")
        self._keep(entered, kept, None)
        self.log(f"run {entered.run}, round {round}: a part of a sum, {self._paid(entered, number)}")
        return kept._replace(upload=numbers.astype("<u8").tobytes())

    def close(self, request: messages.Close) -> messages.Closed:
        """What the run was charged here, and what that costs by itself."""
        entered = self._entered(request.terms)
        if self.spending is None:
            charges, epsilon = self.store.last(entered.run)[0], float("nan")
        else:
            charges, epsilon = self.spending.cost(entered)
        self.log(f"run {entered.run}: over, {charges} charges")
        return messages.Closed(request.terms, charges, epsilon)

    def _entered(self, digest: str) -> EnteredRun:
        terms = self._terms(digest)
        return EnteredRun(terms, agreed_on(terms.text, self.schema))

    def _terms(self, digest: str) -> Terms:
        for run in self.store.runs():
            if digest_of(run.terms) == digest:
                return read_terms(run.terms)
        raise Refusal("the site has not entered a run under these terms.")

    def _charge(self, entered: EnteredRun, event: Event | None, mechanism: str) -> int:
        """Pay for a release; the number of the site's charges in the run, this one included."""
        if self.spending is None:
            return 1 + self.store.last(entered.run)[0]
        self._require_still_allowed(entered)
        return self.spending.charge(entered, event, mechanism)

    def _require_still_allowed(self, entered: EnteredRun) -> None:
        """What the owner changes in the site's file, or in the schema, holds from the next charge on."""
        check_terms(self.site, entered.terms, entered.agreed, self.schema, len(self._table()))
        require_name(self.site, entered.terms)

    def _keep(self, entered: EnteredRun, reply: Stored, state: bytes | None) -> None:
        self.store.keep(entered.run, reply, state)
        if self.spending is not None:
            self.spending.kept()

    def _paid(self, entered: EnteredRun, number: int) -> str:
        return f"reply {number}" if self.spending is None else self.spending.words(entered, number)

    def _held(self, entered: EnteredRun, ask: Any) -> np.ndarray:
        """What the server holds of the site: the total of the reply it names."""
        if ask.acknowledged == 0 or not entered.agreed.algorithm.keeps_replies:
            return np.zeros_like(ask.weights)
        stored = self.store.reply(entered.run, ask.acknowledged)
        if stored is None or stored.round == 0:
            raise Refusal(f"the server names reply {ask.acknowledged}, which was never made.")
        return np.frombuffer(stored.total, "<f8").reshape(ask.weights.shape)

    def _state(self, entered: EnteredRun) -> Any:
        first, stored = first_state(entered.terms, entered.agreed, self.schema), self.store.state(entered.run)
        return first if stored is None else from_bytes(first, stored)

    def _table(self) -> Table:
        return self.records.table(self.site.path("data"), self.schema)

    def _frozen_table(self, entered: EnteredRun) -> Table:
        run = self.store.run(entered.run)
        if run is None or run.records != self._fingerprint():
            raise Refusal("the site's records have changed since the run was entered; start a new run.")
        return self._table()

    def _fingerprint(self) -> str:
        return self.records.fingerprint(self.site.path("data"), self.schema)


@lru_cache(maxsize=4)  # calibrating noise may take a second, and every message of a run needs it
def agreed_on(terms: str, schema: Schema) -> Agreed[Any]:
    """Method and plan of a run, derived once."""
    return read_terms(terms).agreed(schema)
