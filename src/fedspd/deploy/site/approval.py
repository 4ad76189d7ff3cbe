"""Approval at the site: runs that the owner names, and where the owner wants it, a person who confirms each."""

from fnmatch import fnmatchcase
from pathlib import Path

from fedspd.deploy.protocol.terms import Terms, digest_of
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.settings import Site, read_site
from fedspd.deploy.site.store import Approval, Store
from fedspd.errors import InputError


def require_approval(site: Site, store: Store, terms: Terms) -> None:
    """Refuse runs of other names, and those that nobody has confirmed yet; the latter for now only.

    A run is confirmed once: proposals that differ in the other sites alone are the same run.
    """
    if not any(fnmatchcase(terms.base_name, pattern) for pattern in site.policy.runs):
        raise Refusal(f"runs named {terms.base_name!r} are not among those allowed here.")
    if not site.policy.ask:
        return
    asked = store.approval(terms.base_name)
    if asked is not None and asked.approved and asked.terms == question_of(terms):
        return
    store.approve(Approval(terms.base_name, question_of(terms), approved=False))
    store.settle()  # a refusal would take the question back
    raise Refusal(f"a person at the site has yet to confirm the run {terms.base_name!r}.", final=False)


def question_of(terms: Terms) -> str:
    """What a person confirms: everything but who else takes part."""
    config = terms.config.to_dict()
    config["partition"].pop("clients")
    config["run"].pop("participants")
    lines = [f"run {terms.base_name}, records {terms.sizes[terms.place]}, schema {terms.schema}, {terms.aggregation}"]
    lines += [f"{section}.{key} = {value}" for section, keys in config.items() for key, value in keys.items()]
    return "\n".join([*lines, f"digest {digest_of(repr(config))}"])


def waiting(path: Path, run: str | None) -> list[Approval]:
    """Runs that wait for a person at this site, or the one of this name."""
    with Store(read_site(path).path("store")) as store, store.turn():
        found = [asked for asked in store.approvals() if not asked.approved and run in (None, asked.run)]
    if not found:
        raise InputError(f"expected a run that waits for a person, got {'none' if run is None else repr(run)}.")
    return found


def answer_question(path: Path, run: str) -> None:
    """Remember that a person said yes."""
    with Store(read_site(path).path("store")) as store, store.turn():
        asked = store.approval(run)
        assert asked is not None
        store.approve(asked._replace(approved=True))
