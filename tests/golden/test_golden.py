"""Small runs of every method on NumPy, as they were when they were written down: a renovation keeps its numbers.

They are kept to the last bit and compared to 1e-12 of their size, since another processor may add up in another order.
Where numbers are meant to change, `python -m tests.golden.write` writes them anew, and the commit says why.
"""

import json

import numpy as np
import pytest

from tests.golden.write import FILE, golden, names

GOLDEN = json.loads(FILE.read_text())


def test_no_golden_run_is_of_a_method_that_is_gone() -> None:
    assert set(GOLDEN) <= set(names())


@pytest.mark.parametrize("what", GOLDEN)
def test_a_run_has_the_numbers_it_had(what: str) -> None:
    found = golden(what)
    assert found.keys() == GOLDEN[what].keys()
    for name, kept in GOLDEN[what].items():
        expected = np.array([float.fromhex(value) for value in kept])
        scale = np.nanmax(np.abs(expected), initial=1e-300)
        actual = np.array([float.fromhex(value) for value in found[name]])
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12 * scale, err_msg=name)
