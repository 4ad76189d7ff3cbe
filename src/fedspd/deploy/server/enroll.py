"""The start of a run: who is there, and who agrees to its terms. Nothing is spent yet."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace

from fedspd.data import Schema
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.server.checkpoint import Member
from fedspd.deploy.server.post import Post, Say
from fedspd.deploy.server.settings import RunSettings
from fedspd.errors import InputError

LOOK_EVERY = 1.0  # seconds


def enroll(post: Post, settings: RunSettings, schema: Schema, say: Say) -> tuple[list[Terms], list[Member]]:
    """Sites that are there and agree, each with its terms, in the order of their names.

    Guarantees:
        Waits for `deploy.sites` sites for `deploy.start_seconds`, and never longer.
        A site that refuses is left out, and the others get new terms without it; nobody has spent anything.
    """
    members = _present(post, settings, schema, say)
    while True:
        if len(members) < settings.deploy.quorum:
            raise InputError(
                f"expected at least deploy.quorum = {settings.deploy.quorum} sites that agree, got {len(members)}; see "
                "above why, or start more SuperNodes."
            )
        terms = terms_of(settings, schema, members, f"{settings.deploy.name}-{secrets.token_hex(3)}")
        terms[0].agreed(schema)  # refuses settings that no site could agree to
        refused = _ask_to_enter(post, settings, terms, members, say)
        if not refused:
            entered = [replace(member, terms=own.digest) for member, own in zip(members, terms, strict=True)]
            return terms, entered
        members = [member for member in members if member.node not in refused]


def terms_of(settings: RunSettings, schema: Schema, members: list[Member], run: str) -> list[Terms]:
    """The terms of every site."""
    config, sizes = settings.for_sites(len(members)), tuple(member.records for member in members)
    draws = config.run.seed if settings.deploy.fixed_draws else None
    return [
        Terms(run, config, sizes, place, schema.digest, settings.deploy.aggregation, draws)
        for place in range(len(members))
    ]


def _present(post: Post, settings: RunSettings, schema: Schema, say: Say) -> list[Member]:
    deploy, found = settings.deploy, dict[str, Member]()
    deadline, asked = time.monotonic() + deploy.start_seconds, set[int]()
    while len(found) < deploy.sites and time.monotonic() < deadline:
        new = sorted(post.nodes() - asked)[: deploy.sites - len(found)]
        if not new:
            time.sleep(LOOK_EVERY)
            continue
        asked.update(new)
        limit = min(deploy.round_seconds, max(1.0, deadline - time.monotonic()))
        hello = {node: messages.Hello(messages.VERSION) for node in new}
        answers = post.ask("query.hello", hello, limit, "hello")
        for node, why in answers.unreadable.items():
            say(f"node {node} is left out: {why}")
        _note(answers.content, schema, found, say)
        asked -= set(new) - set(answers.content) - set(answers.unreadable)  # who was silent is asked again
    return [found[site] for site in sorted(found)]


def _note(answers: Mapping[int, object], schema: Schema, found: dict[str, Member], say: Say) -> None:
    for node, answer in answers.items():
        match answer:
            case messages.Present(_, records, _) if records < 1:
                say(f"node {node} is left out: it holds no records")
            case messages.Present(site, records, digest) if site and site not in found and digest == schema.digest:
                found[site] = Member(site, node, records)
                say(f"{site} is there with {records} records")
            case messages.Present(site, _, digest) if digest != schema.digest:
                say(f"{site} is left out: its schema is {digest}, the run's is {schema.digest}")
            case messages.Present(site, _, _):
                say(f"node {node} is left out: it calls itself {site!r}, as another one does")
            case messages.Refused(reason, _):
                say(f"node {node} is left out: {reason}")
            case _:
                say(f"node {node} is left out: it answered something else")


def _ask_to_enter(post: Post, settings: RunSettings, terms: list[Terms], members: list[Member], say: Say) -> set[int]:
    requests = {member.node: messages.Enter(own.text) for member, own in zip(members, terms, strict=True)}
    answers = post.ask("query.enter", requests, settings.deploy.round_seconds, "terms")
    refused = set[int]()
    for member, own in zip(members, terms, strict=True):
        match answers.content.get(member.node):
            case messages.Entered(digest) if digest == own.digest:
                continue
            case messages.Refused(reason, _):
                say(f"{member.site} refuses: {reason}")
            case _:
                say(f"{member.site} is left out: {answers.unreadable.get(member.node, 'no answer')}")
        refused.add(member.node)
    return refused
