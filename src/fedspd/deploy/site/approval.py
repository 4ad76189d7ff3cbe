"""Approval at the site: runs that the owner names, and where the owner wants it, a person who confirms each."""

from fnmatch import fnmatchcase
from math import ceil
from pathlib import Path
from typing import Any

from fedspd.deploy.protocol.terms import SECURE, Terms, digest_of, settings_between_sites
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.settings import Site, read_site
from fedspd.deploy.site.store import Approval, Store
from fedspd.errors import InputError


def awaited(site: Site, store: Store, terms: Terms, plan: Any) -> str | None:
    """What a run waits for at this site, if anything; runs of names that are not allowed are refused.

    A run is confirmed once: proposals that differ in the other sites alone are the same run.
    """
    require_name(site, terms)
    if not site.policy.ask:
        return None
    asked = store.approval(terms.base_name)
    if asked is not None and asked.approved and asked.terms == question_of(terms, plan):
        return None
    if asked is None or asked.terms != question_of(terms, plan) or asked.approved:
        store.approve(Approval(terms.base_name, question_of(terms, plan), approved=False))
    return f"a person at the site has yet to confirm the run {terms.base_name!r}."


def require_name(site: Site, terms: Terms) -> None:
    """Refuse runs whose names the owner does not allow."""
    if not any(fnmatchcase(terms.base_name, pattern) for pattern in site.policy.runs):
        raise Refusal(f"runs named {terms.base_name!r} are not among those allowed here.")


def question_of(terms: Terms, plan: Any) -> str:
    """What a person confirms: everything but who else takes part."""
    config = settings_between_sites(terms.config)
    config["run"].pop("participants")
    lines = [f"run {terms.base_name}, records {terms.sizes[terms.place]}, schema {terms.schema}, {terms.aggregation}"]
    if terms.aggregation == SECURE:
        lines += [f"at least {terms.threshold} sites in a sum, of which {terms.colluders} may collude"]
    if terms.shares_noise:
        lines += [
            f"epsilon {plan.budgets[terms.place]:.4g} if no more of them tell what they know, and "
            f"{told_alone(plan)} whatever all others do"
        ]
    if terms.bins:
        by = f", by the levels of {terms.subgroup}" if terms.subgroup else ""
        lines += [
            f"{terms.held_out[terms.place]} of them are held out; counts of these by label and {terms.bins} score bins"
            f"{by} are released once, with noise"
        ]
    lines += [f"{section}.{key} = {value}" for section, keys in config.items() for key, value in keys.items()]
    return "\n".join([*lines, f"digest {digest_of(repr(config))}"])


def told_alone(plan: Any) -> str:
    """What the run may cost a site if everybody else colludes, rounded up."""
    return f"{ceil(plan.epsilon_alone * 100) / 100:.2f}"


def waiting(path: Path, run: str | None) -> list[Approval]:
    """Runs that wait for a person at this site, or the one of this name."""
    with Store(read_site(path).path("store")) as store, store.turn():
        found = [asked for asked in store.approvals() if not asked.approved and run in (None, asked.run)]
    if not found:
        raise InputError(f"expected a run that waits for a person, got {'none' if run is None else repr(run)}.")
    return found


def answer_question(path: Path, shown: Approval, yes: bool = True) -> None:
    """Remember that a person said yes to what was shown; a no takes the question back."""
    with Store(read_site(path).path("store")) as store, store.turn():
        if store.approval(shown.run) != shown:
            raise InputError(
                f"expected the terms of {shown.run!r} as they were shown, got others meanwhile; look again."
            )
        if yes:
            store.approve(shown._replace(approved=True))
        else:
            store.forget(shown.run)
