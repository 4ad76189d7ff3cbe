"""A server that does not keep to the rules: the real one, whose mail is changed before it is sent.

    python -m tests.support.deploy.false_server FEDERATION.TOML FAULT

It prints what sites answer to what it should not have asked.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.config import changed
from fedspd.deploy.flower import quiet
from fedspd.deploy.masks import round as rounds
from fedspd.deploy.masks.signed import Scope, sign_survivors
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Identity, read_identity
from fedspd.deploy.protocol.terms import Terms, read_terms
from fedspd.deploy.server.post import Answers, Post
from fedspd.deploy.server.serve import led
from fedspd.deploy.server.settings import read_federation
from fedspd.errors import InputError
from fedspd.results import Work

Ask = Callable[[Post, str, Mapping[int, Any], float, str], Answers]
GO = "go"
"""A file in the server's folder: it waits for it where it holds."""
MASKED = "masked.npz"
"""A file there: the vectors of the last masked round as they came, by place."""
COLLUDER = 4


def say(line: str) -> None:
    print(line, flush=True)


def place(post: Post, node: int) -> int:
    return int(post.names[node].rpartition("-")[2])


def by_place(post: Post, requests: Mapping[int, Any]) -> dict[int, int]:
    """Nodes by the places of their sites."""
    return {place(post, node): node for node in sorted(requests, key=lambda node: place(post, node))}


def told(post: Post, what: str, answers: Answers) -> None:
    """Print what came of something that should not have been asked."""
    for node, answer in sorted(answers.content.items(), key=lambda pair: place(post, pair[0])):
        refused = (
            f"refuses: {answer.reason}" if isinstance(answer, messages.Refused) else f"gives {type(answer).__name__}"
        )
        say(f"{what}: {post.names[node]} {refused}")


def two_stories(ask: Ask) -> Ask:
    """Some sites are told of four survivors, the others of five; one site is on its side, and signs both."""
    true: list[Terms] = []

    def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
        if kind == "query.enter":
            true.append(read_terms(next(iter(requests.values())).terms))
        if kind != "train.confirm":
            return ask(post, kind, requests, seconds, about)
        stories = {
            node: [0, 1, 2, COLLUDER] if place(post, node) in (0, 1) else request.survivors
            for node, request in requests.items()
        }
        told_so = {node: request._replace(survivors=stories[node]) for node, request in requests.items()}
        answers = ask(post, kind, told_so, seconds, about)
        unmask = {}
        for node, request in requests.items():
            signatures = {
                place(post, other): answer.signature
                for other, answer in answers.content.items()
                if stories[other] == stories[node]
            }
            scope = Scope(true[-1], request.round, request.attempt)
            signatures[COLLUDER] = sign_survivors(scope, colluder(), COLLUDER, stories[node])
            unmask[node] = messages.Unmask(request.terms, request.round, request.attempt, signatures)
        told(post, "two stories", ask(post, "train.unmask", unmask, seconds, about))
        return answers

    return twisted


def colluder() -> Identity:
    """The long-term key of the site that is on the server's side."""
    return read_identity(Path(sys.argv[1]).parent / f"site-{COLLUDER}" / "site.key")


def swapped_keys(ask: Ask) -> Ask:
    """One site is given two others' keys in each other's place."""

    def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
        if kind == "train.deal":
            victim = by_place(post, requests)[0]
            keys = requests[victim].keys
            requests = {**requests, victim: requests[victim]._replace(keys=keys | {1: keys[2], 2: keys[1]})}
        return ask(post, kind, requests, seconds, about)

    return twisted


def replayed_keys(ask: Ask) -> Ask:
    """In the second round one site is given another's keys of the first, which are signed."""
    seen: list[messages.Deal] = []

    def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
        if kind == "train.deal":
            victim = by_place(post, requests)[0]
            now = requests[victim]
            seen.append(now)
            if now.round == 2:
                keys, signatures = now.keys | {1: seen[0].keys[1]}, now.signatures | {1: seen[0].signatures[1]}
                requests = {**requests, victim: now._replace(keys=keys, signatures=signatures)}
        return ask(post, kind, requests, seconds, about)

    return twisted


def asks_twice(ask: Ask) -> Ask:
    """Every step of a masked round is asked for a second time, and who survived with another set."""

    def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
        answers = ask(post, kind, requests, seconds, about)
        if kind.startswith("train."):
            again = dict(requests)
            if kind == "train.confirm":
                again = {node: request._replace(survivors=[0, 1, 2, 3]) for node, request in requests.items()}
            told(post, kind, ask(post, kind, again, seconds, about))
        return answers

    return twisted


def with_terms(change: Callable[[Any], Any], whom: Callable[[int], bool]) -> Callable[[Ask], Ask]:
    """Some sites are told other terms, and each is later spoken to under those it knows."""

    def fault(ask: Ask) -> Ask:
        digests: dict[int, tuple[str, str]] = {}  # by node: the server's own, and those that the site knows

        def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
            sent = dict(requests)
            for node, request in requests.items():
                if kind == "query.enter" and whom(place(post, node)):
                    true = read_terms(request.terms)
                    false = change(true)
                    digests[node] = true.digest, false.digest
                    sent[node] = messages.Enter(false.text)
                elif node in digests and getattr(request, "terms", "") == digests[node][0]:
                    sent[node] = request._replace(terms=digests[node][1])
            answers = ask(post, kind, sent, seconds, about)
            for node, answer in list(answers.content.items()):
                if node in digests and getattr(answer, "terms", "") == digests[node][1]:
                    answers.content[node] = answer._replace(terms=digests[node][0])
            true = [
                one.agreement
                for node, one in answers.content.items()
                if isinstance(one, messages.Entered) and node not in digests
            ]
            for node, answer in list(answers.content.items()):
                if isinstance(answer, messages.Entered) and node in digests and true:  # as the server expects it
                    answers.content[node] = answer._replace(agreement=true[0])
            return answers

        return twisted

    return fault


def believing(fault: Callable[[Ask], Ask]) -> Callable[[Ask], Ask]:
    """The server looks at no signature itself, so that what comes of them is the sites' to say."""

    def blind(ask: Ask) -> Ask:
        for name in ("keys_are_signed", "share_is_signed", "survivors_are_signed"):
            setattr(rounds, name, lambda *_: True)
        return fault(ask)

    return blind


def apart(fault: Callable[[Ask], Ask]) -> Callable[[Ask], Ask]:
    """The first site is shown the others' keys, and nobody its own, so that the others go on among themselves."""

    def both(ask: Ask) -> Ask:
        onwards = fault(ask)

        def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
            answers = onwards(post, kind, requests, seconds, about)
            if kind == "train.exchange":
                victim = by_place(post, requests)[0]
                answers.content.pop(victim)
                said = {place(post, node): answer for node, answer in answers.content.items()}
                asked = requests[victim]
                keys, signatures = (
                    {at: getattr(one, name) for at, one in said.items()} for name in ("keys", "signature")
                )
                deal = messages.Deal(asked.terms, asked.round, asked.attempt, keys, signatures)
                told(post, "other noise", onwards(post, "train.deal", {victim: deal}, seconds, about))
            return answers

        return twisted

    return both


def with_less_noise(terms: Any) -> Any:
    return replace(terms, config=changed(terms.config, {"privacy.epsilon": 1.5 * terms.config.privacy.epsilon}))


def with_lower_threshold(terms: Any) -> Any:
    config = changed(terms.config, {"privacy.threshold": 3, "privacy.colluders": 0})
    return replace(terms, threshold=3, colluders=0, config=config)


def with_ghosts(terms: Any) -> Any:
    config = changed(terms.config, {"partition.clients": 6, "run.participants": 6})
    return replace(terms, members=(*terms.members, "ghost"), sizes=(*terms.sizes, 100), config=config)


def holding(before: str) -> Callable[[Ask], Ask]:
    """Waits for a file before a step of the first round, so that somebody can be killed meanwhile."""

    def fault(ask: Ask) -> Ask:
        def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
            if kind == before and about == "round 1":
                say(f"holding before {kind}")
                go = Path(sys.argv[1]).parent / sys.argv[2] / GO
                while not go.exists():
                    time.sleep(0.05)
            return ask(post, kind, requests, seconds, about)

        return twisted

    return fault


def keeping_masked(fault: Callable[[Ask], Ask]) -> Callable[[Ask], Ask]:
    """Writes down what the sites have masked."""

    def both(ask: Ask) -> Ask:
        onwards = fault(ask)

        def twisted(post: Post, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
            answers = onwards(post, kind, requests, seconds, about)
            if kind == "train.mask":
                found = {str(place(post, node)): answer.upload for node, answer in answers.content.items()}
                np.savez(Path(sys.argv[1]).parent / sys.argv[2] / MASKED, **found)
            return answers

        return twisted

    return both


FAULTS: dict[str, Callable[[Ask], Ask]] = {
    "two-stories": two_stories,
    "swapped-keys": swapped_keys,
    "replayed-keys": replayed_keys,
    "asks-twice": asks_twice,
    "less-noise": believing(apart(with_terms(with_less_noise, lambda place: place > 0))),
    "lower-threshold": with_terms(with_lower_threshold, lambda place: True),
    "stuffed-roster": with_terms(with_ghosts, lambda place: True),
    "die-before-masking": holding("train.mask"),
    "die-after-masking": holding("train.confirm"),
    "server-dies": keeping_masked(holding("train.confirm")),
}

if __name__ == "__main__":
    quiet()
    setattr(Post, "ask", FAULTS[sys.argv[2]](Post.ask))  # noqa: B010
    overrides: dict[str, Any] = {"federation.folder": sys.argv[2], "federation.name": sys.argv[2]}
    if not sys.argv[2].startswith("die-"):  # only who is dead is waited for in vain; on a busy machine others are late
        overrides["federation.round_seconds"] = 60.0
    try:
        work = Work(("deploy", "server"), (sys.argv[1],), str(Path.cwd()), "")
        with led(read_federation(Path(sys.argv[1]), overrides), say, work) as finished:
            say(json.dumps({"rounds": finished.checkpoint.round}))
    except InputError as error:
        say(f"stopped: {error}")
        sys.exit(2)
