"""The start of a run: who is there, and who agrees to its terms. Nothing is spent yet."""

import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from fedspd import __version__
from fedspd.data import Schema
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.agreement import agreement_of
from fedspd.deploy.protocol.terms import MOST_RECORDS, SECURE, Terms
from fedspd.deploy.server.checkpoint import Member
from fedspd.deploy.server.post import Post, Say
from fedspd.deploy.server.settings import RunSettings
from fedspd.errors import InputError
from fedspd.results.counted import counted

LOOK_EVERY = 0.5  # seconds
SAY_EVERY = 10.0
FAR_MORE = 20  # times the median of the others: step sizes and noise of all follow from the records of each
ASK_AGAIN_SECONDS = 5.0  # who was silent, or is to be mended: meanwhile somebody may have


class Verdict(NamedTuple):
    """What sites said to terms, by node."""

    refused: set[int]
    waiting: set[int]  # for a person at the site


def enroll(post: Post, settings: RunSettings, schema: Schema, say: Say) -> tuple[list[Terms], list[Member]]:
    """Sites that are there and agree, each with its terms, in the order of their names.

    Guarantees:
        Waits for the sites for `federation.start_seconds`, and never longer.
        A site that refuses is left out, and the others get new terms without it; nobody has spent anything.
    """
    deadline = time.monotonic() + settings.federation.start_seconds
    members, base = _present(post, settings, schema, say, deadline), secrets.token_hex(3)
    for proposal in range(1, len(settings.seats) + 2):
        members = _summable(settings, members, say)
        if len(members) < settings.federation.quorum:
            raise InputError(
                f"expected at least federation.quorum = {settings.federation.quorum} sites that agree, got "
                f"{len(members)}; see above why, or start more sites."
            )
        terms = terms_of(settings, schema, members, f"{settings.federation.name}-{base}.{proposal}")
        refused = _unfit(settings, schema, terms, members, say)
        refused = refused or _until_agreed(post, settings, schema, terms, members, say, deadline)
        if not refused:
            entered = [replace(member, terms=own.digest) for member, own in zip(members, terms, strict=True)]
            return terms, entered
        members = [member for member in members if member.node not in refused]
    raise InputError("expected sites that agree to some terms, got none; see above why.")


def _summable(settings: RunSettings, members: list[Member], say: Say) -> list[Member]:
    """The sites without those of cohorts that could never be summed: of these nobody is asked, and nobody charged.

    Who is a member of a run is fixed by its terms, so a cohort that is short now stays short.
    """
    if settings.cohorts == 1:
        return members
    known = settings.members
    there = Counter(known.cohort(member.site) for member in members)
    short = {cohort for cohort in range(1, settings.cohorts + 1) if there[cohort] < known.threshold}
    if len(short) == settings.cohorts:
        got = ", ".join(f"{there[cohort]} of cohort {cohort}" for cohort in sorted(short))
        raise InputError(
            f"expected at least one cohort of which {known.threshold} sites agree, got {got}; see above why, start "
            "more sites, or lower privacy.cohorts."
        )
    for cohort in sorted(short):
        say(
            f"cohort {cohort} is left out of the run: {there[cohort]} of its sites agree, {known.threshold} are needed "
            "in a sum"
        )
    return [member for member in members if known.cohort(member.site) not in short]


def terms_of(settings: RunSettings, schema: Schema, members: list[Member], run: str) -> list[Terms]:
    """The terms of every site."""
    federation = settings.federation
    masked = federation.aggregation == SECURE
    names = tuple(member.site for member in members) if masked else ()
    known, sizes = settings.members, tuple(member.records for member in members)
    numbers = (known.threshold, known.colluders) if masked else (0, 0)
    cohorts = tuple(known.cohort(name) for name in names) if settings.cohorts > 1 else ()
    config = settings.for_sites(len(members), len(set(cohorts)) or 1)
    draws = (config.run.seed or 0) if federation.fixed_draws else None
    cohorts = () if set(cohorts) == {1} else cohorts  # one of all sites, or the first alone
    measured = config.evaluation.held_out is not None
    counts: Any = {"bins": settings.measure.bins, "subgroup": settings.measure.subgroup} if measured else {}
    return [
        Terms(
            run, config, sizes, place, schema.digest, federation.aggregation, draws,
            largest_weight=federation.largest_weight, members=names, threshold=numbers[0], colluders=numbers[1],
            cohorts=cohorts, **counts,
        )
        for place in range(len(members))
    ]  # fmt: skip


def _unfit(settings: RunSettings, schema: Schema, terms: list[Terms], members: list[Member], say: Say) -> set[int]:
    """Sites whose number of records no run of these settings could have; where it is not that, the settings are."""
    try:
        terms[0].agreed(schema)
        return set()
    except InputError as error:
        refused = set[int]()
        for member in members:
            try:
                terms_of(settings, schema, [member], terms[0].run)[0].agreed(schema)
            except InputError as own:
                say(f"{member.site} is left out, with {member.records} records: {own}")
                refused.add(member.node)
        if refused in (set(), {member.node for member in members}):
            raise error from None
        return refused


def _believed(settings: RunSettings, found: dict[str, Member], say: Say) -> dict[str, Member]:
    """Sites but those that claim far more records than the others, unless the operator wrote that they may."""
    kept = {}
    for site, member in found.items():
        others = [other.records for name, other in found.items() if name != site]
        most = settings.most_records[site] or (FAR_MORE * median(others) if others else MOST_RECORDS)
        if member.records <= most:
            kept[site] = member
        else:
            say(
                f"{site} is left out: it claims {member.records} records, {FAR_MORE} times more than the others do; if "
                "that is right, write most_records into its [[site]] in federation.toml"
            )
    return kept


def _present(post: Post, settings: RunSettings, schema: Schema, say: Say, deadline: float) -> list[Member]:
    wanted, found = settings.sites, dict[str, Member]()
    asked, said, say = dict[int, float](), 0.0, _once(say)
    while len(found) < wanted and time.monotonic() < deadline:
        there = {member.node for member in found.values()}
        recent = {node for node, when in asked.items() if time.monotonic() - when < ASK_AGAIN_SECONDS}
        new = sorted(post.nodes() - there - recent)[: wanted - len(found)]
        if not new:
            if time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                absent = sorted(set(post.names.values()) - set(found))
                say(f"waiting: {len(found)} of {wanted} sites; not there: {', '.join(absent[:10])}")
            time.sleep(LOOK_EVERY)
            continue
        asked |= dict.fromkeys(new, time.monotonic())
        limit = min(settings.federation.round_seconds, max(1.0, deadline - time.monotonic()))
        nonce = secrets.token_hex(16)
        hello = messages.Hello(messages.VERSION, nonce, settings.config.privacy.unit)
        answers = post.ask("query.hello", dict.fromkeys(new, hello), limit, "hello")
        for node, why in answers.unreadable.items():
            say(f"{post.names.get(node, node)} is left out: {why}")
        _note(post.names, answers.content, settings, schema, nonce, found, say)
    found = _believed(settings, found, say)
    return [found[site] for site in sorted(found)]


def _once(say: Say) -> Say:
    """Says the same sentence in a row of questions once, but for what a run waits for."""
    said = set[str]()

    def once(line: str) -> None:
        if line.startswith("waiting") or line not in said:
            say(line)
        said.add(line)

    return once


def _note(
    names: Mapping[int, str], answers: Mapping[int, object], settings: RunSettings, schema: Schema, nonce: str,
    found: dict[str, Member], say: Say,
) -> None:  # fmt: skip
    for node, answer in answers.items():
        site = names.get(node, f"node {node}")
        match answer:
            case messages.Present():
                why = _unbelievable(site, answer, settings, schema, nonce)
                if why is None:
                    found[site] = Member(site, node, answer.records)
                    say(f"{site} is there with {counted(answer.records, settings.config.privacy.unit)}")
                else:
                    say(f"{site} is left out: {why}")
            case messages.Refused(reason, _):
                say(f"{site} is left out: {reason}")
            case _:
                say(f"{site} is left out: it answered something else")


def _unbelievable(
    site: str, present: messages.Present, settings: RunSettings, schema: Schema, nonce: str
) -> str | None:
    """Why a site's claims are not believed, or None. Step sizes and noise follow from what is believed here."""
    key = settings.members.get(site)
    if key is None:
        return "its key is not in the federation's file"
    if present.site != site:
        return f"it calls itself {present.site[:60]!r}, its key is that of {site!r}"
    if not key.verify(present.signature, "present", *messages.signed_presence(present, nonce)):
        return "what it says is not signed by its key"
    most = settings.most_records[site] or MOST_RECORDS
    if not 1 <= present.records <= most:
        return f"it claims {present.records} records, and federation.toml believes 1 to {most} of it"
    if present.schema != schema.digest:
        return f"its schema is {present.schema[:40]}, the run's is {schema.digest}"
    if present.program != __version__:
        return f"it runs fedspd {present.program[:40]}, the server {__version__}; install the same version"
    return None


def _until_agreed(
    post: Post, settings: RunSettings, schema: Schema, terms: list[Terms], members: list[Member], say: Say,
    deadline: float,
) -> set[int]:  # fmt: skip
    """Nodes that refuse; who waits for a person is asked again until the time is over."""
    expected, open_, said = agreement_of(terms[0].agreed(schema)), list(zip(members, terms, strict=True)), set[str]()
    refused = set[int]()
    while True:
        verdict = _asked(post, settings, open_, expected, say, said)
        refused |= verdict.refused
        open_ = [(member, own) for member, own in open_ if member.node in verdict.waiting]
        if not open_ or time.monotonic() >= deadline:
            for member, _ in open_:
                say(f"{member.site} is left out: nobody there confirmed the run in time")
            return refused | verdict.waiting
        time.sleep(LOOK_EVERY)


def _asked(
    post: Post, settings: RunSettings, open_: list[tuple[Member, Terms]], expected: str, say: Say, said: set[str]
) -> Verdict:
    requests = {member.node: messages.Enter(own.text) for member, own in open_}
    answers = post.ask("query.enter", requests, settings.federation.round_seconds, "terms")
    verdict = Verdict(set(), set())
    for member, own in open_:
        match answers.content.get(member.node):
            case messages.Entered(digest, agreement, program) if digest == own.digest:
                if (agreement, program) == (expected, __version__):
                    continue
                say(
                    f"{member.site} is left out: it derives another method or plan from the same terms (fedspd "
                    f"{program[:40]} there, {__version__} here); install the same versions"
                )
            case messages.Waiting(reason):
                if reason not in said:
                    say(f"{member.site}: {reason}")
                said.add(reason)
                verdict.waiting.add(member.node)
                continue
            case messages.Refused(reason, _):
                say(f"{member.site} refuses: {reason}")
            case _:
                say(f"{member.site} is left out: {answers.unreadable.get(member.node, 'no answer')}")
        verdict.refused.add(member.node)
    return verdict
