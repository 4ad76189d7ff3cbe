"""Small runs of every method on NumPy, as they were when they were written down: a renovation keeps its numbers.

Without kernels they are held to the last bit where they are made by the same means as in the file. Kernels and other
means (`means` in `write.py`) add up in another order and round otherwise: there they are held to 1e-12 of their size.
Where numbers are meant to change, `python -m tests.golden.write` writes them anew, and the commit says why.
"""

import json
from typing import Any

import numpy as np
import pytest

from tests.golden.write import FILE, golden, names, written

GOLDEN = json.loads(FILE.read_text())
RUNS = GOLDEN["runs"]
PARTS = 3  # that several workers can share


def test_no_golden_run_is_of_a_method_that_is_gone() -> None:
    assert set(RUNS) <= set(names())


def assert_near(found: dict[str, list[str]], expected: dict[str, list[str]]) -> None:
    assert found.keys() == expected.keys()
    for name, kept in expected.items():
        numbers = np.array([float.fromhex(value) for value in kept])
        scale = np.nanmax(np.abs(numbers), initial=1e-300)
        actual = np.array([float.fromhex(value) for value in found[name]])
        np.testing.assert_allclose(actual, numbers, rtol=1e-12, atol=1e-12 * scale, err_msg=name)


@pytest.mark.parametrize("what", RUNS)
def test_a_run_has_the_numbers_it_had(what: str) -> None:
    """Here as everybody runs it: with kernels, where there is a compiler, and the fastest loops of this processor."""
    assert_near(golden(what), RUNS[what])


@pytest.mark.parametrize("part", range(PARTS))
def test_without_kernels_a_run_has_its_numbers_to_the_bit(part: int) -> None:
    """Bits are demanded where libraries and loops are those of the file; otherwise nobody can, and 1e-12 must do."""
    found: dict[str, Any] = written(list(RUNS)[part::PARTS])
    assert found["means"]["kernels"] is False
    if found["means"] == GOLDEN["means"]:
        assert [what for what, run in found["runs"].items() if run != RUNS[what]] == []
    for what, run in found["runs"].items():
        assert_near(run, RUNS[what])
