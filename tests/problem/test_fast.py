"""Kernels compute what the text computes, to rounding; where there is none the text is computed."""

import ctypes
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedspd.algorithms.parts.proximal import proximal_steps
from fedspd.problem import (
    L1,
    Box,
    ElasticNet,
    FlippedLabels,
    Loss,
    Objective,
    Regularizer,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
    fast,
    minimize,
)
from fedspd.problem.fast import compiling
from fedspd.problem.fast.compiling import FOLDER, TEXTS, compile_kernels, library_file
from fedspd.typing import Batches, Picked

REGULARIZERS = (Unregularized(), L1(0.05), SquaredL2(0.3), ElasticNet(0.2, 0.4))


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> Iterator[None]:
    if compile_kernels() is None:
        pytest.skip("there is no C compiler here, and so no kernel")
    fast.library.cache_clear()
    yield
    fast.library.cache_clear()


def by_text(monkeypatch: pytest.MonkeyPatch, compute: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(fast, "library", lambda: None)
        return compute()


def stack(
    rng: np.random.Generator, clients: int, steps: int, records: int, columns: int, kind: Any, classes: int = 2
) -> Batches:
    """With rows of zeros at the end of some batches, and with shares."""
    features = rng.standard_normal((clients, steps, records, columns)).astype(kind)
    features[0, :, records // 2 :] = 0
    labels = rng.integers(0, classes, (clients, steps, records))
    return Batches(features, labels, rng.uniform(1, 9, clients).astype(kind), rng.uniform(0, 1, labels.shape))


def close(found: Any, expected: Any, within: float) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=within, atol=within * max(1e-300, float(np.max(np.abs(other)))))


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(1, 5), records=st.integers(1, 12), columns=st.integers(1, 40), shares=st.booleans(),
    clip=st.sampled_from([0.3, 1.0, np.inf]), seed=st.integers(0, 999),
    loss=st.sampled_from([Softmax(2), FlippedLabels(0.2), Softmax(3), Softmax(26)]),
)  # fmt: skip
@example(clients=1, records=9, columns=1, shares=False, clip=0.3, seed=88, loss=Softmax(2))  # two records cancel
def test_clipped_gradients_are_those_of_the_text(
    clients: int, records: int, columns: int, shares: bool, clip: float, seed: int, loss: Loss
) -> None:
    same_gradients(clients, records, columns, shares, clip, seed, loss)


def same_gradients(clients: int, records: int, columns: int, shares: bool, clip: float, seed: int, loss: Loss) -> None:
    rng = np.random.default_rng(seed)
    batches = stack(rng, clients, 2, records, columns, np.float64, loss.outputs)
    weights, objective = rng.standard_normal((clients, columns, loss.outputs)), Objective(loss, L1(0.1), clip)
    asked = weights, *batches.step(1)[:3], batches.step(1)[3] if shares else None
    found = fast.gradient(objective.loss, clip, *asked)
    assert found is not None
    expected = by_text(pytest.MonkeyPatch(), lambda: objective.gradient(*asked))
    close(found[1:], (expected.norms, expected.clipped), 1e-12)
    # Records may cancel in the mean, and what is left of them is rounding: an error counts beside what was summed.
    summed = np.minimum(expected.norms, clip).sum(axis=-1) / asked[3]
    assert np.all(np.abs(found[0] - expected.mean) <= 1e-12 * (np.abs(expected.mean) + summed[:, None, None]))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("classes", [2, 11])
def test_proximal_steps_are_those_of_the_text(
    kind: Any, regularizer: Regularizer, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    batches = stack(rng, 4, 5, 7, 33, kind, classes)
    start, center = (rng.standard_normal(shape).astype(kind) for shape in ((4, 33, classes), (33, classes)))
    for dual in (0.0, rng.standard_normal(start.shape).astype(kind)):
        for told in (center, np.stack([center] * 4)):
            asked = Objective(Softmax(classes), regularizer, 0.7), start, told, dual, 4.0, 0.5, batches
            kept = start.copy()
            found = proximal_steps(*asked)
            assert (start == kept).all(), "what it starts from is left as it is"
            close(
                found,
                by_text(monkeypatch, lambda asked=asked: proximal_steps(*asked)),
                1e-12 if kind is np.float64 else 2e-5,
            )


@pytest.mark.parametrize("loss", [Softmax(2), FlippedLabels(0.3)])
@pytest.mark.parametrize("clip", [0.1, 0.5, np.inf])
def test_exact_sub_problems_have_the_minimum_of_the_text(
    loss: Loss, clip: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    batches = stack(rng, 6, 1, 50, 21, np.float64)
    features, labels, divisors, _ = batches.step(0)
    pull, start = rng.standard_normal((6, 21, 2)), rng.standard_normal((6, 21, 2))
    asked = Objective(loss, SquaredL2(0.01), clip), start, 0.05, pull, features, labels, 10 * divisors, 1e-2
    found, expected = minimize(*asked), by_text(monkeypatch, lambda: minimize(*asked))
    close((found.weights,), (expected.weights,), 1e-9)  # both gradients are below 1e-11, and curvatures above 0.06
    assert np.max(found.slope) < 1e-10
    assert np.array_equal(found.clipped, expected.clipped)


def in_a_table(classes: int, kind: Any) -> tuple[Callable[[Batches], Any], Batches, Batches]:
    """Steps on rows of a table, where they lie and copied; the last client draws the table's last row."""
    rng = np.random.default_rng(4)
    table, numbers = rng.standard_normal((60, 21)).astype(kind), rng.integers(0, 60, (5, 3, 35))
    numbers[-1, -1, -1] = 59
    labels = rng.integers(0, classes, numbers.shape)
    lying = Batches(Picked(table, numbers), labels, np.full(5, 9.0, kind), rng.uniform(0, 1, labels.shape))
    start, center = (rng.standard_normal(shape).astype(kind) for shape in ((5, 21, classes), (21, classes)))

    def steps(batches: Batches) -> Any:
        return proximal_steps(Objective(Softmax(classes), L1(0.05), 0.7), start, center, 0.0, 4.0, 0.5, batches)

    return steps, lying, lying._replace(rows=table[numbers])


def require_the_bits_of_copies(classes: int, kind: Any) -> None:
    steps, lying, copied = in_a_table(classes, kind)
    for one, two in zip(steps(lying), steps(copied), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("classes", [2, 11])
def test_rows_are_read_where_they_lie_and_give_the_bits_of_their_copies(
    classes: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_the_bits_of_copies(classes, kind)
    steps, lying, _ = in_a_table(classes, kind)
    steps(lying)
    assert "copied" not in vars(lying.rows), "the kernel asks for no copy"
    by_text(monkeypatch, lambda: require_the_bits_of_copies(classes, kind))


@pytest.mark.parametrize("outside", [60, 10**12, -61])
def test_a_row_that_the_table_does_not_have_is_refused_and_never_read(outside: int) -> None:
    steps, lying, _ = in_a_table(2, np.float64)
    assert isinstance(lying.rows, Picked)
    lying.rows.numbers[2, 1, 0] = outside
    with pytest.raises(IndexError):
        steps(lying)


def test_a_client_has_the_same_numbers_whoever_is_computed_beside_it() -> None:
    rng = np.random.default_rng(3)
    batches, weights = stack(rng, 5, 3, 8, 19, np.float64), rng.standard_normal((5, 19, 2))
    asked = Objective(Softmax(2), L1(0.1), 1.0), weights, weights[0], weights, 2.0, 1.0, batches
    together = proximal_steps(*asked)
    alone = proximal_steps(
        asked[0], weights[3:4], weights[0], weights[3:4], 2.0, 1.0, Batches(*(np.asarray(a)[3:4] for a in batches))
    )
    assert (together.average[3] == alone.average[0]).all()


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_stays_one(classes: int, value: float) -> None:
    weights = np.full((1, 2, classes), value)
    found = fast.gradient(Softmax(classes), 1.0, weights, np.ones((1, 3, 2)), np.zeros((1, 3)), np.ones(1), None)
    assert found is not None
    assert np.isnan(found.mean).all()


def test_scores_far_apart_overflow_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.array([[[1e5, -1e5, 3.0, 700.0, -700.0]]])
    asked = weights, np.array([[[1.0], [-1.0], [1e-3], [0.5]]]), np.array([[0, 1, 2, 3]]), np.ones(1)
    objective = Objective(Softmax(5), Unregularized(), 1.0)
    close(objective.gradient(*asked)[:2], by_text(monkeypatch, lambda: objective.gradient(*asked))[:2], 1e-12)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("classes", [2, 5])
def test_records_on_the_bound_are_not_clipped_whatever_rounding_says(
    kind: Any, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of length 1 are at the start, by rule."""
    rows = np.random.default_rng(2).standard_normal((1, 500, 30))
    rows = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(kind)
    asked = np.zeros((1, 30, classes), kind), rows, np.zeros((1, 500), int), np.ones(1, kind)
    objective = Objective(Softmax(classes), Unregularized(), float(np.sqrt(1 - 1 / classes)))
    assert objective.gradient(*asked).clipped == 0
    assert by_text(monkeypatch, lambda: objective.gradient(*asked)).clipped == 0
    shorter = replace(objective, clip_norm=0.999 * objective.clip_norm)
    assert shorter.gradient(*asked).clipped == 1


@pytest.mark.skipif((platform.machine(), platform.system()) != ("x86_64", "Linux"), reason="flags have other numbers")
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("classes", [2, 5, 26])
@pytest.mark.parametrize("size", [1.0, 100.0])  # of the weights: far apart, some class is certain
def test_nothing_is_computed_of_numbers_below_the_normal_range(kind: Any, classes: int, size: float) -> None:
    """Where processors are slow: a run of 26 classes took ten times as long on an Intel Xeon."""
    rng, underflow = np.random.default_rng(5), 16
    batches = stack(rng, 3, 4, 9, 21, kind, classes)
    weights, dual = (size * rng.standard_normal((3, 21, classes)).astype(kind) for _ in range(2))
    asked = Softmax(classes), L1(0.1), 0.7, weights, weights[0], dual, kind(4.0), 0.5, batches
    flags = ctypes.CDLL(None)
    flags.feclearexcept(underflow)
    found = fast.proximal_steps(*asked)
    assert not flags.fetestexcept(underflow)
    assert found is not None


def test_what_there_is_no_kernel_for_is_left_to_the_text() -> None:
    weights, features = np.zeros((1, 2, 2)), np.ones((1, 1, 3, 2))
    labels, divisors = np.zeros((1, 1, 3), int), np.ones(1)
    exact = (np.ones((1, 3)), np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 2)), np.ones(1), np.zeros((1, 2)))
    assert fast.newton(Softmax(3), 1.0, features[0], labels[0], *exact, 1.0, 1.0, 9, 9) is None
    assert fast.gradient(SquaredHinge(), 1.0, weights[..., :1], features[0], labels[0], divisors, None) is None
    assert fast.gradient(Softmax(2), 1.0, weights.astype(np.float32), features[0], labels[0], divisors, None) is None

    class Steeper(FlippedLabels):
        """A user's own, whose gradient is another."""

    assert fast.gradient(Steeper(0.2), 1.0, weights, features[0], labels[0], divisors, None) is None
    batches = Batches(features, labels, divisors)
    assert fast.proximal_steps(Softmax(2), Box(1.0), 1.0, weights, weights[0], 0.0, 1.0, 1.0, batches) is None


def test_nobody_has_to_have_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in TEXTS:
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compile_kernels(tmp_path) is None
    monkeypatch.setenv("CC", "false")
    assert compile_kernels(tmp_path) is None
    assert {path.name for path in tmp_path.iterdir()} == set(TEXTS), "and nothing is left behind"


def test_kernels_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSPD_KERNELS", "off")
    fast.library.cache_clear()
    assert fast.library() is None
    monkeypatch.delenv("FEDSPD_KERNELS")
    fast.library.cache_clear()
    assert fast.library() is not None


def same_gradients_of_all() -> None:
    for seed, loss in product(range(5), (Softmax(2), FlippedLabels(0.2), Softmax(3))):
        same_gradients(3, 9, 7, seed % 2 == 0, 0.3, seed, loss)


BUGS = (
    ("steps.h", "over = (over > 1 ? over : 1)", "over = 1"),  # nothing is clipped
    ("steps.h", "if (shares) slope *= shares[r + i];", ""),
    ("steps.h", "SQRT(2 * squares[i]", "SQRT(squares[i]"),  # the bound is of a half
    ("steps.h", "* divisor;", "* records;"),  # divided by the drawn
    ("steps.h", "for (long i = count; i < BLOCK; i++) slopes[i] = 0;", ""),  # the last record counts again
    ("classes.h", "over = (over > 1 ? over : 1)", "over = 1"),
    ("classes.h", "SQRT(square *", "SQRT(square / 2 *"),
)
LOST = (
    ("lanes.h", "rows.numbers ? rows.numbers[r] : r", "r"),  # the first rows of the table, whoever asks
    (
        "steps.h",
        "rows.numbers = numbers + first * records",
        "rows.numbers = numbers",
    ),  # the first client's first batch for all
)


CLONES = '#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))\n'
"""Of every kernel one for each kind of processor; that and being fast take most of the time of compiling."""


def planted(file: str, right: str, wrong: str, folder: Path) -> Any:
    """The kernels with a bug."""
    assert CLONES in (FOLDER / "kernels.c").read_text()
    for name in TEXTS:
        text = (FOLDER / name).read_text()
        if name == file:
            assert right in text
            text = text.replace(right, wrong)
        (folder / name).write_text(text.replace(CLONES, "#define CLONES\n"))
    with pytest.MonkeyPatch().context() as patched:
        patched.setattr(compiling, "OPTIONS", ("-O1", *compiling.OPTIONS[1:]))
        built = compile_kernels(folder)
    assert built is not None
    assert built.name != library_file().name, "nor is it ever taken for the true one"
    return ctypes.CDLL(str(built))


def test_kernels_without_a_bug_pass_what_those_with_one_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = planted("steps.h", "over = (over > 1 ? over : 1)", "over = (over > 1 ? over : 1)", tmp_path)
    monkeypatch.setattr(fast, "library", lambda: kernels)
    same_gradients_of_all()
    require_the_bits_of_copies(2, np.float64)


@pytest.mark.parametrize(("file", "right", "wrong"), BUGS)
def test_a_kernel_that_breaks_the_bound_is_noticed(
    file: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = planted(file, right, wrong, tmp_path)
    monkeypatch.setattr(fast, "library", lambda: kernels)
    with pytest.raises(AssertionError):
        same_gradients_of_all()


@pytest.mark.parametrize(("file", "right", "wrong"), LOST)
def test_a_kernel_that_reads_other_rows_than_those_drawn_is_noticed(
    file: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = planted(file, right, wrong, tmp_path)
    monkeypatch.setattr(fast, "library", lambda: kernels)
    with pytest.raises(AssertionError):
        require_the_bits_of_copies(2, np.float64)
