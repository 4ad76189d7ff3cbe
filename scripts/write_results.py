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
    for figure in (*folders.comparison.glob("accuracy-epsilon*.png"), folders.comparison / "accuracy-bytes.png"):
        shutil.copy(figure, FIGURES)


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
    cells: dict[tuple[str, str, str, str], dict[float, str]] = {}
    for row in rows:
        if not row["epsilon"]:
            continue
        value = f"{float(row['accuracy, %']):.2f} ± {float(row['accuracy, % s.e.']):.2f}"
        key = (row["data"], row["takes part"], row["method"], row["guarantee"])
        cells.setdefault(key, {})[float(row["epsilon"])] = value
    places = list(dict.fromkeys(key[:2] for key in cells))
    lines = [
        "| data | takes part | method | guarantee | " + " | ".join(f"ε {budget:g}" for budget in budgets) + " |",
        "|---|---|---|---|" + "---|" * len(budgets),
    ]
    for key in sorted(cells, key=lambda key: (places.index(key[:2]), key[3] != "proved", key[2].lower())):
        lines.append(f"| {' | '.join(key)} | {' | '.join(cells[key].get(budget, '–') for budget in budgets)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
