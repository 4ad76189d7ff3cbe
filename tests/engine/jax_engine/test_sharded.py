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

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")

SCRIPT = """
import json, sys
import numpy as np
from fedspd.engine.jax_engine.session import join
from fedspd import InputError
from tests.engine.jax_engine.test_equal import batched, on_a_ring
from tests.engine.test_budgets import proved
if len(sys.argv) > 1:
    join(sys.argv[1], 2, int(sys.argv[2]))
import jax
from fedspd.engine.jax_engine.batch import simulate_batch
found = {"devices": jax.device_count()}
for name, run in {"batches": batched("FedSPD-DP"), "whole": proved(cap=2, participants=4, rounds=9),
                  "mean": batched("DP-FedAvg"), "recycled": batched("DP-RADMM"),
                  "steered": batched("DP-SCAFFOLD")}.items():
    (_, outcome), = simulate_batch([run], kind=np.float64)
    found[name] = [outcome.models.tolist(), outcome.history["alfv"].tolist()]
try:
    list(simulate_batch([on_a_ring("DP-MADMM")], kind=np.float64))
except InputError as refusal:
    found["refused"] = str(refusal)
print(json.dumps(found))
"""


def start(devices: int, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments], env=environment, text=True, stdout=subprocess.PIPE,
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
    for name in ("batches", "whole", "mean", "recycled", "steered"):
        for mine, theirs in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("devices", [2, 4])
def test_clients_over_several_devices_give_the_result_of_one(devices: int, one_device: dict[str, Any]) -> None:
    assert_same(finished(start(devices)), one_device, devices)


def test_two_hosts_with_two_devices_each_give_the_result_of_one(one_device: dict[str, Any]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    hosts = [start(2, address, str(number)) for number in range(2)]
    for host in hosts:
        assert_same(finished(host), one_device, 4)
