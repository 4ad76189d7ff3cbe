"""The ledger of what clients have spent: decide, write, and only then release."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, History
from fedspd.privacy.ledger.accounts import (
    Account,
    Charge,
    Charged,
    Decision,
    Refusal,
    checked_key,
    require_name,
    require_same,
)
from fedspd.privacy.ledger.chain import EMPTY, Head, Row, append, rows_after
from fedspd.privacy.ledger.faults import file_at, require_later, require_same_file
from fedspd.privacy.ledger.file import MOST_ROWS, NO_HASH, connect, refusing
from fedspd.privacy.ledger.terms import Budget, agree, require_relation, room
from fedspd.privacy.ledger.text import event_of, event_text, terms_of, terms_text

Draft = tuple[str, str | None, int | None, str | None, str]  # client, run, round, mechanism, content


class Ledger:
    """An open ledger, for one thread of one process; others may have the same file open.

    Guarantees:
        A file that was tampered with or truncated is refused when it is opened, and so is a missing one.

    Args:
        path: the file, which `create_ledger` made once.
        wait: the seconds to wait for another process to finish its turn.
    """

    def __init__(self, path: Path | str, wait: float = 30.0) -> None:
        self.path = Path(path)
        self._connection = connect(self.path, wait)
        self._process = os.getpid()
        self._head, self._last = EMPTY, ("", "")  # run and time of the last charge
        self._opened = file_at(self.path)
        self._accounts: dict[str, Account] = {}
        try:
            self.catch_up()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was charged is on disk already."""
        self._connection.close()

    @property
    def head(self) -> Head:
        """The number of rows and the hash of the last one, as of the last turn on the file."""
        return self._head

    @property
    def accounts(self) -> Mapping[str, Account]:
        """Every client's terms and history, as of the last turn on the file."""
        return self._accounts

    def catch_up(self) -> None:
        """Read what other processes wrote."""
        with self._turn("BEGIN"):
            pass

    def enter(self, budgets: Mapping[str, Budget], plans: Mapping[str, History] | None = None) -> None:
        """Enter clients with their budgets and, if known, the events they plan to be charged.

        Guarantees:
            A budget never changes: the same one again is fine, another one is refused and nothing is written.
            The first plan stays; what departs from it goes through the privacy filter.
        """
        plans = plans or {}
        for client in budgets:
            require_name("client", client)
        if stray := sorted(set(plans) - set(budgets)):
            raise InputError(f"expected plans of clients with a budget, got one of {stray[0]!r}; declare its budget.")
        # Accounting may take a second for a new plan: not while others wait for their turn.
        new = {client: budget for client, budget in budgets.items() if client not in self._accounts}
        agreed = {client: agree(budget, plans.get(client, ())) for client, budget in new.items()}
        with self._turn("BEGIN IMMEDIATE") as draft:
            for client, budget in budgets.items():
                if client in self._accounts:
                    require_same(client, self._accounts[client].terms.budget, budget)
                else:
                    draft.append((client, None, None, None, terms_text(agreed[client])))

    def charge(self, run: str, round: int, mechanism: str, events: Mapping[str, Event]) -> Decision:
        """Charge each client its event if its budget allows; release for the granted clients, and only then.

        Guarantees:
            The rows of granted clients are on disk when this returns, and nothing is written for the others.
            No client is granted more than its budget allows, however many processes share the ledger.
            A client is granted the same run, round and mechanism once: a noise draw is used once.
        """
        key = checked_key(run, round, mechanism)
        granted: list[str] = []
        refused: dict[str, Refusal] = {}
        with self._turn("BEGIN IMMEDIATE") as draft:
            query = "SELECT client FROM charges WHERE run = ? AND round = ? AND mechanism = ?"
            charged = {client for (client,) in self._connection.execute(query, key)}
            for client, event in events.items():
                account = self._account(client, event)
                if client in charged:
                    refused[client] = "already charged"
                elif not account.allows(event):
                    refused[client] = "budget spent"
                else:
                    granted.append(client)
                    draft.append((client, *key, event_text(event)))
        for client, reason in refused.items():  # by accounting again, so not while others wait for their turn
            if reason == "budget spent":
                refused[client] = self._accounts[client].why_not(events[client])
        return Decision(tuple(granted), refused)

    def affordable(self, events: Mapping[str, Event]) -> tuple[str, ...]:
        """The clients whose budget allows one more event each; nothing is charged."""
        self.catch_up()
        return tuple(client for client, event in events.items() if self._account(client, event).allows(event))

    def room(self, client: str, event: Event) -> int:
        """How many more releases of `event` the client's budget allows."""
        account = self._account(client, event)
        return room(account.terms, account.history, event)

    def charges(self, rows: int | None = None) -> list[Charged]:
        """Charges counted by client, run, mechanism and event, in the order of the first of each.

        Args:
            rows: of the first so many rows, as they were when the ledger had that many; None: of all.
        """
        query = (
            "SELECT client, run, mechanism, event, COUNT(*) FROM charges WHERE sequence <= ? "
            "GROUP BY 1, 2, 3, 4 ORDER BY MIN(sequence)"
        )
        with self._turn("BEGIN"):
            found = self._connection.execute(query, (MOST_ROWS if rows is None else rows,)).fetchall()
        return [Charged(client, run, mechanism, event_of(text), times) for client, run, mechanism, text, times in found]

    def charged_in(self, run: str, mechanisms: Collection[str]) -> dict[int, frozenset[str]]:
        """The clients that a run has charged for some mechanisms, by round."""
        query = "SELECT round, client, mechanism FROM charges WHERE run = ?"
        found: dict[int, set[str]] = {}
        with self._turn("BEGIN"):
            for round, client, mechanism in self._connection.execute(query, (run,)):
                if mechanism in mechanisms:
                    found.setdefault(round, set()).add(client)
        return {round: frozenset(clients) for round, clients in found.items()}

    def charges_after(self, rows: int) -> list[Charge]:
        """The charges among the rows after the first `rows`, one by one and in order."""
        query = "SELECT client, run, round, mechanism, event FROM charges WHERE sequence > ? ORDER BY sequence"
        with self._turn("BEGIN"):
            found = self._connection.execute(query, (rows,)).fetchall()
        return [Charge(client, run, round, name, event_of(text)) for client, run, round, name, text in found]

    def hash_at(self, rows: int) -> str | None:
        """The hash of the head when there were so many rows, or None if there are fewer."""
        query = (
            "SELECT hash FROM clients WHERE sequence = :rows UNION ALL SELECT hash FROM charges WHERE sequence = :rows"
        )
        with self._turn("BEGIN"):
            found = self._connection.execute(query, {"rows": rows}).fetchone()
        if rows == 0:
            return NO_HASH
        return None if found is None else found[0]

    def has_hash(self, hash: str) -> bool:
        """Whether some row has this hash, as a head noted earlier must."""
        query = "SELECT 1 FROM clients WHERE hash = :hash UNION ALL SELECT 1 FROM charges WHERE hash = :hash"
        with self._turn("BEGIN"):
            return self._connection.execute(query, {"hash": hash}).fetchone() is not None

    @contextmanager
    def _turn(self, begin: str) -> Iterator[list[Draft]]:
        """One transaction: read what others wrote, write what the caller drafts; all of it or nothing."""
        if os.getpid() != self._process:
            raise InputError("expected the process that opened the ledger, got a fork of it; open it again.")
        require_same_file(self.path, self._opened)  # SQLite would go on in a file that has no name any more
        draft: list[Draft] = []
        with refusing(self.path):
            try:
                self._connection.execute(begin)
                self._take(*rows_after(self._connection, self._head, self.path))
                yield draft
                time = datetime.now(UTC).isoformat(timespec="milliseconds")
                require_later(self.path, self._last, draft, time)
                rows = [Row(sequence, *values, time) for sequence, values in enumerate(draft, self._head.rows + 1)]
                head = append(self._connection, self._head, rows) if rows else self._head
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._take(rows, head)

    def _take(self, rows: list[Row], head: Head) -> None:
        """Count rows that are on disk."""
        for row in rows:
            if row.run is None:
                self._accounts[row.client] = Account(terms_of(row.content))
            else:
                self._last = row.run, row.time
                history, event = self._accounts[row.client].history, event_of(row.content)
                history[event] = history.get(event, 0) + 1
        self._head = head

    def _account(self, client: str, event: Event) -> Account:
        account = self._accounts.get(client)
        if account is None:
            raise InputError(f"expected a client of the ledger, got {client!r}; enter it with its budget first.")
        if not isinstance(event, Event):
            raise InputError(f"expected an event of fedspd.privacy.accounting for {client!r}, got {event!r}; pass one.")
        require_relation(event.relation, account.terms.budget.relation)
        return account
