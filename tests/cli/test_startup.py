"""A process starts without the libraries it may never use: importing one of them takes up to a second."""

import subprocess
import sys

import pytest

HEAVY = ("dp_accounting", "jax", "matplotlib", "narwhals", "onnx", "pandas", "polars", "pyarrow", "scipy", "sklearn")
STARTS = {
    "the package": "import fedspd",
    "the command": "import fedspd.cli",
    "what a command prints with": "import fedspd.cli, fedspd.report",
    "a model": "import fedspd.scoring.prediction, fedspd.export",
    "the published run": "import fedspd; fedspd.run('published', {'run.rounds': 2, 'metrics.criterion': False})",
}


def loaded(program: str) -> list[str]:
    """The heavy libraries that a fresh process holds after a program."""
    report = f"import sys; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; {report}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("program", STARTS.values(), ids=STARTS.keys())
def test_a_process_starts_without_heavy_libraries(program: str) -> None:
    assert loaded(program) == []


def test_a_figure_loads_the_library_that_draws_it() -> None:
    program = "from fedspd.report import Chart, Series, draw; draw([Chart('t', 'x', 'y', (Series('s', (1,), (1,)),))])"
    assert "matplotlib" in loaded(program)
