"""Put the tables and figures of finished studies into docs/results.md.

Between two markers the text is replaced by what `make reproduce` and `make compare` wrote; the words around them are
written by hand.

Usage: python scripts/write_results.py [--reproduction runs/reproduction] [--comparison runs/comparison]
"""

import argparse
import csv
import re
import shutil
from pathlib import Path

PAGE = Path("docs/results.md")
FIGURES = Path("docs/figures")
REPRODUCED = ("fig2-published", "fig2-proved", "fig5-published-1", "fig5-proved-1")


def main() -> None:
    """Replace what stands between the markers, and copy the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reproduction", type=Path, default=Path("runs/reproduction"))
    parser.add_argument("--comparison", type=Path, default=Path("runs/comparison"))
    folders = parser.parse_args()
    text = PAGE.read_text()
    text = between(text, "verdict", (folders.reproduction / "verdict.md").read_text())
    text = between(text, "accuracy", pivot(folders.comparison / "leaderboard.csv"))
    text = between(text, "behind", (folders.comparison / "behind.md").read_text())
    PAGE.write_text(text)
    for name in REPRODUCED:
        shutil.copy(folders.reproduction / f"{name}.png", FIGURES)
    for name in ("accuracy-epsilon", "accuracy-bytes"):
        shutil.copy(folders.comparison / f"{name}.png", FIGURES)


def between(text: str, marker: str, content: str) -> str:
    """The text with new content between <!-- marker --> and <!-- end of marker -->."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{PAGE} has no place for {marker}")
    return pattern.sub(lambda _: f"{begin}\n\n{content.strip()}\n\n{end}", text)


def pivot(board: Path) -> str:
    """Accuracy of every method, one row per situation and method, one column per budget."""
    with board.open() as file:
        rows = [row for row in csv.DictReader(file) if row["takes part"]]  # not the one of all records together
    budgets = sorted({float(row["epsilon"]) for row in rows if row["epsilon"]})
    cells: dict[tuple[str, str, str], dict[float, str]] = {}
    for row in rows:
        value = f"{float(row['accuracy, %']):.2f} ± {float(row['accuracy, % s.e.']):.2f}"
        key = (row["data"], row["takes part"], row["method"])
        cells.setdefault(key, {})[float(row["epsilon"]) if row["epsilon"] else 0.0] = value
    private = {key: found for key, found in cells.items() if 0.0 not in found}
    names = list(dict.fromkeys(method for _, _, method in sorted(private, key=lambda key: key[2])))
    places = list(dict.fromkeys(key[:2] for key in cells))
    lines = [
        "| data | takes part | method | " + " | ".join(f"ε {budget:g}" for budget in budgets) + " |",
        "|---|---|---|" + "---|" * len(budgets),
    ]
    for place in places:
        for name in names:
            found = private[(*place, name)]
            lines.append(f"| {' | '.join((*place, name))} | {' | '.join(found[budget] for budget in budgets)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
