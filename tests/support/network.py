"""No way out of this machine: whatever asks for another one is refused as if its cable were pulled."""

import errno
import ipaddress
import sys
from collections.abc import Callable
from typing import Any

HOSTS = {
    "socket.getaddrinfo": 0, "socket.gethostbyname": 0, "socket.gethostbyaddr": 0, "http.client.connect": 1,
}  # fmt: skip
"""Which argument of an event names a host."""
ADDRESSES = {"socket.connect", "socket.sendto", "socket.sendmsg"}
"""Events whose second argument is an address: a pair of host and port, or the name of a socket in a file."""


def deny_network(told: Callable[[str], Any] = lambda attempt: None) -> None:
    """From now on, and until this process ends, only this machine can be reached; `told` hears of what was tried."""

    def watch(event: str, values: tuple[Any, ...]) -> None:
        if event not in HOSTS and event not in ADDRESSES:
            return
        host = values[HOSTS[event]] if event in HOSTS else _host(values[1])
        if not _is_here(host):
            told(f"{event} {host!r}")
            raise OSError(errno.ENETUNREACH, f"the network is denied to tests, got {event} of {host!r}")

    sys.addaudithook(watch)


def _host(address: Any) -> Any:
    """Of a pair; a socket in a file, or that of an earlier connection, has none."""
    return address[0] if isinstance(address, tuple) else None


def _is_here(host: Any) -> bool:
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        found = ipaddress.ip_address(str(name).partition("%")[0])
    except ValueError:  # the name of a machine
        return False
    return found.is_loopback or found.is_unspecified
