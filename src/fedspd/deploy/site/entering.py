"""A run is entered, and found again: what would fail in it fails before anything is spent."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedspd.data import Schema
from fedspd.deploy.masks.stages import check_members
from fedspd.deploy.protocol.agreement import agreed_on
from fedspd.deploy.protocol.terms import SECURE, digest_of, read_terms
from fedspd.deploy.site.approval import awaited
from fedspd.deploy.site.computing.local import first_state
from fedspd.deploy.site.computing.rehearsal import rehearse
from fedspd.deploy.site.computing.tables import Tables
from fedspd.deploy.site.memory import from_bytes
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.settings import Site
from fedspd.deploy.site.spending import EnteredRun, Spending
from fedspd.deploy.site.store import Store, StoredRun


def enter_run(
    site: Site, store: Store, spending: Spending | None, tables: Tables, log: Callable[[str], None], entered: EnteredRun
) -> str | None:
    """Enter a run, or say what it waits for."""
    if entered.terms.aggregation == SECURE:
        check_members(entered.terms, *site.signing)
    if spending is not None:
        spending.require_room(entered)
    waiting = awaited(site, store, entered.terms, entered.agreed.plan)
    if waiting is not None:
        log(f"run {entered.terms.base_name}: waits for a person, `fedspd deploy approve` answers")
        return waiting
    rehearse(entered.terms, entered.agreed, tables.schema)
    fingerprint = tables.fingerprint(entered.terms, spending and spending.ledger)
    store.enter(StoredRun(entered.run, entered.terms.text, fingerprint))
    log(f"run {entered.run}: entered under terms {entered.terms.digest}")
    return None


def entered_under(store: Store, digest: str, schema: Schema) -> EnteredRun:
    """The run that was entered under these terms."""
    for run in store.runs():
        if digest_of(run.terms) == digest:
            return EnteredRun(read_terms(run.terms), agreed_on(run.terms, schema))
    raise Refusal("the site has not entered a run under these terms.")


def standing(store: Store, entered: EnteredRun, schema: Schema) -> Any:
    """What the site carries into the next round."""
    first, stored = first_state(*entered, schema), store.state(entered.run)
    return first if stored is None else from_bytes(first, stored)


def held_by_server(store: Store, entered: EnteredRun, ask: Any) -> np.ndarray:
    """What the server holds of the site: the total of the reply it names."""
    if ask.acknowledged == 0 or not entered.agreed.algorithm.keeps_replies:
        return np.zeros_like(ask.weights)
    stored = store.reply(entered.run, ask.acknowledged)
    if stored is None or stored.round == 0:
        raise Refusal(f"the server names reply {ask.acknowledged}, which was never made.")
    return np.frombuffer(stored.total, "<f8").reshape(ask.weights.shape)
