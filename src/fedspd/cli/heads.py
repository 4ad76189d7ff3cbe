"""The options that copy a ledger's head to a second place when a command has charged it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.privacy.ledger import SecondPlace

HeadFile = Annotated[
    Path | None, typer.Option(help="add the ledger's head to this file afterwards: a copy in a second place")
]
HeadCommand = Annotated[
    str | None, typer.Option(help="hand the ledger's head to this program afterwards, on its standard input")
]


def second_place(file: Path | None, command: str | None) -> "SecondPlace":
    """Where the operator wants copies of the head; a command is split into words, and no shell sees it."""
    from fedspd.privacy.ledger import SecondPlace

    try:
        words = tuple(shlex.split(command or ""))
    except ValueError as error:
        raise InputError(f"--head-command must be a program and its arguments, got {command!r} ({error}).") from None
    if command is not None and not words:
        raise InputError("--head-command must be a program and its arguments, got nothing; name one.")
    return SecondPlace(file, words)


def send_head(place: "SecondPlace", ledger: Path) -> None:
    """Copy the head of a ledger there, if there is such a place."""
    from fedspd.privacy.ledger import Ledger

    if place:
        with Ledger(ledger) as opened:
            place.send(opened)
