"""Masked rounds between real sites within one process: real keys, stores and messages; uploads are given.

A test may change what a site answers, or what a server sends to it.
"""

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from fedspd.config import parse
from fedspd.deploy.masks.member import Secrets
from fedspd.deploy.masks.signed import Scope, sign_keys, sign_share
from fedspd.deploy.masks.stages import Asked, Attempt, Masking
from fedspd.deploy.protocol import messages, wire
from fedspd.deploy.protocol.identity import SMALLEST_GROUP, Identity, Members
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Member
from fedspd.deploy.server.checks import Limit
from fedspd.deploy.server.gather import Gathered, Mail, gather_moments, gather_uploads
from fedspd.deploy.server.post import Post
from fedspd.deploy.server.settings import Federation
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.store import Store, Stored, create_store

NAMES = ("north", "south", "east", "west", "center", "coast", "hills", *(f"isle-{number}" for number in range(13)))
SHAPE = (3, 2)
FIRST_NODE = 100

Twist = Callable[["Site", Any, Any], Any]
"""Makes of a site, a request and its honest answer what is sent in its place; None: it is lost."""


@dataclass
class Site:
    """A site whose upload is given and not computed."""

    path: Path  # of its store
    terms: Terms
    identity: Identity | None
    members: Members | None
    upload: np.ndarray
    twists: dict[str, Twist] = field(default_factory=dict)  # by kind of request
    charges: int = 0
    kept: dict[int, Stored] = field(default_factory=dict)  # by round

    def answer(self, kind: str, request: Any) -> Any:
        try:
            with Store(self.path) as store, store.turn():
                answer = self._honest(Masking(store, self.terms, self.identity, self.members), request)
        except Refusal as refusal:
            answer = messages.Refused(str(refusal), refusal.final)
        return self.twists[kind](self, request, answer) if kind in self.twists else answer

    def _honest(self, masking: Masking, request: Any) -> Any:
        if isinstance(request, Asked):
            return masking.answer(request, lambda sent: self._released(request.round, sent))
        return masking.step(request)

    def _released(self, round: int, sent: Callable[[np.ndarray], np.ndarray]) -> Stored:
        """As a site does, each time anew and paid for; only that the upload is given."""
        self.charges += 1
        upload = sent(self.upload.ravel()).astype("<f8").tobytes()
        self.kept[round] = Stored(self.charges, round, "", upload, b"")
        return self.kept[round]

    @property
    def me(self) -> Identity:
        assert self.identity is not None
        return self.identity


def scope_of(site: Site, request: Any) -> Scope:
    return Scope(site.terms, request.round, request.attempt)


def secrets_of(site: Site, request: Any) -> tuple[Secrets, Attempt]:
    """What the site keeps of an attempt."""
    with Store(site.path) as store:
        content = store.secrets(site.terms.run, request.round, request.attempt)
    assert content
    attempt = Attempt(**json.loads(content))
    return Secrets(bytes.fromhex(attempt.secrets)), attempt


def published(keys: bytes) -> Twist:
    """Publishes these bytes, properly signed."""

    def twist(site: Site, request: Any, answer: messages.Published) -> Any:
        return answer._replace(keys=keys, signature=sign_keys(scope_of(site, request), site.me, site.terms.place, keys))

    return twist


def signed_for(**others: Any) -> Twist:
    """Signs its keys for another round, attempt or run."""

    def twist(site: Site, request: Any, answer: messages.Published) -> Any:
        scope = scope_of(site, request)._replace(**others)
        return answer._replace(signature=sign_keys(scope, site.me, site.terms.place, answer.keys))

    return twist


def dealt(*holders: int, spoil: Callable[[bytes], bytes] = lambda share: bytes(len(share))) -> Twist:
    """Deals these something else, properly signed: zeros, if it is not told what."""

    def twist(site: Site, request: Any, answer: messages.Dealt) -> Any:
        scope, me = scope_of(site, request), site.terms.place
        shares = {holder: spoil(answer.shares[holder]) for holder in holders if holder in answer.shares}
        signed = {holder: sign_share(scope, site.me, me, holder, sealed) for holder, sealed in shares.items()}
        return answer._replace(shares=answer.shares | shares, signatures=answer.signatures | signed)

    return twist


class Room:
    """Carries messages to the sites and back at once."""

    def __init__(self, sites: list[Site]) -> None:
        self.sites = sites
        self.names = {FIRST_NODE + place: NAMES[place] for place in range(len(sites))}
        self.sent: list[tuple[str, int, Any]] = []  # kind, place, request
        self.got: list[tuple[str, int, Any]] = []
        self.tampers: dict[str, Callable[[int, Any], Any]] = {}  # by kind: what a bad server sends instead
        self._answers: dict[str, Message] = {}
        self._numbers = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower does for a server app

    def get_node_ids(self) -> Iterable[int]:
        return list(self.names)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._answers.pop(number) for number in list(message_ids) if number in self._answers]

    def _deliver(self, message: Message) -> str:
        number = f"message-{next(self._numbers)}"
        message.metadata.__dict__["_message_id"] = number
        kind, place = message.metadata.message_type, message.metadata.dst_node_id - FIRST_NODE
        request = wire.read_request(message)
        request = self.tampers[kind](place, request) if kind in self.tampers else request
        self.sent.append((kind, place, request))
        answer = self.sites[place].answer(kind, request)
        if answer is not None:
            self.got.append((kind, place, answer))
            self._answers[number] = wire.answer(message, answer)
        return number


class Masked:
    """A masked run: its server's side, and its sites."""

    def __init__(
        self, folder: Path, count: int = 5, quorum: int = 3, threshold: int | None = None, colluders: int = 0
    ) -> None:
        """By default as low a threshold as may be, so that many may fail."""
        threshold = threshold or max(SMALLEST_GROUP, (count + colluders) // 2 + 1)
        identities = [Identity(ec.generate_private_key(ec.SECP384R1())) for _ in range(count)]
        keys = (identity.public for identity in identities)
        self.members = Members(zip(NAMES, keys), threshold, colluders)  # noqa: B905 (fewer sites)
        config, sizes = parse({"partition": {"clients": count}}), tuple(100 + place for place in range(count))
        self.terms = [
            Terms(
                "run-1", config, sizes, place, "0" * 16, "secure", members=NAMES[:count], threshold=threshold,
                colluders=colluders,
            )
            for place in range(count)
        ]  # fmt: skip
        draws = np.random.default_rng(5)
        self.sites = []
        for place, identity in enumerate(identities):
            path = folder / f"{NAMES[place]}.db"
            create_store(path, NAMES[place], "")
            self.sites.append(Site(path, self.terms[place], identity, self.members, draws.normal(0, 3, SHAPE)))
        self.room, self.said = Room(self.sites), list[str]()
        self.federation = Federation(aggregation="secure", quorum=quorum, round_seconds=0.01, sites=count)
        self.retired: dict[int, str] = {}

    def mail(self, round: int) -> Mail:
        roster = tuple(
            Member(own.members[place], FIRST_NODE + place, own.sizes[place], own.digest, 9)
            for place, own in enumerate(self.terms)
        )
        roster = tuple(replace(member, retired=self.retired.get(place, "")) for place, member in enumerate(roster))
        post = Post(self.room)
        return Mail(post, self.federation, roster, "run-1", round, self.said.append, self.terms[0], self.members)

    def play(self, round: int = 1) -> Gathered:
        """One round with all that have not retired; who retires in it is remembered."""
        mail = self.mail(round)
        ask = messages.Ask("", round, 0, np.zeros(SHAPE), np.zeros(2), np.ones(2), 1.0)
        asks = {
            place: ask._replace(terms=own.digest) for place, own in enumerate(self.terms) if place not in self.retired
        }
        found = gather_uploads(mail, asks, dict.fromkeys(asks, Limit(1e3, 1e3)))
        self.retired |= mail.retired
        return found

    def measure(self) -> Gathered:
        """The moments, which are numbers like an upload's."""
        mail = self.mail(0)
        found = gather_moments(mail, SHAPE[0] * SHAPE[1], dict.fromkeys(range(len(self.sites)), 1e3))
        self.retired |= mail.retired
        return found

    def true_sum(self, places: Iterable[int]) -> np.ndarray:
        return np.sum([self.sites[place].upload for place in places], axis=0)

    def asked(self, kind: str) -> list[tuple[int, Any]]:
        return [(place, request) for sent, place, request in self.room.sent if sent == kind]

    @property
    def attempts(self) -> int:
        return len({request.attempt for _, request in self.asked("train.exchange")})
