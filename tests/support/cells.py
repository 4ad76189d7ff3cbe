"""Texts as they were before they became cells of a spreadsheet."""

import re

QUOTED = re.compile("'+[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def had_back(cell: str) -> str:
    """The text of a cell: quotes before a sign of a formula lose the first of them."""
    return cell[1:] if QUOTED.match(cell) else cell
