"""The real `fedspd` command, in processes and folders of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

SCRIPT = Path(sys.executable).with_name("fedspd")

# Importing and unloading the program take seconds, a refusal milliseconds: many commands are forked from
# one process that has imported it, with what these commands would import themselves, and end without tidying up.
DRIVER = """
import gc, importlib, json, os, sys, traceback
import typer
from fedspd import assemble, cli, report
from fedspd.algorithms import METHODS

cases, modules = json.load(sys.stdin)
for name in modules:
    importlib.import_module(name)
list(METHODS)
typer.main.get_command(cli.app)
gc.freeze()
codes = {}
for folder, arguments in cases.items():
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv = ["fedspd", *arguments]
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    codes[folder] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""
RUNS = ("matplotlib.backends.backend_agg", "matplotlib.figure", "scipy.stats", "sklearn.linear_model", "fedspd.studies")
DEPLOYMENT = ("fedspd.deploy.setup.init", "fedspd.deploy.server.serve", "fedspd.deploy.site.serve")
IMPORTED = {"run": RUNS, "sweep": RUNS, "compare": RUNS, "reproduce": RUNS, "deploy": DEPLOYMENT}


class Finished(NamedTuple):
    """What a command left behind."""

    folder: Path  # where it ran
    code: int
    out: str
    err: str


def environment(cache: Path) -> dict[str, str]:
    """This process' environment, without a way to the sources, and with a cache folder of its own.

    Only matplotlib keeps its usual one: it would search all fonts of the machine anew in an empty one.
    """
    own = {"XDG_CACHE_HOME": str(cache), "MPLCONFIGDIR": matplotlib.get_cachedir(), "COLUMNS": "120"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own


def run_script(folder: Path, *arguments: str) -> Finished:
    """Run the installed script in a folder."""
    done = subprocess.run(
        [SCRIPT, *arguments], cwd=folder, env=environment(folder / "cache"), capture_output=True, text=True, timeout=300
    )
    return Finished(folder, done.returncode, done.stdout, done.stderr)


def run_all(root: Path, cases: Mapping[str, Sequence[str]]) -> dict[str, Finished]:
    """Run the commands one after another, each as a process in the folder `root / name`."""
    folders = {name: root / name.replace(" ", "-") for name in cases}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    modules = sorted({module for command, *_ in cases.values() for module in IMPORTED.get(command, ())})
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([{str(folders[name]): list(arguments) for name, arguments in cases.items()}, modules]),
        cwd=root, env=environment(root / "cache"), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    return {
        name: Finished(folder, codes[str(folder)], *(Path(f"{folder}.{end}").read_text() for end in ("out", "err")))
        for name, folder in folders.items()
    }
