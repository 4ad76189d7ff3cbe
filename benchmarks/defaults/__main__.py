"""Do the defaults hold on any federation? Play what is missing, say what holds, write it into docs/results.md.

  python -m benchmarks.defaults run                            everything, on all cores
  python -m benchmarks.defaults run --only adult,credit --part 1/4 --minutes 8
  python -m benchmarks.defaults run --only adult --set data.encode=declared --no-tuning
  python -m benchmarks.defaults check                          tables and verdicts; exit status 1 where one fails
  python -m benchmarks.defaults write                          the same into docs/results.md, with figures and a CSV
  python -m benchmarks.defaults recall                         the runs of that CSV as files, to add seeds to them

Runs are appended to CSV files in a folder, and what any file there tells of is not played again, unless the program has
changed since. Files of several machines can be put into one folder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.defaults.cells import BUILT_IN, PRESET, grid
from benchmarks.defaults.checks import FAILS, collect, missing, verdicts
from benchmarks.defaults.page import FIGURES, Variant, cells_csv, charts, markdown, rows_told
from benchmarks.defaults.play import Job, jobs_of
from benchmarks.defaults.pool import play_all
from benchmarks.defaults.rows import append_rows, read_rows, settings_text
from benchmarks.defaults.tables import GENERATED
from fedspd.cli.progress import progress
from fedspd.config import load, parse_override, parse_overrides
from fedspd.report import draw, to_png
from fedspd.studies.jobs import program_digest
from scripts.write_results import FIGURES as FOLDER
from scripts.write_results import PAGE, between

EVERYTHING = BUILT_IN + GENERATED
TABLE = Path("docs/defaults.csv")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    options = _options(arguments)
    if options.command == "run":
        run(options)
        return 0
    if options.command == "recall":
        append_rows(options.rows / f"{TABLE.stem}.csv", rows_told(TABLE.read_text(), options.program))
        return 0
    variants, absent = read(options)
    if not variants:
        print(f"{options.rows} tells of no run of program {options.program}; run first.", file=sys.stderr)
        return 1
    if options.command == "write":
        write(variants, absent)
    print(markdown(variants, absent))
    return int(any(one.outcome == FAILS for variant in variants for one in variant.verdicts))


def run(options: argparse.Namespace) -> None:
    """Play what no file tells of."""
    settings = parse_overrides(options.set, {})
    load(PRESET, settings)  # refuses what cannot be set before any work
    known = {row.key for row in read_rows(options.rows, options.program) if row.settings == settings_text(settings)}
    number, parts = options.part
    jobs = jobs_of(grid(options.only), options.seeds, options.tuning)[number - 1 :: parts]
    waiting = [left for job in jobs if (left := _left(job, known)) is not None]
    runs = sum(len(job.keys()) for job in waiting)
    print(f"{len(waiting)} jobs with {runs:,} runs to tell of, {len(known):,} known", file=sys.stderr)
    path = options.rows / f"{options.name}.csv"
    with progress("runs", runs, Console(stderr=True), quiet=False) as advance:
        for rows in play_all(waiting, settings, options.program, options.minutes):
            append_rows(path, rows)
            for _ in rows:
                advance()


def _left(job: Job, known: set[tuple[Any, ...]]) -> Job | None:
    """What of a job is not known: a cell or a seed of it stays if any run of it is missing."""
    cells = tuple(cell for cell in job.cells if any((job.kind, cell, seed) not in known for seed in job.seeds))
    seeds = tuple(seed for seed in job.seeds if any((job.kind, cell, seed) not in known for cell in job.cells))
    return job._replace(cells=cells, seeds=seeds) if cells else None


def read(options: argparse.Namespace) -> tuple[list[Variant], int]:
    """What was played by one program, for each set of settings, and how many runs are missing of the first."""
    rows, seeds = read_rows(options.rows, options.program), options.seeds
    variants = []
    for settings in sorted({row.settings for row in rows}):
        results = collect(row for row in rows if row.settings == settings)
        if not results:  # tuned only, so far
            continue
        config = load(PRESET, dict(parse_override(text) for text in settings.split("; ") if text))
        variants.append(Variant(settings, results, verdicts(results, config.section("data").get("encode", "declared"))))
    return variants, missing(variants[0].results, grid(EVERYTHING), seeds) if variants else 0


def write(variants: list[Variant], absent: int) -> None:
    """The page, its figures and the table of all cells."""
    PAGE.write_text(between(PAGE.read_text(), "defaults", markdown(variants, absent)))
    TABLE.write_text(cells_csv(variants))
    for name, (iid, _) in FIGURES.items():
        (FOLDER / f"{name}.png").write_bytes(to_png(draw(charts(variants[0].results, iid))))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "check", "write", "recall"))
    parser.add_argument("--rows", type=Path, default=Path("runs/defaults"), help="folder of the files of runs")
    parser.add_argument("--name", default="rows", help="of the file that runs are appended to")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", type=_names, default=EVERYTHING, help=f"of {','.join(EVERYTHING)}")
    parser.add_argument("--part", type=_part, default=(1, 1), help="one of several equal parts, such as 1/4")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="beside the preset")
    parser.add_argument("--minutes", type=float, help="begin nothing after so many; what is at work is finished")
    parser.add_argument("--no-tuning", dest="tuning", action="store_false", help="by rule alone")
    parser.add_argument("--program", default=program_digest()[:12], help="whose runs; the present one")
    return parser.parse_args(arguments)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(EVERYTHING):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(EVERYTHING)}, got {', '.join(sorted(unknown))}")
    return names


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected a part such as 1/4, got {text!r}")
    return int(number), int(parts)


if __name__ == "__main__":
    sys.exit(main())
