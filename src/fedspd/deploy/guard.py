"""The site's own `flwr-clientapp`: it runs the app that is installed at the site, never code that a server sends.

Flower sends an app's code to every SuperNode and runs it there, beside the records. A SuperNode that finds this program
in place of Flower's (first on its PATH, `bin/` in a site's folder) takes messages as usual and hands them to
`fedspd.deploy.app`; what the server packed is neither unpacked nor imported.
"""

import argparse
from typing import Any

from flwr.common.args import add_args_flwr_app_common, try_obtain_flwr_app_token
from flwr.supercore.tls import validate_and_resolve_root_certificates
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
    parser = argparse.ArgumentParser(description="Run the Flower ClientApp that is installed at this site.")
    parser.add_argument("--runtime-api-address", required=True, help="where the SuperNode listens")
    add_args_flwr_app_common(parser)
    arguments = parser.parse_args()
    runtime.run_clientapp(
        runtime_api_address=arguments.runtime_api_address,
        token=try_obtain_flwr_app_token(arguments),
        insecure=arguments.insecure,
        certificates=validate_and_resolve_root_certificates(arguments.root_certificates, arguments.insecure),
        parent_pid=arguments.parent_pid,
    )


def _nothing(*_: Any, **__: Any) -> None:
    """Leave the server's code alone."""


if __name__ == "__main__":
    main()
