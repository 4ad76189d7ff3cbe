"""A health line and Prometheus text, on loopback: what a machine may know about a site or a server at work.

Only counts and times of messages: nothing that was computed from records.
"""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from fedspd.errors import InputError

LOOPBACK = "127.0.0.1"
METRICS = {
    "up": ("gauge", "1 while connected"),
    "messages_total": ("counter", "messages by outcome: answered, refused, failed"),
    "last_message_timestamp_seconds": ("gauge", "when the last message was handled"),
    "last_message_seconds": ("gauge", "how long it took"),
    "round": ("gauge", "the last round that was merged"),
    "sites_connected": ("gauge", "sites that are connected"),
}


class Health:
    """Numbers that a page on 127.0.0.1 shows: `/` is one line for people, `/metrics` is for Prometheus.

    Args:
        role: "site" or "server".
        port: 0: no page.
    """

    def __init__(self, role: str, port: int) -> None:
        self.role, self.port = role, port
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = {}
        self._up: Callable[[], bool] = lambda: True
        self._asked: dict[str, Callable[[], float]] = {}
        self._page: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        if self.port:
            try:
                self._page = ThreadingHTTPServer((LOOPBACK, self.port), _handler(self))
            except OSError as error:
                raise InputError(
                    f"expected a free port of {LOOPBACK} for health, got {self.port}: {error.strerror}; name another."
                ) from None
            threading.Thread(target=self._page.serve_forever, daemon=True, name="health").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._page is not None:
            self._page.shutdown()
            self._page.server_close()

    def watch(self, up: Callable[[], bool]) -> None:
        """Ask this whether the role is connected."""
        self._up = up

    def count(self, metric: str, number: Callable[[], float]) -> None:
        """Ask this for a number whenever somebody looks."""
        self._asked[metric] = number

    def set(self, metric: str, value: float) -> None:
        """Give a number its value."""
        with self._lock:
            self._values[metric, ""] = value

    def handled(self, outcome: str, seconds: float) -> None:
        """Count a message."""
        with self._lock:
            key = "messages_total", f'{{outcome="{outcome}"}}'
            self._values[key] = self._values.get(key, 0.0) + 1
            self._values["last_message_timestamp_seconds", ""] = time.time()
            self._values["last_message_seconds", ""] = seconds

    def line(self) -> str:
        """One line for people."""
        values = self._now()
        last = values.pop(("last_message_timestamp_seconds", ""), None)
        up = "connected" if values.pop(("up", "")) else "not connected"
        told = [f"{name}{labels} {value:g}" for (name, labels), value in values.items()]
        told += [] if last is None else [f"last message {time.time() - last:.0f} s ago"]
        return ", ".join([f"fedspd {self.role}: {up}", *told])

    def text(self) -> str:
        """All numbers as Prometheus reads them."""
        lines, told = list[str](), set[str]()
        for (name, labels), value in sorted(self._now().items()):
            full = f"fedspd_{self.role}_{name}"
            if name not in told:
                kind, meaning = METRICS[name]
                lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
                told.add(name)
            lines.append(f"{full}{labels} {value!r}")
        return "\n".join(lines) + "\n"

    def _now(self) -> dict[tuple[str, str], float]:
        with self._lock:
            asked = {(name, ""): float(number()) for name, number in self._asked.items()}
            return {("up", ""): float(self._up()), **asked, **self._values}


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {"/": health.line, "/metrics": health.text}
            page = pages.get(self.path)
            content = (page() if page else "not here: / and /metrics are").encode() + b"\n"
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: a scrape every few seconds is no news."""

    return Handler
