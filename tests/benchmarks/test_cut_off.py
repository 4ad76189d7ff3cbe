"""Very many clients: a run that is killed in the middle goes on to the same bits, on both engines."""

from pathlib import Path

import pytest

from benchmarks.cut_off import cut_off
from fedspd.engine.jax_engine.session import installed


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", pytest.param("jax", marks=pytest.mark.lengthy)])
def test_a_run_of_20000_clients_that_was_killed_goes_on_to_the_same_bits(engine: str, tmp_path: Path) -> None:
    if engine == "jax" and not installed():
        pytest.skip("JAX is not installed")
    found = cut_off(tmp_path, clients=20_000, rounds=12, engine=engine, every=0.0)
    assert found["killed"]
    assert 0 < found["kept_rounds"] < 12
    assert found["same"]
