"""A site answers a server: every release is allowed, paid for and remembered before it is sent."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from fedspd import __version__
from fedspd.data import Schema, read_schema
from fedspd.deploy.masks.stages import Masking
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.agreement import agreed_on, agreement_of
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.terms import SECURE, read_terms
from fedspd.deploy.site.approval import require_name
from fedspd.deploy.site.computing.local import measure, moments_scale, play_round, round_scale
from fedspd.deploy.site.computing.measuring import count, counts_scale
from fedspd.deploy.site.computing.parts import part_of_counts, part_of_moments, part_of_round
from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.computing.tables import Cut, Tables
from fedspd.deploy.site.entering import enter_run, entered_under, held_by_server, standing
from fedspd.deploy.site.memory import to_bytes
from fedspd.deploy.site.policy import Refusal, check_ask, check_count, check_terms, counted
from fedspd.deploy.site.settings import Site
from fedspd.deploy.site.spending import MOMENTS, EnteredRun, Session, Spending
from fedspd.deploy.site.store import Store, Stored, digest_of_ask, digest_of_count
from fedspd.errors import InputError
from fedspd.privacy.accounting import Event
from fedspd.results.counted import counted as told
from fedspd.typing import EVALUATION

HERE = Session()
"""Of a site that answers within this process."""
WORDS = {MOMENTS: "moments", EVALUATION: "counts of held-out records"}
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
        self.tables = Tables(site.path("data"), self.schema, self.records)
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
            case messages.Count():
                return self.count(request)
            case messages.CountMasked():
                return self.count_masked(request)
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
        said = messages.Present(self.site.name, self._count(request.unit), self.schema.digest, __version__, b"")
        self.log(f"a server asked who is there: {told(said.records, request.unit)} told")
        key = read_identity(self.site.path("key"))
        return said._replace(signature=key.sign("present", *messages.signed_presence(said, request.nonce)))

    def enter(self, request: messages.Enter) -> messages.Entered | messages.Waiting:
        """Agree to a run's terms, or refuse them; nothing is spent."""
        try:
            terms = read_terms(request.terms)
            agreed = agreed_on(terms.text, self.schema)
        except InputError as error:  # of public numbers
            raise Refusal(str(error)) from None
        check_terms(self.site, terms, agreed, self.schema, self._count(terms.unit))
        known = self.store.run(terms.run)
        if known is None:
            waiting = enter_run(self.site, self.store, self.spending, self.tables, self.log, EnteredRun(terms, agreed))
            if waiting is not None:
                return messages.Waiting(waiting)
        elif known.terms != terms.text:
            raise Refusal(f"a run named {terms.run!r} was entered under other terms; name the run anew.")
        return messages.Entered(terms.digest, agreement_of(agreed), __version__)

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
        scale, schema = moments_scale(*entered, self.schema), self.schema
        return self._once(
            entered, MOMENTS, (group.moments, MOMENTS), lambda cut: part_of_moments(*entered, schema, cut.trained),
            lambda cut: sent(measure(*entered, schema, cut.trained, scale)),
        )  # fmt: skip

    def counted(
        self, entered: EnteredRun, request: Any, sent: Callable[[np.ndarray], np.ndarray] = lambda counts: counts
    ) -> Stored:
        """The site's counts by a model that was checked: the stored ones, or new ones that are charged."""
        scale, schema = counts_scale(*entered, self.schema), self.schema
        return self._once(
            entered, digest_of_count(request), (entered.counts, EVALUATION),
            lambda cut: part_of_counts(*entered, schema, cut.apart, request),
            lambda cut: sent(count(*entered, schema, cut.apart, request, scale)),
        )  # fmt: skip

    def _once(
        self, entered: EnteredRun, request: str, paid: tuple[Any, str], part: Callable[[Cut], np.ndarray],
        whole: Callable[[Cut], np.ndarray],
    ) -> Stored:  # fmt: skip
        """What a run plans one release of: a part of a sum, or the release that is stored, or a new one, charged."""
        if entered.terms.shares_noise:
            return self._part(entered, 0, request, paid, part)
        stored = self.store.repeated(entered.run, request)
        if stored is None:
            cut = self._halves(entered)
            number = self._charge(entered, *paid)
            stored = Stored(number, 0, request, to_bytes(whole(cut)), b"")
            self._keep(entered, stored, None)
            self.log(f"run {entered.run}: released {WORDS[paid[1]]}, {self._paid(entered, number)}")
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
        terms = self._entered(request.terms).terms
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
            paid = entered.group.event, entered.terms.config.algorithm.name
            return self._part(
                entered, ask.round, digest, paid, lambda cut: part_of_round(*entered, self.records, ask, cut.trained)
            )
        held, state = held_by_server(self.store, entered, ask), standing(self.store, entered, self.schema)
        scale = round_scale(entered.terms, entered.agreed, ask, state)
        table, group = self._halves(entered).trained, entered.group
        number = self._charge(entered, None if group is None else group.event, entered.terms.config.algorithm.name)
        played = play_round(entered.terms, entered.agreed, self.records, table, ask, state, scale)
        reply = np.asarray(played.replies)[0]
        upload = sent(reply - held if entered.agreed.algorithm.keeps_replies else reply)
        stored = Stored(number, ask.round, digest, to_bytes(upload), to_bytes(held + upload))
        self._keep(entered, stored, to_bytes(played.client))
        self.log(f"run {entered.run}, round {ask.round}: played, {self._paid(entered, number)}")
        return stored

    def count(self, request: messages.Count) -> messages.Counted:
        """Release noised counts of the records that were held out."""
        entered = self._entered(request.terms)
        check_count(entered.terms, entered.agreed, self.schema, request)
        stored = self.counted(entered, request)
        return messages.Counted(request.terms, np.frombuffer(stored.upload, "<f8"), stored.number)

    def count_masked(self, request: messages.CountMasked) -> messages.Masked | messages.Complaint:
        """The same under masks, or a complaint about those who keep the site from it."""
        entered = self._entered(request.terms)
        check_count(entered.terms, entered.agreed, self.schema, request)
        return self._masking(request).answer(request, lambda sent: self.counted(entered, request, sent))

    def _part(
        self, entered: EnteredRun, round: int, request: str, paid: tuple[Any, str], make: Callable[[Cut], np.ndarray]
    ) -> Stored:
        """The site's part of a sum, paid for; nothing of what is in it is kept, for it is sent once, under masks."""
        if self.store.repeated(entered.run, request) is not None:
            raise Refusal("a part of a sum is made once, and nothing of it is kept.", final=False)
        cut = self._halves(entered)
        number = self._charge(entered, *paid)
        numbers, kept = make(cut), Stored(number, round, request, b"", b"")
        self._keep(entered, kept, None)
        self.log(f"run {entered.run}, {paid[1]}, round {round}: a part of a sum, {self._paid(entered, number)}")
        return kept._replace(upload=numbers.astype("<u8").tobytes())

    def close(self, request: messages.Close) -> messages.Closed:
        """What the run was charged here, and what that costs by itself; an attempt that was left open is over."""
        entered = self._entered(request.terms)
        self.store.erase_secrets(entered.run)
        if self.spending is None:
            charges, epsilon = self.store.last(entered.run)[0], float("nan")
        else:
            charges, epsilon = self.spending.cost(entered)
        self.log(f"run {entered.run}: over, {charges} charges")
        return messages.Closed(request.terms, charges, epsilon)

    def _entered(self, digest: str) -> EnteredRun:
        return entered_under(self.store, digest, self.schema)

    def _charge(self, entered: EnteredRun, event: Event | None, mechanism: str) -> int:
        """Pay for a release; the number of the site's charges in the run, this one included."""
        if self.spending is None:
            return 1 + self.store.last(entered.run)[0]
        self._require_still_allowed(entered)
        return self.spending.charge(entered, event, mechanism)

    def _require_still_allowed(self, entered: EnteredRun) -> None:
        """What the owner changes in the site's file, or in the schema, holds from the next charge on."""
        check_terms(self.site, entered.terms, entered.agreed, self.schema, self._count(entered.terms.unit))
        require_name(self.site, entered.terms)

    def _keep(self, entered: EnteredRun, reply: Stored, state: bytes | None) -> None:
        self.store.keep(entered.run, reply, state)
        if self.spending is not None:
            self.spending.kept()

    def _paid(self, entered: EnteredRun, number: int) -> str:
        return f"reply {number}" if self.spending is None else self.spending.words(entered, number)

    def _count(self, unit: str) -> int:
        return counted(self.site, self.schema, self.records, unit)

    def _halves(self, entered: EnteredRun) -> Cut:
        """What the run trains on and what it holds out; refused where that is not what it was when it was entered."""
        run, ledger = self.store.run(entered.run), self.spending and self.spending.ledger
        if run is None or run.records != self.tables.fingerprint(entered.terms, ledger):
            raise Refusal("the site's records have changed since the run was entered; start a new run.")
        return self.tables.halves(entered.terms, ledger)
