"""Clients over several devices and over several hosts: the result is that of one device, up to rounding.

A graph of clients is refused there.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fedspd.engine.jax_engine.session import installed
from tests.engine.jax_engine.test_equal import batched, compiled

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")

RUNS = "batches whole mean recycled steered away"
SCRIPT = """
import json, sys
import numpy as np
from fedspd.engine.jax_engine.session import join
from fedspd import InputError
from tests.engine.jax_engine.test_arrivals import ALL, away
from tests.engine.jax_engine.test_equal import batched, on_a_ring
from tests.engine.test_budgets import proved
names, *host = sys.argv[1:]
if host:
    join(host[0], 2, int(host[1]))
import jax
from fedspd.engine.jax_engine.batch import simulate_batch
found = {"devices": jax.device_count()}
runs = {"batches": batched("FedSPD-DP"), "whole": proved(cap=2, participants=4, rounds=9),
        "mean": batched("DP-FedAvg"), "recycled": batched("DP-RADMM"), "steered": batched("DP-SCAFFOLD"),
        "away": away(ALL)}
for name in names.split():
    (_, outcome), = simulate_batch([runs[name]], kind=np.float64)
    found[name] = [outcome.models.tolist(), outcome.history["alfv"].tolist()]
try:
    list(simulate_batch([on_a_ring("DP-MADMM")], kind=np.float64))
except InputError as refusal:
    found["refused"] = str(refusal)
print(json.dumps(found))
"""


def start(devices: int, *host: str, runs: str = RUNS) -> subprocess.Popen[str]:
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, runs, *host], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-2000:]
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    return finished(start(1))


def assert_same(found: dict[str, Any], expected: dict[str, Any], devices: int) -> None:
    assert (found["devices"], expected["devices"]) == (devices, 1)
    assert "refused" not in expected
    assert f"a topology other than star runs on one device, got ring and {devices} devices" in str(found["refused"])
    for name in RUNS.split():
        for mine, theirs in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_one_run_over_two_devices_gives_the_result_of_one() -> None:
    found = finished(start(2, runs="batches"))
    alone = compiled(batched("FedSPD-DP"), own_draws=True)
    assert found["devices"] == 2
    for mine, theirs in zip(found["batches"], (alone.models, alone.history["alfv"]), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.lengthy)])
def test_clients_over_several_devices_give_the_result_of_one(devices: int, one_device: dict[str, Any]) -> None:
    assert_same(finished(start(devices)), one_device, devices)


@pytest.mark.slow
@pytest.mark.lengthy
def test_two_hosts_with_two_devices_each_give_the_result_of_one(one_device: dict[str, Any]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    hosts = [start(2, address, str(number)) for number in range(2)]
    for host in hosts:
        assert_same(finished(host), one_device, 4)
