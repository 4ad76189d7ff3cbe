"""A site answers a server: every release is allowed, paid for and remembered before it is sent."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedspd.data import Schema, Table, read_schema, read_table
from fedspd.deploy.masks.fixed_point import STEP, rounded
from fedspd.deploy.masks.stages import Masking
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import SECURE, Terms, columns_of, digest_of, read_terms
from fedspd.deploy.site.local import measure, moments_scale, play_round, round_scale
from fedspd.deploy.site.memory import from_bytes, to_bytes
from fedspd.deploy.site.policy import Refusal, check_ask, check_terms
from fedspd.deploy.site.settings import Site
from fedspd.deploy.site.store import Run, Store, Stored
from fedspd.errors import InputError
from fedspd.experiment import Agreed
from fedspd.privacy.accounting import Event, spent
from fedspd.privacy.ledger import Charged, Ledger, agree
from fedspd.privacy.ledger.terms import room

MOMENTS = "moments"


class Entered(NamedTuple):
    """A run that the site has agreed to."""

    terms: Terms
    agreed: Agreed[Any]

    @property
    def run(self) -> str:
        """Its name."""
        return self.terms.run


class Client:
    """A site at work.

    Guarantees:
        A request that is refused has cost nothing.
        A release is charged durably before the records are used, and remembered durably before it is returned.
        The very same request is answered with the very same reply and costs nothing more.
    """

    def __init__(self, site: Site, store: Store, log: Callable[[str], None]) -> None:
        self.site, self.store, self.log = site, store, log
        self.schema: Schema = read_schema(site.path("schema"))

    def answer(self, request: Any) -> Any:
        """Whatever the request asks for, or `Refusal`."""
        with self.store.turn():
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
                case messages.Exchange():
                    return self._masking(request).exchange(request)
                case messages.Deal():
                    return self._masking(request).deal(request)
                case messages.Unmask():
                    return self._masking(request).unmask(request)
        raise Refusal("this kind of request is not known here; update both sides.")

    def hello(self, request: messages.Hello) -> messages.Present:
        """Who the site is and how many records it holds."""
        if request.version != messages.VERSION:
            raise Refusal(
                f"the site speaks version {messages.VERSION}, the server {request.version}; update both sides."
            )
        return messages.Present(self.site.name, len(self._table()), self.schema.digest)

    def enter(self, request: messages.Enter) -> messages.Entered:
        """Agree to a run's terms, or refuse them; nothing is spent."""
        try:
            terms = read_terms(request.terms)
            agreed = terms.agreed(self.schema)
        except InputError as error:  # of public numbers
            raise Refusal(str(error)) from None
        check_terms(self.site, terms, agreed, self.schema, len(self._table()))
        known = self.store.run(terms.run)
        if known is None:
            self._require_room(Entered(terms, agreed))
            self.store.enter(Run(terms.run, terms.text, self._fingerprint()))
            self.log(f"run {terms.run}: entered under terms {terms.digest}")
        elif known.terms != terms.text:
            raise Refusal(f"a run named {terms.run!r} was entered under other terms; name the run anew.")
        return messages.Entered(terms.digest)

    def measure(self, request: messages.Measure) -> messages.Measured:
        """Release the noised moments of the site's columns."""
        entered = self._entered(request.terms)
        if entered.terms.aggregation == SECURE:
            raise Refusal("the run's aggregation is 'secure', the moments are asked for without masks.")
        stored = self.measured(entered)
        return messages.Measured(request.terms, np.frombuffer(stored.upload, "<f8"), stored.number)

    def measured(self, entered: Entered, sent: Callable[[np.ndarray], np.ndarray] = lambda sums: sums) -> Stored:
        """The site's moments: the stored ones, or new ones that are charged."""
        group = self._group(entered)
        if group is None or group.moments is None:
            raise Refusal("the terms of the run have no release of moments.")
        stored = self.store.repeated(entered.run, MOMENTS)
        if stored is None:
            table, scale = self._frozen_table(entered), moments_scale(entered.terms, entered.agreed, self.schema)
            number = self._charge(entered, group.moments, MOMENTS)
            sums = sent(measure(entered.terms, entered.agreed, self.schema, table, scale))
            stored = Stored(number, 0, MOMENTS, to_bytes(sums), b"")
            self.store.keep(entered.run, stored, None)
            self.log(f"run {entered.run}: released moments, charge {number}")
        return stored

    def play(self, request: messages.Ask) -> messages.Reply:
        """Play a round."""
        entered = self._entered(request.terms)
        check_ask(self.site, entered.terms, entered.agreed, self.schema, request)
        stored = self.released(entered, request)
        upload = np.frombuffer(stored.upload, "<f8").reshape(request.weights.shape)
        return messages.Reply(request.terms, request.round, upload, stored.number)

    def play_masked(self, request: messages.AskMasked) -> messages.Masked:
        """Play a round and mask the upload."""
        entered = self._entered(request.terms)
        check_ask(self.site, entered.terms, entered.agreed, self.schema, request)
        masking = Masking(self.store, entered.terms)
        attempt = masking.check(request)
        stored = self.released(entered, request, sent=lambda upload: rounded(upload, STEP))
        return masking.mask(request, attempt, np.frombuffer(stored.upload, "<f8"), stored.number)

    def measure_masked(self, request: messages.MeasureMasked) -> messages.Masked:
        """Release the moments, masked."""
        masking = self._masking(request)
        attempt = masking.check(request)
        stored = self.measured(self._entered(request.terms), sent=lambda sums: rounded(sums, STEP))
        return masking.mask(request, attempt, np.frombuffer(stored.upload, "<f8"), stored.number)

    def _masking(self, request: Any) -> Masking:
        terms = self._terms(request.terms)
        if terms.aggregation != SECURE:
            raise Refusal("the run's uploads are not masked.")
        return Masking(self.store, terms)

    def released(
        self, entered: Entered, ask: Any, sent: Callable[[np.ndarray], np.ndarray] = lambda upload: upload
    ) -> Stored:
        """The reply to a round that was asked for: the stored one, or a new one that is charged.

        Args:
            entered: the run.
            ask: the round, checked.
            sent: what the server will make of an upload that travels as whole numbers.
        """
        digest = digest_of_ask(ask)
        stored = self.store.repeated(entered.run, digest)
        if stored is not None:
            self.log(f"run {entered.run}, round {ask.round}: asked again, same reply")
            return stored
        _, last = self.store.last(entered.run)
        if ask.round < last:
            raise Refusal(f"round {ask.round} is over: the site has answered round {last}.", final=False)
        held = self._held(entered, ask)
        state = self._state(entered)
        scale = round_scale(entered.terms, entered.agreed, ask, state)
        table = self._frozen_table(entered)
        group = self._group(entered)
        number = self._charge(entered, None if group is None else group.event, entered.terms.config.algorithm.name)
        played = play_round(entered.terms, entered.agreed, table, ask, state, scale)
        reply = np.asarray(played.replies)[0]
        upload = sent(reply - held if entered.agreed.algorithm.keeps_replies else reply)
        stored = Stored(number, ask.round, digest, to_bytes(upload), to_bytes(held + upload))
        self.store.keep(entered.run, stored, to_bytes(played.client))
        self.log(f"run {entered.run}, round {ask.round}: played, charge {number}")
        return stored

    def close(self, request: messages.Close) -> messages.Closed:
        """What the run was charged here, and what that costs by itself."""
        entered = self._entered(request.terms)
        if self.site.budget is None:
            number, _ = self.store.last(entered.run)
            return messages.Closed(request.terms, number, float("nan"))
        with self._ledger() as ledger:
            history = [(charged.event, charged.times) for charged in self._charged(ledger, entered)]
        epsilon = spent(history, self.site.budget.delta).epsilon if history else 0.0
        return messages.Closed(request.terms, sum(times for _, times in history), float(epsilon))

    def _entered(self, digest: str) -> Entered:
        terms = self._terms(digest)
        return Entered(terms, terms.agreed(self.schema))

    def _terms(self, digest: str) -> Terms:
        for run in self.store.runs():
            if digest_of(run.terms) == digest:
                return read_terms(run.terms)
        raise Refusal("the site has not entered a run under these terms.")

    def _require_room(self, entered: Entered) -> None:
        """Refuse a run that the budget has no release left for; the account is opened by the first charge only."""
        budget, group, name = self.site.budget, self._group(entered), self.site.name
        if budget is None or group is None:
            return
        first = group.moments or group.event
        with self._ledger() as ledger:
            known = name in ledger.accounts
            left = ledger.room(name, first) if known else room(agree(budget, self._planned(entered)), {}, first)
        if left < 1:
            raise Refusal("the site's budget is spent.")

    def _planned(self, entered: Entered) -> list[tuple[Event, int]]:
        plan, place = entered.agreed.plan, entered.terms.place
        return plan.history(int(plan.group[place]), int(plan.most_participations[place]))

    def _group(self, entered: Entered) -> Any:
        """The site's noise and events; None where nothing is proved."""
        plan = entered.agreed.plan
        return plan.groups[plan.group[entered.terms.place]] if plan.guarantee == "proved" else None

    def _charge(self, entered: Entered, event: Event | None, mechanism: str) -> int:
        """Pay for a release; the number of the site's charges in the run, this one included."""
        if self.site.budget is None or event is None:
            return 1 + self.store.last(entered.run)[0]
        name, plan = self.site.name, entered.agreed.plan
        with self._ledger() as ledger:
            ledger.enter({name: self.site.budget}, {name: self._planned(entered)})
            before = self._charged(ledger, entered)
            played = sum(charged.times for charged in before if charged.mechanism == mechanism)
            if mechanism != MOMENTS and played >= plan.most_participations[entered.terms.place]:
                raise Refusal("the site has played all rounds of the run that were planned for it.")
            number = 1 + sum(charged.times for charged in before)
            if not ledger.charge(entered.run, number, mechanism, {name: event}).granted:
                raise Refusal("the site's budget is spent.")
        return number

    def _charged(self, ledger: Ledger, entered: Entered) -> list[Charged]:
        """What the run was charged here so far."""
        key = entered.run, self.site.name
        return [charged for charged in ledger.charges() if (charged.run, charged.client) == key]

    def _held(self, entered: Entered, ask: Any) -> np.ndarray:
        """What the server holds of the site: the total of the reply it names."""
        if ask.acknowledged == 0 or not entered.agreed.algorithm.keeps_replies:
            return np.zeros_like(ask.weights)
        stored = self.store.reply(entered.run, ask.acknowledged)
        if stored is None or stored.round == 0:
            raise Refusal(f"the server names reply {ask.acknowledged}, which was never made.")
        return np.frombuffer(stored.total, "<f8").reshape(ask.weights.shape)

    def _state(self, entered: Entered) -> Any:
        matrix = columns_of(self.schema, entered.terms.config), entered.agreed.algorithm.objective.loss.outputs
        first = entered.agreed.algorithm.start(np.zeros((1, *matrix)))[1]
        stored = self.store.state(entered.run)
        return first if stored is None else from_bytes(first, stored)

    def _ledger(self) -> Ledger:
        return Ledger(self.site.path("ledger"), create=True)

    def _table(self) -> Table:
        return read_table(self.site.path("data"), self.schema)

    def _frozen_table(self, entered: Entered) -> Table:
        run = self.store.run(entered.run)
        if run is None or run.records != self._fingerprint():
            raise Refusal("the site's records have changed since the run was entered; start a new run.")
        return self._table()

    def _fingerprint(self) -> str:
        return hashlib.blake2b(self.site.path("data").read_bytes(), digest_size=16).hexdigest()


def digest_of_ask(ask: Any) -> str:
    """A short name of what a round is asked with; masks do not belong to it."""
    arrays = (np.ascontiguousarray(array, "<f8").tobytes() for array in (ask.weights, ask.mean, ask.deviation))
    head = f"{ask.terms} {ask.round} {ask.acknowledged} ".encode()
    return hashlib.blake2b(head + b"".join(arrays), digest_size=16).hexdigest()
