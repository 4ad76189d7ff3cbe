"""Every point of a grid with every seed, one tidy row per run, resumed where it stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedspd.assemble.many import run_many
from fedspd.studies.jobs import on_own_records, run_key
from fedspd.studies.sweep.plan import Sweep
from fedspd.studies.sweep.rows import Row, RowFile, begin_rows, check_folder, read_rows, row_of


def run_sweep(
    sweep: Sweep,
    folder: Path,
    engine: str = "auto",
    on_run: Callable[[], Any] = lambda: None,
    on_begin: Callable[[], Any] = lambda: None,
) -> tuple[list[Row], int]:
    """Run what the folder does not hold yet; all rows in the order of the product, and how many were there before.

    Args:
        sweep: what to run.
        folder: of its rows.
        engine: for runs whose own is "auto".
        on_run: called after every run.
        on_begin: called when the folder was found good, before the first run.

    Raises:
        InputError: the folder holds something else, or a run cannot be made as asked for. Finished runs are kept.
    """
    declared = sweep.declared()
    keys = [run_key(config) for config in sweep.configs]
    check_folder(folder, declared, keys)
    found = read_rows(folder)
    on_begin()
    waiting = [place for place, key in enumerate(keys) if key not in found]
    for _ in range(len(keys) - len(waiting)):
        on_run()
    file, begun = RowFile(folder), False
    try:
        for number, finished in run_many([sweep.configs[place] for place in waiting], engine):
            if not begun:  # not earlier: what is refused leaves no folder
                begin_rows(folder, declared, private=bool(on_own_records(sweep.configs)))
                begun = True
            key = keys[waiting[number]]
            found[key] = row_of(finished.summary)
            file.add(key, found[key])
            on_run()
    finally:
        file.close()
    settings = [{**point, "seed": seed} for point in sweep.points for seed in sweep.seeds]
    return [own | found[key] for own, key in zip(settings, keys, strict=True)], len(keys) - len(waiting)
