"""How many, and how often, in words."""


def counted(number: int, unit: str) -> str:
    """So many of them."""
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def times(number: int) -> str:
    """So often."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
