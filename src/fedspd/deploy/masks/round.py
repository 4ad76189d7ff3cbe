"""A masked round from the server's side, by SecAgg+: it learns the sum of the uploads and no single one.

Four exchanges: keys, shares of secrets, masked uploads, shares that unmask the sum. A site may drop out in any of them;
the difference it could not deliver is contained in its next one.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedspd.deploy.masks.fixed_point import STEP, decode
from fedspd.deploy.masks.member import SMALLEST_GROUP, PublicKeys
from fedspd.deploy.masks.server import neighbors_of, threshold_for, unmask
from fedspd.deploy.masks.stages import context_of
from fedspd.deploy.protocol import messages
from fedspd.errors import InputError

Exchange = Callable[[str, Mapping[int, Any]], dict[int, Any]]
"""Sends each place a request of some kind and gives back the right kind of answers, by place."""


class Round(NamedTuple):
    """What is summed: a round of uploads, or the moments before the first one."""

    run: str
    number: int
    terms: dict[int, str]  # digest of each place's terms
    kind: str  # of the message that asks for a masked vector
    request: Callable[[int, str, dict[int, bytes]], Any]  # it, for a place, an attempt and its neighbors' shares
    accepts: Callable[[int, messages.Masked], bool]  # whether a masked reply is what was asked for
    degree: int  # neighbors of each site; 0: all


class Group(NamedTuple):
    """Who masks with whom in an attempt."""

    attempt: str
    graph: dict[int, frozenset[int]]
    threshold: int
    publics: dict[int, PublicKeys]  # of all who dealt
    shares: dict[int, dict[int, bytes]]  # by dealer and holder


class Sum(NamedTuple):
    """What a masked round gives."""

    total: np.ndarray  # flat
    numbers: dict[int, int]  # of each reply in the sum, by place


def sum_securely(round: Round, exchange: Exchange) -> Sum | None:
    """The sum of the vectors of those who stayed to the end; None where too few did."""
    group = _form(round, exchange)
    if group is None:
        return None
    requests = {place: round.request(place, group.attempt, _received(group, place)) for place in group.publics}
    answers = exchange(round.kind, requests)
    replies = {place: reply for place, reply in answers.items() if round.accepts(place, reply)}
    if len(replies) < SMALLEST_GROUP:
        return None
    revealed = exchange("train.unmask", {place: _unmask(round, group, place, set(replies)) for place in replies})
    try:
        total = unmask(
            {place: reply.upload for place, reply in replies.items()}, group.publics, group.graph,
            {place: answer.shares for place, answer in revealed.items()}, group.threshold,
            context_of(round.run, round.number, group.attempt),
        )  # fmt: skip
    except InputError:
        return None
    return Sum(decode(total, STEP), {place: reply.charges for place, reply in replies.items()})


def _form(round: Round, exchange: Exchange) -> Group | None:
    """Keys, then shares: whoever gets through both takes part."""
    if len(round.terms) < SMALLEST_GROUP:
        return None
    attempt = secrets.token_hex(8)
    asked = {place: messages.Exchange(terms, round.number, attempt) for place, terms in round.terms.items()}
    keys = {place: answer.keys for place, answer in exchange("train.exchange", asked).items()}
    if len(keys) < SMALLEST_GROUP:
        return None
    graph = neighbors_of(keys, round.degree or None)
    threshold = threshold_for(1 + len(next(iter(graph.values()))))
    deals = {
        place: messages.Deal(
            round.terms[place], round.number, attempt, place, threshold, {peer: keys[peer] for peer in graph[place]}
        )
        for place in keys
    }
    dealt = {
        place: answer.shares
        for place, answer in exchange("train.deal", deals).items()
        if set(answer.shares) == set(graph[place])
    }
    if len(dealt) < SMALLEST_GROUP:
        return None
    return Group(attempt, graph, threshold, {place: PublicKeys(keys[place]) for place in dealt}, dealt)


def _received(group: Group, place: int) -> dict[int, bytes]:
    return {peer: group.shares[peer][place] for peer in group.graph[place] if peer in group.publics}


def _unmask(round: Round, group: Group, place: int, survivors: set[int]) -> messages.Unmask:
    around = {place, *(peer for peer in group.graph[place] if peer in group.publics)}
    stayed, gone = sorted(around & survivors), sorted(around - survivors)
    return messages.Unmask(round.terms[place], round.number, group.attempt, stayed, gone)
