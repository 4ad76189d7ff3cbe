"""What an index answers about the locked versions is told as it is, and what it does not answer is told too."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from scripts.ask_advisories import ask, grouped, locked
from scripts.write_dependencies import ROOT

FLAW = {"id": "PYSEC-1", "fixed_in": ["2.0"], "withdrawn": None}
TAKEN_BACK = FLAW | {"id": "PYSEC-2", "withdrawn": "2026-01-01T00:00:00Z"}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_a_known_vulnerability_is_told_with_the_version_that_mends_it_and_one_taken_back_is_not() -> None:
    with index({"/pillow/1.0/json": told("1.0", FLAW, TAKEN_BACK)}) as address:
        assert ask(address, "pillow", "1.0").known == ["PYSEC-1, mended in 2.0"]


def test_an_index_that_answers_for_newest_versions_alone_says_nothing_of_older_ones() -> None:
    with index({"/pillow/json": told("2.0")}) as address:
        assert ask(address, "pillow", "2.0").known == []
        assert ask(address, "pillow", "1.0").known is None
        assert ask(address, "nobody", "1.0").known is None


def test_a_vulnerability_of_a_locked_version_ends_the_command_with_1_and_none_with_0() -> None:
    versions = locked()
    clean = {f"/{name}/json": told(version) for name, version in versions.items() if name != "attrs"}
    flawed = clean | {f"/numpy/{versions['numpy']}/json": told(versions["numpy"], FLAW)}
    assert "no vulnerability is known of 33 of 34 packages\n  no answer about attrs" in asked(clean, 0)
    assert f"\n  numpy {versions['numpy']}: PYSEC-1, mended in 2.0\n" in asked(flawed, 1)


def test_every_dependency_of_an_extra_is_locked_and_so_asked_for() -> None:
    versions = locked()
    assert [name for names in grouped(versions).values() for name in names if name not in versions] == []


def asked(answers: Mapping[str, Any], code: int) -> str:
    with index(answers) as address:
        command = [sys.executable, "scripts/ask_advisories.py", address]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (code, "")
    return ended.stdout


def told(version: str, *vulnerabilities: Any) -> dict[str, Any]:
    return {"info": {"version": version}, "vulnerabilities": vulnerabilities}


@contextmanager
def index(answers: Mapping[str, Any]) -> Iterator[str]:
    """An index on this machine that answers so, and knows no other address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
