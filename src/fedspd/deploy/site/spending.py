r"""What a site's releases cost: the ledger, and what the store and a witness remember of it.

A charge is written into the ledger, and only then are records used. The reply and the ledger's new head are kept in
the store in one transaction, and only then may the reply leave. So a failure leaves one of three things behind: no
charge; a charge without a reply; a charge with its reply.

In the second case the reply has never left the site, for it leaves only after it was kept. The charge may then be
used for the next release of the same event in the same run, under four conditions that make sure of it, whatever was
copied back or restarted meanwhile: the ledger's last row is that very charge, by its hash; the store remembers it as
its own and has no reply of its number; the process that leads the site is still the one in which the charge was made;
and this process has not passed on a reply of that number. A site that was ended and started again uses no charge
twice: it is lost.

*Why this is private:* take the transcript of everything that left the site. A release that was lost is not part of
it. What the loss itself shows is that the site failed, which is decided by power, disks and limits, not by a record
(`rehearsal.rehearse` fails before where any records would). So given the transcript the next release is a fresh draw of
the charged mechanism, and each charge has at most one release in the transcript: the composition that the ledger adds
up covers it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, NamedTuple

from fedspd.assemble import Agreed
from fedspd.deploy.protocol.messages import Counted, Masked, Measured, Reply
from fedspd.deploy.protocol.terms import Terms, base_name
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.settings import Site
from fedspd.deploy.site.store import Intent, Store
from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, spent
from fedspd.privacy.ledger import Charged, Ledger, agree, mark_of, read_mark, require_mark, write_mark
from fedspd.privacy.ledger.accounts import require_same
from fedspd.privacy.ledger.mark import from_text, to_text
from fedspd.privacy.ledger.terms import by_own_noise, room
from fedspd.typing import EVALUATION

MOMENTS = "moments"
PAID = (Reply, Measured, Counted, Masked)
SPENT = "the site's budget is spent."
RESERVED = (
    "what is left of the site's delta is reserved for the plan of its first run; runs with that plan's releases fit."
)


@dataclass
class Session:
    """The process that leads a site, as long as it runs: what it has passed on towards the server."""

    token: str = field(default_factory=lambda: token_hex(16))
    passed_on: set[tuple[str, int]] = field(default_factory=set)  # digest of terms, number of the charge

    def pass_on(self, content: Any) -> None:
        """Remember a reply before it may leave."""
        if isinstance(content, PAID):
            self.passed_on.add((content.terms, content.charges))


class EnteredRun(NamedTuple):
    """A run that the site has agreed to."""

    terms: Terms
    agreed: Agreed[Any]

    @property
    def run(self) -> str:
        """Its name."""
        return self.terms.run

    @property
    def group(self) -> Any:
        """The site's noise and events; None where nothing is proved."""
        plan = self.agreed.plan
        return plan.groups[plan.group[self.terms.place]] if plan.guarantee == "proved" else None

    @property
    def counts(self) -> Any:
        """What the run's one release of counts is charged; None where nothing is proved."""
        return None if self.group is None else self.group.evaluation

    @property
    def planned(self) -> list[tuple[Event, int]]:
        """All that the run may charge this site."""
        plan, place = self.agreed.plan, self.terms.place
        return plan.history(int(plan.group[place]), int(plan.most_participations[place]))


class Spending:
    """The open ledger of a site with a budget.

    Guarantees:
        A ledger that is not the one that store and witness remember, or is older, is refused before anything else.
        A charge is on disk before this says so.
    """

    def __init__(self, site: Site, store: Store, session: Session, log: Callable[[str], None]) -> None:
        assert site.budget is not None
        self.site, self.store, self.session, self.log, self.budget = site, store, session, log, site.budget
        if not site.path("ledger").is_file():
            raise InputError(
                f"expected the site's ledger at {site.path('ledger')}, got no file; restore it from a backup: a new "
                "one would be a second budget for the same records."
            )
        self.ledger = Ledger(site.path("ledger"))
        try:
            self._require_remembered()
        except BaseException:
            self.ledger.close()
            raise

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def require_room(self, entered: EnteredRun) -> None:
        """Refuse a run that the budget has no release left for; the account is opened by the first charge only."""
        group, name = entered.group, self.site.name
        self._require_new(entered)
        first = group.moments or group.event
        if name in self.ledger.accounts:
            left = self.ledger.room(name, first)
            why = RESERVED if self.ledger.accounts[name].why_not(first) == "delta reserved" else SPENT
        else:
            left, why = room(agree(self.budget, entered.planned), {}, first), SPENT
        if left < 1:
            raise Refusal(why)

    def charge(self, entered: EnteredRun, event: Event | None, mechanism: str) -> int:
        """Pay for a release; the number of the site's charges in the run, this one included."""
        if event is None:
            raise Refusal("the run's release has no event that a budget could be charged; this site has a budget.")
        before = self.charged(entered)
        if not before:  # several proposals may have been entered side by side
            self._require_new(entered)
        number = self._left_over(entered, event, mechanism)
        if number is not None:
            self.log(f"run {entered.run}: charge {number} is used again, its reply never left")
            return number
        played = sum(charged.times for charged in before if charged.mechanism == mechanism)
        if mechanism == EVALUATION and played:
            raise Refusal(
                "the run plans one measurement, which was charged here; another model, or the same once more, needs a "
                "new run."
            )
        most = entered.agreed.plan.most_participations[entered.terms.place]
        if mechanism not in (MOMENTS, EVALUATION) and played >= most:
            raise Refusal("the site has played all rounds of the run that were planned for it.")
        number = 1 + sum(charged.times for charged in before)
        self._write(entered, number, event, mechanism)
        self.store.intend(Intent(entered.run, number, mechanism, self.ledger.head.hash, self.session.token))
        self.store.settle()
        return number

    def _require_new(self, entered: EnteredRun) -> None:
        """Refuse a run that was charged by another proposal: what a person confirmed, and a policy allows, is one."""
        for charged in self.ledger.charges():
            if base_name(charged.run) == entered.terms.base_name:
                raise Refusal(
                    f"a run named {charged.run!r} was charged here before: the store no longer knows it, or this is "
                    "another proposal of it; name the run anew."
                )

    def kept(self) -> None:
        """The reply of the last charge is in the store: remember the ledger in the same transaction."""
        self.store.intend(None)
        self.store.remember(to_text(mark_of(self.ledger, self.site.name)))

    def charged(self, entered: EnteredRun) -> list[Charged]:
        """What the run was charged here so far."""
        key = entered.run, self.site.name
        return [charged for charged in self.ledger.charges() if (charged.run, charged.client) == key]

    def cost(self, entered: EnteredRun) -> tuple[int, float]:
        """How often the run was charged here, and what that costs by itself."""
        history = [(charged.event, charged.times) for charged in self.charged(entered)]
        epsilon = spent(history, self.budget.delta).epsilon if history else 0.0
        return sum(times for _, times in history), float(epsilon)

    def total(self, own: bool = False) -> float:
        """What all charges of the site cost together; by its own noise alone, if everybody else colludes."""
        account = self.ledger.accounts.get(self.site.name)
        if account is None or not account.history:
            return 0.0
        history = by_own_noise(account.history) if own else account.history
        return float(spent(list(history.items()), self.budget.delta).epsilon)

    def words(self, entered: EnteredRun, number: int) -> str:
        """What was charged and what is left."""
        return f"charge {number} of {sum(times for _, times in entered.planned)} planned, {self.told()} spent in all"

    def told(self) -> str:
        """What is spent; where sites may share noise, also what is spent without relying on others."""
        total, most, own = f"epsilon {self.total():.4f}", self.budget.epsilon, self.budget.epsilon_alone
        if own is None:
            return f"{total} of {most:g}"
        return f"{total} of {most:g}, and {self.total(own=True):.4f} of {own:g} if everybody else colludes,"

    def _require_remembered(self) -> None:
        name, mark = self.store.site()
        if name != self.site.name:
            raise InputError(
                f"expected the site that the store belongs to, {name!r}, got {self.site.name!r}; a new name would be a "
                "new budget for the same records: keep the old one."
            )
        require_mark(self.ledger, from_text(mark))
        account = self.ledger.accounts.get(name)
        if account is not None:
            require_same(name, account.terms.budget, self.budget)
        if self.site.witness is not None:
            require_mark(self.ledger, read_mark(self.site.witness))
            write_mark(self.site.witness, mark_of(self.ledger, name))  # one that cannot be written is found here

    def _left_over(self, entered: EnteredRun, event: Event, mechanism: str) -> int | None:
        """The number of a charge that was written and whose reply never left, if this release may use it."""
        intent, head = self.store.intent(), self.ledger.head
        if intent is None or (intent.head, intent.session) != (head.hash, self.session.token):
            return None
        if (entered.terms.digest, intent.number) in self.session.passed_on:
            return None
        (last,) = self.ledger.charges_after(head.rows - 1)
        expected = self.site.name, entered.run, intent.number, mechanism, event
        free = self.store.reply(intent.run, intent.number) is None
        return intent.number if free and tuple(last) == expected else None

    def _write(self, entered: EnteredRun, number: int, event: Event, mechanism: str) -> None:
        name = self.site.name
        self.ledger.enter({name: self.budget}, {name: entered.planned})
        decision = self.ledger.charge(entered.run, number, mechanism, {name: event})
        if not decision.granted:
            raise Refusal(RESERVED if decision.refused[name] == "delta reserved" else SPENT)
        if self.site.witness is not None:
            write_mark(self.site.witness, mark_of(self.ledger, name))
