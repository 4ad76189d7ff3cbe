"""A run on JAX that is cut off between chunks of rounds goes on to the same bits, on one device and on several."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedspd.assemble.engines import chunk_rounds
from fedspd.engine import Outcome, Simulation, simulate
from fedspd.engine.jax_engine.session import installed
from fedspd.engine.keeping import Keeper
from fedspd.errors import InputError
from fedspd.results import Checkpoints
from tests.engine.test_keeping import CutOff, same, small_simulation

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")

LENGTH = 2  # rounds of a chunk; five rounds are two chunks and a half


def compiled(run: Simulation) -> Outcome:
    """All rounds in one program."""
    from fedspd.engine.jax_engine.batch import simulate_batch

    ((_, outcome),) = simulate_batch([run])
    return outcome


def in_chunks(run: Simulation, checkpoints: Checkpoints, rounds: int | None = None) -> Outcome:
    """In chunks, cut off after so many rounds."""
    from fedspd.engine.jax_engine.batch import simulate_batch
    from fedspd.engine.jax_engine.chunks import Keeping

    made = 0

    def count() -> None:
        nonlocal made
        made += 1
        if made == rounds:
            raise CutOff

    ((_, outcome),) = simulate_batch([run], keeping=Keeping(LENGTH, Keeper(checkpoints, every=0.0), count))
    return outcome


def cut_off_after(run: Simulation, rounds: int, checkpoints: Checkpoints) -> None:
    with pytest.raises(CutOff):
        in_chunks(run, checkpoints, rounds)


def test_a_run_in_chunks_goes_on_to_the_same_bits_as_if_nobody_had_cut_it_off(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    whole = in_chunks(run, Checkpoints(tmp_path, "whole"))
    for rounds in (1, 3, 5):
        cut_off_after(run, rounds, checkpoints := Checkpoints(tmp_path, f"until-{rounds}"))
        same(in_chunks(run, checkpoints), whole)
    np.testing.assert_allclose(whole.models, compiled(run).models, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-scaffold", "dp-radmm", "dp-madmm", "ps-admm", "dp-ftrl"])
def test_methods_with_other_states_go_on_to_the_same_bits_too(name: str, tmp_path: Path) -> None:
    run = small_simulation(name)
    cut_off_after(run, 3, Checkpoints(tmp_path))
    same(in_chunks(run, Checkpoints(tmp_path)), in_chunks(run, Checkpoints(tmp_path, "whole")))


def test_rounds_that_were_kept_are_not_played_again(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    cut_off_after(run, 3, Checkpoints(tmp_path))
    kept = Checkpoints(tmp_path).read()
    assert kept is not None
    assert len(kept["models"]) == 2 * LENGTH
    Checkpoints(tmp_path).write({**kept, "models": kept["models"] + 1})
    found, whole = (in_chunks(run, Checkpoints(tmp_path, name)).models for name in ("checkpoint", "whole"))
    np.testing.assert_array_equal(found[: 2 * LENGTH], whole[: 2 * LENGTH] + 1)
    np.testing.assert_array_equal(found[2 * LENGTH :], whole[2 * LENGTH :])


def test_a_damaged_checkpoint_costs_a_chunk_and_changes_nothing(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    cut_off_after(run, 3, Checkpoints(tmp_path))
    (tmp_path / "checkpoint-2").write_bytes((tmp_path / "checkpoint-2").read_bytes()[:-1] + b"?")
    same(in_chunks(run, Checkpoints(tmp_path)), in_chunks(run, Checkpoints(tmp_path, "whole")))


def test_what_one_engine_has_kept_is_refused_by_the_other(tmp_path: Path) -> None:
    run = small_simulation("fedspd")
    cut_off_after(run, 1, on_jax := Checkpoints(tmp_path, "jax"))
    with pytest.raises(InputError, match=r"expected JAX .* which the run was begun on, .* got NumPy"):
        simulate(run, keeper=Keeper(on_jax, every=0.0))
    simulate(run, keeper=Keeper(on_numpy := Checkpoints(tmp_path, "numpy"), every=0.0))
    with pytest.raises(InputError, match=r"expected NumPy, which the run was begun on, .* got JAX"):
        in_chunks(run, on_numpy)


def test_a_run_that_is_over_within_the_time_stays_one_program_and_chunks_follow_from_sizes_alone() -> None:
    run = small_simulation("fedspd", 1000)
    assert chunk_rounds(run, 60.0) == 1000
    assert chunk_rounds(run, float("inf")) == 1000
    assert 2 < chunk_rounds(run, 0.1) < 1000
    assert chunk_rounds(run, 0.0) == 2


SCRIPT = """
import sys
from pathlib import Path
import jax
from fedspd.results import Checkpoints
from tests.engine.jax_engine.test_chunks import cut_off_after, in_chunks
from tests.engine.test_keeping import same, small_simulation
run, kept = small_simulation("fedspd"), Checkpoints(Path(sys.argv[1]))
if sys.argv[2] == "cut":
    cut_off_after(run, 3, kept)
else:
    same(in_chunks(run, kept), in_chunks(run, Checkpoints(kept.folder, "whole")))
print(jax.device_count())
"""


def over_devices(devices: int, folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), what], env=os.environ | flags, text=True, capture_output=True,
        timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_clients_over_three_devices_go_on_to_the_same_bits_and_not_on_two(tmp_path: Path) -> None:
    cut = over_devices(3, tmp_path, "cut")
    assert (cut.returncode, cut.stdout) == (0, "3\n"), cut.stderr[-2000:]
    other = over_devices(2, tmp_path, "resume")
    assert "with 3 cpu device(s) in 1 process(es), which the run was begun on" in other.stderr
    done = over_devices(3, tmp_path, "resume")
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr[-2000:]
