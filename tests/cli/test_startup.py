"""A process starts without the libraries it may never use: importing one of them takes up to a second."""

import subprocess
import sys

import pytest

HEAVY = ("dp_accounting", "jax", "matplotlib", "narwhals", "onnx", "pandas", "polars", "pyarrow", "scipy", "sklearn")
UNUSED = (
    "numpy.ma",
    "numpy.polynomial",
    "sqlite3",
    "fedspd.privacy.ledger",
    "fedspd.audit",
    "fedspd.algorithms.methods.dp_sgd",
)
PUBLISHED = "import fedspd; fedspd.run('published', {'run.rounds': 2, 'metrics.criterion': False})"
STARTS = {
    "the package": "import fedspd",
    "the command": "import fedspd.cli",
    "what a command prints with": "import fedspd.cli, fedspd.report",
    "a model": "import fedspd.scoring.prediction, fedspd.export",
    "the published run": PUBLISHED,
}


def loaded(program: str, names: tuple[str, ...] = HEAVY) -> list[str]:
    """Which of the named modules a fresh process holds after a program; without names, the heavy libraries."""
    report = f"import sys; print(*[name for name in {names} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; {report}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("program", STARTS.values(), ids=STARTS.keys())
def test_a_process_starts_without_heavy_libraries(program: str) -> None:
    assert loaded(program) == []


def test_a_run_without_a_ledger_loads_its_own_method_alone_and_nothing_that_it_does_not_use() -> None:
    assert loaded(PUBLISHED, UNUSED) == []


def test_the_package_alone_loads_not_even_numpy() -> None:
    assert loaded("import fedspd", ("numpy", "fedspd.assemble")) == []


def test_a_figure_loads_the_library_that_draws_it() -> None:
    program = "from fedspd.report import Chart, Series, draw; draw([Chart('t', 'x', 'y', (Series('s', (1,), (1,)),))])"
    assert "matplotlib" in loaded(program)
