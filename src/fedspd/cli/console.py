"""What commands print with: names from data are shown as they are, never taken for markup or obeyed by a terminal."""

from typing import Any

from rich.console import Console
from rich.text import Text

from fedspd.escaping import escaped_lines


class PlainConsole(Console):
    """A console without markup and emoji codes, whose control characters are escapes but for line ends."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"soft_wrap": True, "markup": False, "emoji": False, **how})

    def render_str(self, text: str, **how: Any) -> Text:
        """Every string that is printed comes through here, cells of tables included."""
        return super().render_str(escaped_lines(text), **how)
