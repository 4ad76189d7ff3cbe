"""Put the tables and figures of finished studies into docs/results.md.

Between two markers the text is replaced by what `make reproduce` and `make compare` wrote, as far as their folders are
there; the words around them are written by hand.

Usage: python scripts/write_results.py [--reproduction runs/reproduction] [--comparison runs/comparison]
"""

import argparse
import csv
import json
import re
import shutil
from pathlib import Path

from fedspd.studies.compare.page import BESIDE
from fedspd.studies.lineup import SECURE_SUMS

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
    if folders.reproduction.exists():
        text = between(text, "verdict", (folders.reproduction / "verdict.md").read_text())
        for name in REPRODUCED:
            shutil.copy(folders.reproduction / f"{name}.png", FIGURES)
    if folders.comparison.exists():
        text = compared(text, folders.comparison)
    PAGE.write_text(text)


def compared(text: str, study: Path) -> str:
    """The page with what a comparison found; figures of an earlier one are removed."""
    for old in FIGURES.glob("accuracy-*.png"):
        old.unlink()
    drawn = sorted(study.glob("accuracy-epsilon*.png"))
    trusted = sorted(study.glob("accuracy-trust*.png"))
    for figure in (*drawn, *trusted, *study.glob("accuracy-bytes-adult.png")):
        shutil.copy(figure, FIGURES)
    names = [(path.stem.removeprefix("accuracy-trust-"), path.name) for path in trusted]
    shown = [
        f"![Accuracy against epsilon under three kinds of trust on {data}](figures/{name})" for data, name in names
    ]
    text = between(text, "trust", "\n".join((*shown, "", *relied_on(study / "page.json"))))
    text = between(text, "figures", "\n".join(f"![{caption(path.stem)}](figures/{path.name})" for path in drawn))
    text = between(text, "classes", (study / "summary.md").read_text())
    text = between(text, "accuracy", pivot(study / "leaderboard.csv"))
    return between(text, "behind", told_apart(study / "behind.csv"))


def relied_on(page: Path) -> list[str]:
    """What secure sums and a trusted server rest on, as the comparison says it: the caption of all figures of trust."""
    stated = json.loads(page.read_text())["privacy"]
    return [text.partition(f" {BESIDE}")[0] for text in stated if text.startswith(SECURE_SUMS)]


def caption(name: str) -> str:
    """Of a figure: which data, and which methods."""
    data, _, company = name.removeprefix("accuracy-epsilon-").partition("-")
    return f"Accuracy against epsilon on {data}: {company.replace('-', ' ') or 'the baselines of the paper'}"


def told_apart(table: Path) -> str:
    """Only those duels that are lost beyond chance."""
    with table.open() as file:
        columns, *rows = csv.reader(file)
    known = columns.index("told apart")
    shown = [place for place in range(len(columns)) if place != known and not columns[place].endswith("s.e.")]
    lines = ["| " + " | ".join(columns[place] for place in shown) + " |", "|" + "---|" * len(shown)]
    for row in rows:
        if row[known] == "yes":
            lines.append("| " + " | ".join(shortened(row[place]) for place in shown) + " |")
    return "\n".join(lines)


def shortened(text: str) -> str:
    """Numbers with two digits."""
    return f"{float(text):.2f}" if re.fullmatch(r"\d+\.\d{3,}", text) else text


def between(text: str, marker: str, content: str) -> str:
    """The text with new content between <!-- marker --> and <!-- end of marker -->."""
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{PAGE} has no place for {marker}")
    return pattern.sub(lambda _: f"{begin}\n\n{content.strip()}\n\n{end}", text)


def pivot(board: Path) -> str:
    """Accuracy and class of every method: a table per data, one row per situation and method, one column per budget."""
    with board.open() as file:
        rows = [row for row in csv.DictReader(file) if row["epsilon"]]
    return "\n\n".join(
        f"On {data}:\n\n{one_pivot([row for row in rows if row['data'] == data])}"
        for data in dict.fromkeys(row["data"] for row in rows)
    )


def one_pivot(rows: list[dict[str, str]]) -> str:
    """Of one data set."""
    measure = next(name for name in rows[0] if name.endswith(", %"))
    budgets = sorted({float(row["epsilon"]) for row in rows})
    cells: dict[tuple[str, str, str, str], dict[float, str]] = {}
    for row in rows:
        value = "–"  # it diverged
        if row[measure]:
            value = f"{float(row[measure]):.2f} ± {float(row[f'{measure} s.e.']):.2f}"
        value += f" ({row['class']})" if row["class"] else ""
        key = (row["deal"], row["takes part"], row["method"], row["guarantee"])
        cells.setdefault(key, {})[float(row["epsilon"])] = value
    places = list(dict.fromkeys(key[:2] for key in cells))
    lines = [
        "| deal | takes part | method | guarantee | " + " | ".join(f"ε {budget:g}" for budget in budgets) + " |",
        "|---|---|---|---|" + "---|" * len(budgets),
    ]
    for key in sorted(cells, key=lambda key: (places.index(key[:2]), key[3] != "proved", key[2].lower())):
        lines.append(f"| {' | '.join(key)} | {' | '.join(cells[key].get(budget, '–') for budget in budgets)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
