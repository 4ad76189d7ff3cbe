"""Names of columns, levels and features: such as a file can hold, each once."""

from collections.abc import Sequence

from fedspd.data.files.cells import MISSING
from fedspd.errors import InputError


def check_names(what: str, names: Sequence[str], at_least: int) -> None:
    """Refuse too few names, names that a file could not hold, and names that stand twice."""
    if len(names) < at_least:
        raise InputError(f"{what} must be at least {at_least}, got {len(names)}; add some.")
    known: set[str] = set()
    for name in names:
        if name in MISSING or name != name.strip():
            raise InputError(
                f"{what} must be text without spaces around it that does not stand for a missing value, got {name!r}; "
                "change it."
            )
        if name in known:
            raise InputError(f"{what} must all be different, got {name!r} more than once; drop or rename one.")
        known.add(name)
