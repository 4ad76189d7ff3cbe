"""What both kinds of commands of a deployment say and need."""

from fedspd.cli.console import PlainConsole

out = PlainConsole()


def say(line: str) -> None:
    """Print a line at once, as it is."""
    out.print(line, highlight=False, markup=False)


def require_flower() -> None:
    """Refuse in a sentence where the extra is not installed."""
    from fedspd.deploy import flower

    flower.require_flower()
    flower.quiet()
