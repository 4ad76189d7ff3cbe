"""The command that goes on with what was cut off: resume."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fedspd.cli.console import PlainConsole
from fedspd.errors import InputError
from fedspd.results.work import Work, read_work, unfinished

EXAMPLES = """
The folder holds `unfinished.json` as long as its work is not done: the command as it was called, which is called again.
What is finished already is not made again, and what comes out is what would have come out, to the last bit, but for
times. Only your own folders are taken up. Of a run over several hosts, resume is process 0: call the others as before.

Examples:

- `fedspd resume runs/sweep`

- `fedspd resume runs/20260101-120000-000000-proved`
"""
err = PlainConsole(stderr=True)
RESUMABLE = (("run",), ("sweep",), ("reproduce",), ("compare",), ("audit",), ("deploy", "server"))
OUT = "--out"


def register(app: typer.Typer) -> None:
    """Add the command."""

    def resume(folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder with unfinished work")]) -> None:
        """Go on with a run, a sweep, a study, an audit or a server that was cut off, by a kill or by a power cut."""
        _go_on(typer.main.get_command(app), folder)

    app.command(epilog=EXAMPLES)(resume)


def work_of(context: typer.Context, key: str = "", secret: int | None = None) -> Work:
    """The command that a context belongs to, as it was called."""
    command = tuple(context.command_path.split()[1:])
    return Work(command, _typed(context), str(Path.cwd()), key, secret)


def resumed(context: typer.Context) -> Work | None:
    """What a command goes on with, where it is called by `fedspd resume`."""
    return context.find_object(Work)


@contextmanager
def cut_off_anytime(context: typer.Context, folder: Path, private: bool, key: str = "") -> Iterator[None]:
    """Mark the folder of many runs while they are made; each is kept when it is finished, so any error may end them."""
    goes_on = resumed(context) is not None
    try:
        work = work_of(context, key)
        with unfinished(folder, work, private, lambda error: goes_on or not isinstance(error, InputError)):
            yield
    except KeyboardInterrupt:
        err.print(f"fedspd: stopped; `fedspd resume {folder}` goes on from here.", highlight=False, markup=False)
        raise typer.Exit(130) from None


def _go_on(program: Any, folder: Path) -> None:
    """Call the command of a folder's work again, from where it was called."""
    work = read_work(folder)
    if work.command not in RESUMABLE:
        known = ", ".join(" ".join(command) for command in RESUMABLE)
        raise InputError(f"expected work of {known}, got {' '.join(work.command)!r}; call it again yourself.")
    place = [f"{OUT}={folder.resolve()}"] if len(work.command) == 1 else []
    try:
        os.chdir(work.started_in)
    except OSError as error:
        raise InputError(
            f"expected the folder {work.started_in}, from which the work was begun, got: {error.strerror}; restore it."
        ) from error
    arguments = [*work.command, *place, *work.arguments]
    code = program.main(arguments, prog_name="fedspd", standalone_mode=False, obj=work)
    if code:
        raise typer.Exit(code)


def _typed(context: typer.Context) -> tuple[str, ...]:
    """The arguments of a call, but for where its results go; what was not typed is left to the defaults again."""
    options: list[str] = []
    positions: list[str] = []
    for parameter in context.command.params:
        name, source = parameter.name, parameter.name and context.get_parameter_source(parameter.name)
        if not name or not source or source.name != "COMMANDLINE" or OUT in parameter.opts:
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":  # its class is click's, or a newer Typer's own
            positions.append(str(value))
        elif getattr(parameter, "is_flag", False):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            options += [f"{parameter.opts[0]}={each}" for each in (value if parameter.multiple else [value])]  # pyright: ignore
    return (*options, *(("--", *positions) if positions else ()))
