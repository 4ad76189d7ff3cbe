"""The built wheel, alone in an empty environment far from the repository, runs the published experiment."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MINUTES = 60


def call(*command: object, cwd: Path, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))} | variables
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=20 * MINUTES
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    call(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", *options, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_data_presets_and_licenses_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/fedspd").rglob("*.py")}
    assets = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/fedspd/report/assets").iterdir()}
    boxed = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/fedspd/data/boxed").glob("*.*")}
    assert names >= sources | assets | boxed | {"fedspd/data/adult.xz", "fedspd/config/presets/published.toml"}
    kernels = [name for name in names if name.endswith(".so")]
    assert len(kernels) == (shutil.which("cc") is not None), "compiled where there is a compiler"
    assert ("none-any" in wheel.name) == (not kernels), "and then for this platform"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("ATTRIBUTION.md") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"fedspd"}
    assert wheel.stat().st_size < 3 * 2**20


@pytest.mark.slow
def test_the_wheel_alone_runs_the_published_experiment(wheel: Path, tmp_path: Path) -> None:
    home, work = tmp_path / "environment", tmp_path / "elsewhere"
    work.mkdir()
    venv.create(home, with_pip=True)
    scripts = home / "bin"
    install = (
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--constraint",
        ROOT / "constraints.txt",
        wheel,
    )
    call(scripts / "python", *install, cwd=work)
    location = call(scripts / "python", "-c", "import fedspd; print(fedspd.__file__)", cwd=work)
    assert Path(location.strip()).is_relative_to(home)
    command = (scripts / "fedspd", "run", "published", "--set", "run.rounds=5", "--json")
    printed = call(*command, cwd=work, XDG_CACHE_HOME=str(tmp_path / "cache"))
    summary = json.loads(printed)
    assert summary["rounds"] == 5
    assert 0.2 < summary["test_accuracy"] < 1
    assert (work / summary["folder"] / "summary.json").exists()
