"""A ledger that is created and opened in one go."""

from pathlib import Path

from fedspd.privacy.ledger import Ledger, create_ledger


def new_ledger(path: Path) -> Ledger:
    """An empty ledger, where none was."""
    create_ledger(path)
    return Ledger(path)
