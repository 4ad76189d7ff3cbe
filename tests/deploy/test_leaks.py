"""What leaves a site: releases and refusals. No record, no un-noised number, no text of an error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.data import read_table
from fedspd.deploy.protocol.messages import VERSION, Ask, Enter, Hello, Refused, Reply
from fedspd.deploy.site import respond
from fedspd.deploy.site.client import Client
from fedspd.deploy.site.computing.records import Records
from tests.deploy.test_statistics import Residuals
from tests.support.deploy.sites import NO_PRIVACY, Federation, ask, federation, measure, play

AGE, INCOME = "63.4375", "48271.125"
SECRET = "patient-0451"


def marked(folder: Path, **run: Any) -> Federation:
    """A site all of whose records are one that is easy to recognize."""
    made = federation(folder, **run)
    header = "age,income,color,bought,remark"
    (made.sites[0].parent / "records.csv").write_text("\n".join([header, *[f"{AGE},{INCOME},red,yes,{SECRET}"] * 120]))
    return made


def said(made: Federation, captured: Any) -> bytes:
    """Everything that left the site or was printed or logged: messages, both streams, the log."""
    parts: list[Any] = [made.log(), captured.out, captured.err]
    for message in made.grid.got:
        parts += [message.metadata.message_type, message.metadata.group_id, *message.content["fedspd"].values()]
    return b"\n".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)


def traces(made: Federation, residuals: Residuals, asked: Ask, state: Any) -> list[bytes]:
    """Bytes by which the records, their features or the query would be recognized."""
    table = read_table(made.sites[0].parent / "records.csv", made.schema)
    numeric = table.features[:, made.schema.numeric]
    numbers = [*np.unique(numeric), *numeric.sum(axis=0), *(numeric**2).sum(axis=0)]
    numbers += [number for number in np.unique(residuals.query(asked, state)) if abs(number) > 1e-9]
    texts = [AGE, INCOME, SECRET, *(f"{number:.6g}" for number in numbers)]
    return [text.encode() for text in texts] + [np.float64(number).tobytes() for number in numbers]


def test_nothing_that_leaves_a_site_holds_a_record_or_the_query(tmp_path: Path, capfd: Any) -> None:
    made = marked(tmp_path, data__scaling="noisy-moments")
    made.tell(0, Hello(VERSION, "nonce"))
    terms = made.enter()
    measure(made, terms)
    residuals = Residuals(made, terms)
    state = residuals.state()
    play(made, terms)
    made.tell(0, ask(terms, weights=1e15))
    everything = said(made, capfd.readouterr())
    assert b"played, charge 2" in everything
    assert [trace for trace in traces(made, residuals, ask(terms), state) if trace in everything] == []


def test_the_search_finds_a_query_that_does_leave(tmp_path: Path, capfd: Any) -> None:
    """Of a method without privacy, at a site that needs none."""
    made = marked(tmp_path, protected=False, algorithm__name="fedavg", algorithm__inverse_step=1.0, **NO_PRIVACY)
    terms = made.enter()
    residuals = Residuals(made, terms)
    state = residuals.state()
    play(made, terms)
    everything = said(made, capfd.readouterr())
    assert [trace for trace in traces(made, residuals, ask(terms), state) if trace in everything]


class Breaks(Client):
    """Fails where the records are at hand, with a text that holds them."""

    def play(self, request: Ask) -> Reply:
        table = self.records.table(self.site.path("data"), self.schema)
        raise ValueError(f"cannot fit {SECRET}: {AGE}, {table.features[0].tolist()}")


class BreaksInAnother(Client):
    """The same, while another error is handled."""

    def play(self, request: Ask) -> Reply:
        try:
            Breaks.play(self, request)  # pyright: ignore[reportArgumentType]
        except ValueError as error:
            raise RuntimeError(f"in round {request.round}: {error}") from error
        raise AssertionError


@pytest.mark.parametrize("kind", [Breaks, BreaksInAnother])
def test_the_text_of_an_error_reaches_neither_the_server_nor_the_log(
    kind: type[Client], tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = marked(tmp_path)
    terms = made.enter()
    monkeypatch.setattr(respond, "Client", kind)
    answer = made.tell(0, ask(terms))
    assert answer == Refused("the site could not answer; its log says why.", final=False)
    everything = said(made, capfd.readouterr())
    assert b"Error at test_leaks.py:" in everything
    for text in (SECRET, AGE, "0.26875", "cannot fit"):
        assert text.encode() not in everything


def test_a_file_that_cannot_be_used_is_refused_without_a_cell_of_it(tmp_path: Path, capfd: Any) -> None:
    made = marked(tmp_path)
    path = made.sites[0].parent / "records.csv"
    for line in (f"{AGE},{INCOME},red,{SECRET},x", f"{AGE},{SECRET}", f'"{SECRET}'):
        path.write_text("\n".join(["age,income,color,bought,remark", f"{AGE},{INCOME},red,yes,x", line]))
        for request in (Hello(VERSION, "nonce"), Enter(made.terms().text)):
            assert made.tell(0, request) == Refused("the site could not answer; its log says why.", final=False)
    path.write_text(f"{SECRET},income,color,bought,{AGE}\n{AGE},{INCOME},red,yes,x")
    assert isinstance(made.tell(0, Hello(VERSION, "nonce")), Refused)
    everything = said(made, capfd.readouterr())
    assert b"row 3" in everything
    for text in (SECRET, AGE, INCOME):
        assert text.encode() not in everything


def test_a_site_whose_own_file_is_broken_says_why_to_its_own_people_alone(tmp_path: Path) -> None:
    made = federation(tmp_path)
    made.sites[0].write_text(f"[site]\nname = {SECRET}")
    assert made.tell(0, Hello(VERSION, "nonce")) == Refused("the site could not answer; its log says why.", final=False)
    answer = respond.respond(made.sites[0], "query.hello", Hello(VERSION, "nonce"), Records())
    assert "is not valid TOML" in answer.line


def test_what_a_site_stores_of_a_proved_run_is_what_it_sent(tmp_path: Path) -> None:
    """The store needs no more protection than the messages: totals and states are functions of releases."""
    made = marked(tmp_path)
    terms = made.enter()
    residuals = Residuals(made, terms)
    state = residuals.state()
    play(made, terms)
    stored = b"".join(path.read_bytes() for path in made.sites[0].parent.glob("store.db*"))
    assert b"played" not in stored
    assert [trace for trace in traces(made, residuals, ask(terms), state) if trace in stored] == []
