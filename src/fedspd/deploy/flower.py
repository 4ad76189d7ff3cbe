"""The versions of Flower this package was tested with, and how Flower is kept quiet.

The launchers call Flower's inside, which may change with any version: an untested one is refused by name.
"""

import logging
import os

from fedspd.errors import InputError

TESTED = ("1.41.0",)

# Flower reads these when it is imported: without them it calls home.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")


def require_flower() -> None:
    """Refuse to go on without Flower, or with a version that was not tested."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise InputError('deployment needs Flower, got none; pip install "fedspd[flower]".') from None
    if found not in TESTED:
        raise InputError(
            f"expected a version of Flower that was tested, {' or '.join(TESTED)}, got {found}; "
            f"pip install flwr=={TESTED[-1]}."
        )


def quiet() -> None:
    """Leave the terminal to our own lines, which say what happens; Flower reports each stranger at length."""
    import flwr.supercore.logger  # noqa: F401 (it sets levels of its own when it is imported)

    for name in ("flwr", "httpx", "httpcore", "uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.CRITICAL if name == "flwr" else logging.WARNING)
