import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedspd.deploy.masks.fixed_point import decode, encodable, encode, rounded
from fedspd.errors import InputError

STEPS = st.integers(-40, 3).map(lambda exponent: 2.0**exponent)
VECTORS = arrays(np.float64, st.integers(0, 20), elements=st.floats(-1e6, 1e6))


@given(VECTORS, STEPS)
def test_a_vector_comes_back_within_half_a_step(values: np.ndarray, step: float) -> None:
    assert np.all(np.abs(decode(encode(values, step), step) - values) <= step / 2)


@given(VECTORS, STEPS)
def test_what_a_client_remembers_is_exactly_what_the_server_decodes(values: np.ndarray, step: float) -> None:
    sent = rounded(values, step)
    np.testing.assert_array_equal(decode(encode(values, step), step), sent)
    np.testing.assert_array_equal(rounded(sent, step), sent)
    np.testing.assert_array_equal(encode(sent, step), encode(values, step))


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.just(4)), elements=st.floats(-1e3, 1e3)))
def test_the_sum_modulo_two_to_the_64_is_the_sum_of_what_was_sent(vectors: np.ndarray) -> None:
    step = 2.0**-30  # 30 vectors of 2^40 steps: float64 sums them exactly
    total = np.zeros(4, np.uint64)
    for vector in vectors:
        total += encode(vector, step, summands=len(vectors))
    np.testing.assert_array_equal(decode(total, step), np.sum([rounded(vector, step) for vector in vectors], axis=0))


@given(st.integers(1, 1000), st.integers(-20, 20))
def test_sums_of_as_many_vectors_as_announced_do_not_wrap_around(summands: int, exponent: int) -> None:
    step = 2.0**exponent
    largest = np.nextafter(step * (2**63 / summands), 0)
    assert encodable(np.array([largest, -largest]), step, summands)
    code = int(encode(np.array([largest]), step, summands)[0])
    assert code * summands < 2**63
    assert not encodable(np.array([largest * (1 + 1e-15)]), step, summands)


def test_a_sum_beyond_the_announced_number_of_vectors_would_wrap_around() -> None:
    code = encode(np.array([2.0**62]), 1.0)
    assert encodable(np.array([2.0**62]), 1.0)
    assert not encodable(np.array([2.0**62]), 1.0, summands=2)
    assert decode(code + code, 1.0) == -(2.0**63)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, 12345.0 * 2**60])
def test_a_refusal_does_not_tell_the_values(bad: float) -> None:
    with pytest.raises(InputError, match="must be finite") as refusal:
        encode(np.array([0.5, bad]), 1.0)
    text = str(refusal.value)
    assert str(bad) not in text.replace("finite", "")
    assert "0.5" not in text


@pytest.mark.parametrize("step", [0.0, -0.5, 0.3, np.nan, np.inf, 2.0**1000, 2.0**-1000])
def test_a_step_that_is_no_power_of_two_is_refused(step: float) -> None:
    for refusing in (encode, rounded, encodable):
        with pytest.raises(InputError, match="power of two"):
            refusing(np.zeros(2), step)
    with pytest.raises(InputError, match="power of two"):
        decode(np.zeros(2, np.uint64), step)


def test_a_sum_of_no_vectors_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1, got 0"):
        encode(np.zeros(2), 1.0, summands=0)
