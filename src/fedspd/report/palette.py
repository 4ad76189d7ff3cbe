"""How series are told apart: by color, safe for color-blind readers, and by dashes, safe for gray print."""

# One line per series: color on white paper, color on a dark screen, dashes as lengths of line and gap.
SERIES: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("#1f5fa8", "#6ea8ee", ()),
    ("#b3402a", "#f08a6c", (7, 3)),
    ("#0b7a5c", "#46c9a0", (2, 2)),
    ("#a86a00", "#e3b341", (8, 3, 2, 3)),
    ("#7a4aa5", "#c29bf0", (4, 2)),
    ("#00789c", "#56c8e8", (10, 2, 2, 2, 2, 2)),
    ("#b03a80", "#f08fc4", (12, 4)),
    ("#555555", "#b4b4b4", (1, 3)),
)
INK, RULE = "#222222", "#7a7a7a"


def style(index: int) -> tuple[str, str, tuple[float, ...]]:
    """Colors and dashes of a series by its place; they start over after the last, dashes shifted by one."""
    light, dark, _ = SERIES[index % len(SERIES)]
    return light, dark, SERIES[(index + index // len(SERIES)) % len(SERIES)][2]
