"""The one command that gives a site what its budget hangs on: key, ledger and store. It is run once."""

import os
from collections.abc import Callable
from pathlib import Path

from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.setup.keys import write_private_key
from fedspd.deploy.site.settings import Site, read_site
from fedspd.deploy.site.store import Store, create_store
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger, Mark, create_ledger, mark_of, read_mark, require_mark, write_mark
from fedspd.privacy.ledger.chain import EMPTY
from fedspd.privacy.ledger.mark import from_text, to_text


def join(path: Path, say: Callable[[str], None]) -> None:
    """Make what is missing: a key, a ledger, a store, a witness.

    Guarantees:
        A ledger is made only where neither store nor witness remembers one: a lost ledger is never begun anew.
    """
    os.umask(0o077)
    site = read_site(path)
    _key(site, say)
    if site.budget is None:
        _store(site, to_text(Mark(site.name, EMPTY.rows, 0, EMPTY.hash)), say)
        return
    _ledger(site, say)
    with Ledger(site.path("ledger")) as ledger:
        mark = mark_of(ledger, site.name)
        if site.witness is not None:
            if site.witness.exists():
                require_mark(ledger, read_mark(site.witness))
            else:
                write_mark(site.witness, mark)
                say(f"witness: {site.witness} made; it belongs on another disk than the ledger")
        _store(site, to_text(mark), say)
    with Store(site.path("store")) as store, store.turn(), Ledger(site.path("ledger")) as ledger:
        require_mark(ledger, from_text(store.site()[1]))


def _key(site: Site, say: Callable[[str], None]) -> None:
    path = site.path("key")
    if path.exists():
        say(f"key: {path.name} is there, {read_identity(path).public.fingerprint}")
        return
    write_private_key(path)
    public = read_identity(path).public
    path.with_name(f"{path.name}.pub").write_text(f"{public.line} {site.name}\n")
    say(
        f"key: made, {public.fingerprint}. Send the server's operator this line, and read the fingerprint out by phone:"
    )
    say(f"{public.line} {site.name}")


def _ledger(site: Site, say: Callable[[str], None]) -> None:
    path = site.path("ledger")
    if path.exists():
        say(f"ledger: {path.name} is there")
        return
    remembered = _remembered(site)
    if remembered is not None:
        raise InputError(
            f"expected the ledger at {path}, got no file, and {remembered} remembers one: the ledger was lost. "
            "Restore it from a backup; a new one would be a second budget for the same records."
        )
    create_ledger(path)
    say(f"ledger: {path.name} made. It is what the budget hangs on: keep it, back it up, never make a second one")


def _remembered(site: Site) -> str | None:
    """Who remembers that there was a ledger."""
    if site.witness is not None and site.witness.exists():
        return str(site.witness)
    if site.path("store").exists():
        return site.path("store").name
    return None


def _store(site: Site, mark: str, say: Callable[[str], None]) -> None:
    path = site.path("store")
    if path.exists():
        say(f"store: {path.name} is there")
        return
    create_store(path, site.name, mark)
    say(f"store: {path.name} made")
