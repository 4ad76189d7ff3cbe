"""Texts of strangers, as they may stand in a log, on a terminal or in a report."""

MOST = 600


def plain(text: str, most: int = MOST) -> str:
    """One line of printable characters, cut short: nobody writes lines or colors into somebody else's log."""
    start = text[: most + 1]
    shown = "".join(letter if letter.isprintable() else "?" for letter in start[:most])
    return shown + ("..." if len(start) > most else "")
