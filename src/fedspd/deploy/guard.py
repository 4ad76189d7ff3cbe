"""The site's own `flwr-clientapp`: it runs the app that is installed at the site, never code that a server sends.

Flower sends an app's code to every SuperNode and runs it there, beside the records. A SuperNode that finds this program
in place of Flower's (first on its PATH, `bin/` in a site's folder) takes messages as usual and hands them to
`fedspd.deploy.app`; what the server packed is neither unpacked nor imported.
"""

from typing import Any

from flwr.supernode.cli import flwr_clientapp as command
from flwr.supernode.runtime import run_clientapp as runtime

from fedspd.deploy.app import client_app

REPLACED = ("install_from_fab", "install_app_dependencies", "get_load_client_app_fn")
"""What Flower's program calls to unpack, install and import an app."""

SCRIPT = """#!/bin/sh
# The site runs the app that is installed here, not one that a server sends.
exec python -P -m fedspd.deploy.guard "$@"
"""


def main() -> None:
    """Flower's program with the site's own app in it."""
    missing = [name for name in REPLACED if not hasattr(runtime, name)]
    if missing:
        raise SystemExit(f"fedspd's guard does not fit this version of Flower: it has no {missing[0]}; nothing is run.")
    unpack, install, load = REPLACED
    setattr(runtime, unpack, _nothing)
    setattr(runtime, install, _nothing)
    setattr(runtime, load, lambda *_, **__: lambda *_: client_app)
    run: Any = getattr(command, "flwr_clientapp", command)
    run()


def _nothing(*_: Any, **__: Any) -> None:
    """Leave the server's code alone."""


if __name__ == "__main__":
    main()
