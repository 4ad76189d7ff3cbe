import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedspd.deploy.masks.fixed_point import MOMENTS_STEP, STEP, decode, encode, largest, rounded
from fedspd.engine.release import Whole, release
from fedspd.errors import InputError
from fedspd.typing import Query

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


def test_a_sum_of_members_parts_is_decoded_to_the_sum_of_their_values_and_noise() -> None:
    pytest.importorskip("opendp")
    grid, values = 2.0**-7, np.random.default_rng(0).normal(0, 3, (5, 1, 4))
    quiet = Whole(scale=1e-3 * grid, grid=grid, reach=16.0)  # a thousandth of a step: none is ever seen
    total = np.zeros((1, 4), np.uint64)
    for value in values:
        total += np.asarray(release(Query(value, np.zeros(1)), quiet).value)
    np.testing.assert_array_equal(decode(total, grid), np.sum([rounded(value, grid) for value in values], axis=0))


@given(st.integers(1, 10_000), st.integers(-60, 20))
def test_sums_of_as_many_vectors_as_announced_do_not_wrap_around(summands: int, exponent: int) -> None:
    step = 2.0**exponent
    huge = np.array([1e300, -1e300, step * 2.0**63])
    codes = [int(code) for code in encode(huge, step, summands).view(np.int64)]
    assert all(abs(code) * summands < 2**63 for code in codes)
    assert codes[0] == -codes[1] == codes[2] == int(largest(summands))
    assert int(np.ceil(np.nextafter(largest(summands), np.inf))) * summands >= 2**63, "no larger one would have fitted"


def test_a_sum_beyond_the_announced_number_of_vectors_would_wrap_around() -> None:
    code = encode(np.array([2.0**62]), 1.0)
    assert decode(code + code, 1.0) == -(2.0**63)
    half = encode(np.array([2.0**62]), 1.0, summands=2)
    assert 0 < float(decode(half + half, 1.0)[0]) <= 2.0**63


@given(arrays(np.float64, st.integers(0, 20), elements=st.floats(allow_nan=False, allow_infinity=False)), STEPS)
def test_no_finite_vector_is_refused_and_what_is_remembered_is_what_was_sent(values: np.ndarray, step: float) -> None:
    sent = rounded(values, step, summands=7)
    np.testing.assert_array_equal(decode(encode(values, step, summands=7), step), sent)
    np.testing.assert_array_equal(encode(sent, step, summands=7), encode(values, step, summands=7))
    assert np.all(np.abs(sent) <= largest(7) * step)
    fits = np.abs(values) < largest(7) * step
    assert np.all(np.abs(sent - values)[fits] <= step / 2)
    assert np.all(np.sign(sent)[~fits] == np.sign(values)[~fits])


def test_a_thousand_sites_have_room_for_a_million_records_each_and_for_weights_of_a_thousand() -> None:
    assert largest(1000) * MOMENTS_STEP > 2e6
    assert largest(1000) * STEP > 2e3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_refusal_does_not_tell_the_values(bad: float) -> None:
    with pytest.raises(InputError, match="must be finite") as refusal:
        encode(np.array([0.5, bad]), 1.0)
    text = str(refusal.value)
    assert str(bad) not in text.replace("finite", "")
    assert "0.5" not in text


@pytest.mark.parametrize("step", [0.0, -0.5, 0.3, np.nan, np.inf, 2.0**1000, 2.0**-1000])
def test_a_step_that_is_no_power_of_two_is_refused(step: float) -> None:
    for refusing in (encode, rounded):
        with pytest.raises(InputError, match="power of two"):
            refusing(np.zeros(2), step)
    with pytest.raises(InputError, match="power of two"):
        decode(np.zeros(2, np.uint64), step)


def test_a_sum_of_no_vectors_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1, got 0"):
        encode(np.zeros(2), 1.0, summands=0)
