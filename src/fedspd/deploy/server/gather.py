"""What one round gathers from the sites: uploads or moments, plainly or as a masked sum."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedspd.deploy.masks.round import Round, sum_securely
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import SECURE
from fedspd.deploy.server.checkpoint import Member
from fedspd.deploy.server.checks import refuse_reply
from fedspd.deploy.server.post import Post, Say
from fedspd.deploy.server.settings import Deploy


class Gathered(NamedTuple):
    """A stack whose sum is that of all accepted vectors, one row each, and the numbers of their replies by place."""

    stack: np.ndarray
    numbers: dict[int, int]


NOTHING = Gathered(np.zeros((0, 0)), {})


class Mail:
    """The exchanges of one round, which may be several."""

    def __init__(self, post: Post, deploy: Deploy, roster: tuple[Member, ...], run: str, round: int, say: Say) -> None:
        self.post, self.deploy, self.roster, self.run, self.round, self.say = post, deploy, roster, run, round, say
        self.late = 0
        self.retired: dict[int, str] = {}  # sites that will not answer again in this run, and why

    def exchange(self, kind: str, requests: Mapping[int, Any]) -> dict[int, Any]:
        """The right kind of answers, by place; everything else is reported."""
        nodes = {place: self.roster[place].node for place in requests}
        sent = {nodes[place]: request for place, request in requests.items()}
        answers = self.post.ask(kind, sent, self.deploy.round_seconds, f"round {self.round}")
        self.late += len(answers.late)
        for what in answers.late:
            self.say(f"round {self.round}: a late answer is dropped: {what}")
        right = {}
        for place, node in nodes.items():
            answer = answers.content.get(node)
            if isinstance(answer, messages.REPLIES[kind]):
                right[place] = answer
            else:
                self._note(place, answer, answers.unreadable.get(node, "no answer in time"))
        return right

    def accepts(self, place: int, reply: Any, shape: tuple[int, ...], limit: float) -> bool:
        """Whether a reply is what was asked for; one that is rejected is reported and changes nothing."""
        why = refuse_reply(reply, self.roster[place], self.round, shape, limit)
        if why is not None:
            self.say(f"round {self.round}: the reply of {self.roster[place].site} is rejected: {why}")
        return why is None

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


def gather_uploads(mail: Mail, asks: Mapping[int, messages.Ask], limits: Mapping[int, float]) -> Gathered:
    """The uploads of a round.

    Args:
        mail: of the round.
        asks: what each place is asked.
        limits: the largest norm that is plausible for each.
    """
    shape = next(iter(asks.values())).weights.shape
    if mail.deploy.aggregation == SECURE:
        found = sum_securely(
            Round(
                mail.run,
                mail.round,
                {place: ask.terms for place, ask in asks.items()},
                "train.mask",
                lambda place, attempt, shares: messages.AskMasked(*asks[place], attempt, shares),
                lambda place, reply: mail.accepts(place, reply, shape, limits[place]),
                mail.deploy.neighbors,
            ),
            mail.exchange,
        )
        if found is None or _implausible(mail, found.total, limits):
            return NOTHING
        return _stacked(found.total.reshape(shape), found.numbers)
    return _kept(mail, mail.exchange("train.play", asks), shape, limits)


def gather_moments(mail: Mail, size: int, limits: Mapping[int, float]) -> Gathered:
    """The sums of columns that all sites release before the first round."""
    terms = {place: member.terms for place, member in enumerate(mail.roster)}
    if mail.deploy.aggregation == SECURE:
        found = sum_securely(
            Round(
                mail.run,
                mail.round,
                terms,
                "train.measure_masked",
                lambda place, attempt, shares: messages.MeasureMasked(terms[place], mail.round, attempt, shares),
                lambda place, reply: mail.accepts(place, reply, (size,), limits[place]),
                mail.deploy.neighbors,
            ),
            mail.exchange,
        )
        if found is None or _implausible(mail, found.total, limits):
            return NOTHING
        return _stacked(found.total, found.numbers)
    answers = mail.exchange("train.measure", {place: messages.Measure(digest) for place, digest in terms.items()})
    replies = {place: _as_reply(answer) for place, answer in answers.items()}
    return _kept(mail, replies, (size,), limits)


def _kept(
    mail: Mail, replies: Mapping[int, messages.Reply], shape: tuple[int, ...], limits: Mapping[int, float]
) -> Gathered:
    """The replies that are accepted, a row each."""
    kept = {place: reply for place, reply in replies.items() if mail.accepts(place, reply, shape, limits[place])}
    return Gathered(
        np.array([reply.upload for reply in kept.values()]), {place: reply.charges for place, reply in kept.items()}
    )


def _implausible(mail: Mail, total: np.ndarray, limits: Mapping[int, float]) -> bool:
    """Whether a masked sum is larger than all its parts together could be."""
    limit = sum(limits.values())
    if np.linalg.norm(total) <= limit:
        return False
    mail.say(f"round {mail.round}: the sum is rejected: its norm is beyond {limit:.3g}")
    return True


def _stacked(total: np.ndarray, numbers: dict[int, int]) -> Gathered:
    """One row holds the sum and the others are zero, as nobody's own vector is known."""
    stack = np.zeros((len(numbers), *total.shape))
    stack[0] = total
    return Gathered(stack, numbers)


def _as_reply(answer: messages.Measured) -> messages.Reply:
    return messages.Reply(answer.terms, 0, answer.moments, answer.charges)
