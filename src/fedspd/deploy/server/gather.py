"""What one round gathers from the sites: uploads or moments, plainly or as a masked sum."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP
from fedspd.deploy.masks.round import Outcome, Parcels, Round, sum_securely
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Members
from fedspd.deploy.protocol.terms import SECURE, Terms
from fedspd.deploy.server.checkpoint import Member
from fedspd.deploy.server.checks import Limit, norm_of, outlying, refuse_reply
from fedspd.deploy.server.post import Post, Say
from fedspd.deploy.server.settings import Federation
from fedspd.errors import InputError


class Gathered(NamedTuple):
    """A stack whose sum is that of all accepted vectors, one row each, and the numbers of their replies by place."""

    stack: np.ndarray
    numbers: dict[int, int]


NOTHING = Gathered(np.zeros((0, 0)), {})


class Mail:
    """The exchanges of one round, which may be several.

    Args:
        post: carries them.
        federation: its settings.
        roster: the run's sites.
        run: its name.
        round: the number of this one.
        say: where the server reports.
        terms: of any site, for masked rounds.
        members: all that the terms name, for masked rounds.
        about: what the server calls the round.
    """

    def __init__(
        self, post: Post, federation: Federation, roster: tuple[Member, ...], run: str, round: int, say: Say,
        terms: Terms | None = None, members: Members | None = None, about: str | None = None,
    ) -> None:  # fmt: skip
        self.post, self.federation, self.roster, self.run, self.round, self.say = (
            post, federation, roster, run, round, say,
        )  # fmt: skip
        self.terms, self.members, self.about = terms, members, about or f"round {round}"
        self.late = 0
        self.retired: dict[int, str] = {}  # sites that will not answer again in this run, and why

    def exchange(self, kind: str, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Replies and complaints by place; everything else is reported. Who has retired is not asked."""
        nodes = {place: self.roster[place].node for place in requests if place not in self.retired}
        sent = {node: requests[place] for place, node in nodes.items()}
        answers = self.post.ask(kind, sent, self.federation.round_seconds, self.about)
        self.late += len(answers.late)
        for what in answers.late:
            self.say(f"{self.about}: a late answer is dropped: {what}")
        right = {}
        for place, node in nodes.items():
            answer = answers.content.get(node)
            if isinstance(answer, (messages.REPLIES[kind], messages.Complaint)):
                right[place] = answer
            else:
                self._note(place, answer, answers.unreadable.get(node, "no answer in time"))
        return right

    def accepts(self, place: int, reply: Any, shape: tuple[int, ...], limit: float) -> bool:
        """Whether a reply is what was asked for; one that is rejected is reported and changes nothing."""
        why = refuse_reply(reply, self.roster[place], self.round, shape, limit)
        if why is not None:
            self.reject(place, why)
        return why is None

    def reject(self, place: int, why: str) -> None:
        """Report that a reply does not count."""
        self.say(f"{self.about}: the reply of {self.roster[place].site} is rejected: {why}")

    def _note(self, place: int, answer: Any, otherwise: str) -> None:
        site = self.roster[place].site
        match answer:
            case messages.Refused(reason, final):
                self.say(f"{site} refuses: {reason}")
                if final:
                    self.retired[place] = reason
            case None:
                self.say(f"{site} keeps its last reply: {otherwise}")
            case _:
                self.say(f"{site} keeps its last reply: it answered something else")


def gather_uploads(
    mail: Mail, asks: Mapping[int, messages.Ask], limits: Mapping[int, Limit], step: float = STEP
) -> Gathered:
    """The uploads of a round.

    Args:
        mail: of the round.
        asks: what each place is asked.
        limits: what is believed of each.
        step: of whole numbers under masks.
    """
    shape, norms = next(iter(asks.values())).weights.shape, {place: limit.norm for place, limit in limits.items()}
    if mail.federation.aggregation == SECURE:
        return _summed(
            mail, "train.mask", {place: ask.terms for place, ask in asks.items()}, shape, step, norms,
            lambda place, attempt, parcels: messages.AskMasked(*asks[place], attempt, *parcels),
        )  # fmt: skip
    kept = _kept(mail, mail.exchange("train.play", asks), shape, norms)
    strange = outlying(
        {place: norm_of(reply.upload) for place, reply in kept.items()},
        {place: limits[place].reach for place in kept},
    )
    for place, why in strange.items():
        mail.reject(place, why)
    return _rows({place: reply for place, reply in kept.items() if place not in strange})


def gather_moments(mail: Mail, size: int, limits: Mapping[int, float], step: float = MOMENTS_STEP) -> Gathered:
    """The sums of columns that all sites release before the first round."""
    terms = {place: member.terms for place, member in enumerate(mail.roster) if not member.retired}
    if mail.federation.aggregation == SECURE:
        return _summed(
            mail, "train.measure_masked", terms, (size,), step, limits,
            lambda place, attempt, parcels: messages.MeasureMasked(terms[place], mail.round, attempt, *parcels),
        )  # fmt: skip
    answers = mail.exchange("train.measure", {place: messages.Measure(digest) for place, digest in terms.items()})
    return _rows(_kept(mail, {place: _as_reply(answer) for place, answer in answers.items()}, (size,), limits))


def gather_counts(
    mail: Mail, asks: Mapping[int, messages.Count], size: int, limits: Mapping[int, float], step: float = MOMENTS_STEP
) -> Gathered:
    """The counts of held-out records that sites release after the last round."""
    if mail.federation.aggregation == SECURE:
        return _summed(
            mail, "train.count_masked", {place: ask.terms for place, ask in asks.items()}, (size,), step, limits,
            lambda place, attempt, parcels: messages.CountMasked(
                asks[place].terms, mail.round, *asks[place][1:], attempt, *parcels
            ),
        )  # fmt: skip
    answers = mail.exchange("train.count", asks)
    replies = {
        place: messages.Reply(answer.terms, mail.round, answer.counts, answer.charges)
        for place, answer in answers.items()
    }
    return _rows(_kept(mail, replies, (size,), limits))


def _kept(
    mail: Mail, replies: Mapping[int, messages.Reply], shape: tuple[int, ...], limits: Mapping[int, float]
) -> dict[int, messages.Reply]:
    """The replies that are accepted."""
    return {place: reply for place, reply in replies.items() if mail.accepts(place, reply, shape, limits[place])}


def _rows(kept: Mapping[int, messages.Reply]) -> Gathered:
    return Gathered(
        np.array([reply.upload for reply in kept.values()]), {place: reply.charges for place, reply in kept.items()}
    )


def _summed(
    mail: Mail, kind: str, digests: dict[int, str], shape: tuple[int, ...], step: float, limits: Mapping[int, float],
    request: Callable[[int, str, Parcels], Any],
) -> Gathered:  # fmt: skip
    """The masked sums, cohort by cohort; a cohort without one is left out."""
    terms, members = _signers(mail)
    found = [
        _sum_of(
            mail, Round(
                mail.round, {place: digests[place] for place in places.tolist() if place in digests}, kind, request,
                lambda place, reply: refuse_reply(reply, mail.roster[place], mail.round, shape, limits[place]),
                step, terms, members, mail.federation.quorum if len(terms.in_cohorts) == 1 else 1,
            ), shape, limits,
        )
        for places in terms.in_cohorts
        if digests.keys() & set(places.tolist())
    ]  # fmt: skip
    summed = [each for each in found if each.numbers]
    if not summed:
        return NOTHING
    numbers = {place: number for each in summed for place, number in each.numbers.items()}
    return Gathered(np.concatenate([each.stack for each in summed]), numbers)


def _sum_of(mail: Mail, round: Round, shape: tuple[int, ...], limits: Mapping[int, float]) -> Gathered:
    """One masked sum, as one row and zeros, since nobody's own vector is known; culprits retire."""
    found = sum_securely(round, mail.exchange)
    _retire(mail, found)
    if found.sum is None:
        mail.say(f"{mail.about}: no sum: {found.why}")
        return NOTHING
    total, numbers = found.sum
    if _implausible(mail, total, (limits[place] for place in numbers)):
        return NOTHING
    stack = np.zeros((len(numbers), *shape))
    stack[0] = total.reshape(shape)
    return Gathered(stack, numbers)


def _signers(mail: Mail) -> tuple[Terms, Members]:
    """Whose signatures a masked round is checked by."""
    if mail.terms is None or mail.members is None or not set(mail.terms.members) <= set(mail.members):
        raise InputError(
            "a masked run needs the key of each of its sites, got none for some; add them to the federation's file."
        )
    return mail.terms, mail.members


def _retire(mail: Mail, found: Outcome) -> None:
    for place, why in found.culprits.items():
        summed = found.sum is not None and place in found.sum.numbers
        until = "after this round" if summed else "of the sum"
        mail.say(f"{mail.about}: {mail.roster[place].site} is left out {until}: {why}")
        mail.retired[place] = why


def _implausible(mail: Mail, total: np.ndarray, limits: Iterable[float]) -> bool:
    """Whether a masked sum is larger than all its parts together could be."""
    limit = sum(limits)
    if norm_of(total) <= limit:
        return False
    mail.say(f"{mail.about}: the sum is rejected: its norm is beyond {limit:.3g}")
    return True


def _as_reply(answer: messages.Measured) -> messages.Reply:
    return messages.Reply(answer.terms, 0, answer.moments, answer.charges)
