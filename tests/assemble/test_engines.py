"""Which engine runs what, and that what a run says of it is true."""

import json
import socket
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedspd import InputError, config, run
from fedspd.assemble import prepare_experiment
from fedspd.assemble.engines import ACCELERATORS, pick_engine
from fedspd.assemble.many import run_many
from fedspd.engine.jax_engine.session import installed
from fedspd.privacy.ledger import Ledger
from tests.support.command import SCRIPT, environment, run_all, run_script

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")
QUICK = {"run.rounds": 3, "metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0}
SHORT = ["--set", "metrics.criterion=false", "--set", "run.rounds=3"]
without_gpu = pytest.mark.skipif(any(Path(name).exists() for name in ACCELERATORS), reason="an accelerator is here")


def picked(runs: int, charged: bool = False, engine: str = "auto") -> str:
    experiment = prepare_experiment(config.load("published", QUICK | {"run.engine": engine}))
    return pick_engine(experiment.config, experiment.simulation, runs, charged)


@without_gpu
def test_one_small_run_is_numpys_and_thousands_of_one_shape_are_jaxs() -> None:
    assert picked(1) == "numpy"
    assert picked(10_000) == "jax"
    assert picked(10_000, charged=True) == "numpy"
    assert picked(1, engine="jax") == "jax"
    assert picked(10_000, engine="numpy") == "numpy"


@without_gpu
def test_what_takes_longer_to_compile_has_to_save_more() -> None:
    """As many records a round in few steps or in many, and each step is compiled: two hundred took most of a minute."""
    found = []
    for steps, batch in ((5, 40), (200, 1)):
        changes = {"algorithm.local_steps": steps, "algorithm.batch_size": batch, "run.rounds": 100}
        made = prepare_experiment(config.load("published", QUICK | changes))
        found.append([pick_engine(made.config, made.simulation, runs, charged=False) for runs in (50, 200, 400)])
    assert found == [["numpy", "jax", "jax"], ["numpy", "numpy", "jax"]]


@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_a_run_says_which_engine_it_was_and_can_be_made_again(engine: str) -> None:
    finished = run("published", QUICK | {"run.engine": engine})
    assert finished.summary["engine"] == finished.config.run.engine == engine
    np.testing.assert_array_equal(run(finished.config).weights, finished.weights)


def test_many_runs_are_the_runs_alone_on_either_engine() -> None:
    configs = [
        config.load(preset, QUICK | {"run.seed": seed, "privacy.epsilon": epsilon})
        for preset in ("published", "proved")
        for seed, epsilon in ((0, 1.0), (1, 3.0))
    ]
    for engine in ("numpy", "jax"):
        together = dict(run_many(configs, engine))
        assert sorted(together) == [0, 1, 2, 3]
        for number, one in enumerate(configs):
            alone = run(config.changed(one, {"run.engine": engine}))
            np.testing.assert_allclose(together[number].weights, alone.weights, rtol=2e-5, atol=1e-6)


def test_the_criterion_needs_the_lagrangian() -> None:
    with pytest.raises(InputError, match=r"metrics\.criterion = false too"):
        run("published", QUICK | {"metrics.criterion": True})


def test_the_command_takes_an_engine_and_its_ledger_is_charged_for_every_round(tmp_path: Path) -> None:
    done = run_script(tmp_path, "run", "--engine", "jax", "--out", "run", *SHORT)
    assert done.code == 0, done.err
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["run"]["engine"] == "jax"
    assert run_script(tmp_path, "ledger", "verify", "run/ledger.sqlite").code == 0
    participations = json.loads((tmp_path / "run" / "summary.json").read_text())["uploads"]
    with Ledger(tmp_path / "run" / "ledger.sqlite") as ledger:
        charged = [charge.times for charge in ledger.charges() if charge.mechanism == "fedspd"]
    assert sum(charged) == participations > 0


@pytest.mark.slow
def test_two_processes_share_a_run_and_the_first_writes_what_one_process_would(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = ["run", "--engine", "jax", *SHORT, "--json", "--out"]
    alone = run_script(tmp_path, *arguments, "alone")
    hosts = [
        subprocess.Popen(
            [SCRIPT, *arguments, f"host-{number}", "--hosts", f"{address},2,{number}"], cwd=tmp_path, text=True,
            env=environment(tmp_path / "cache"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for number in range(2)
    ]  # fmt: skip
    for host in hosts:
        _, err = host.communicate(timeout=300)
        assert host.returncode == 0, err
    assert alone.code == 0
    assert not (tmp_path / "host-1").exists()
    expected, found = (np.load(tmp_path / name / "model.npz")["weights"] for name in ("alone", "host-0"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


REFUSED = {
    "no hosts": (["--engine", "jax", "--hosts", "here"], "must look like"),
    "no such number": (["--engine", "jax", "--hosts", "127.0.0.1:1,2,2"], "from 0 to below"),
    "hosts on numpy": (["--engine", "numpy", "--hosts", "127.0.0.1:1,2,0"], "needs the engine jax"),
    "hosts and a ledger": (
        ["--engine", "jax", "--hosts", "127.0.0.1:1,2,0", "--ledger", "mine.sqlite"], "cannot charge a ledger",
    ),
    "no such engine": (["--engine", "cuda"], "must be one of auto, numpy, jax"),
}  # fmt: skip


def test_what_cannot_be_is_refused_in_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    done = run_all(tmp_path, {name: ["run", "published", *arguments] for name, (arguments, _) in REFUSED.items()})
    for name, (_, sentence) in REFUSED.items():
        assert done[name].code == 2
        assert sentence in done[name].err
        assert len(done[name].err.splitlines()) == 1
        assert not any(done[name].folder.iterdir())
