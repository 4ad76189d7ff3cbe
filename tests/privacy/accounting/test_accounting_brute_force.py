"""Brute force: on small shards no adversary, however adaptive, beats the bound.

Every shard of up to six records with gradients in {-G, 0, G}, every replacement of one record, every
subset. The adversary chooses all gradients anew in each round, as a server that picks the model could, so
the best it can do is a dynamic program over the loss so far. Its losses are rounded down: what it reaches
here is a lower bound on what is possible.
"""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from numpy.fft import irfft, rfft
from numpy.typing import NDArray
from scipy.special import ndtr

from fedspd.privacy.accounting import FixedSize, delta_at
from fedspd.privacy.accounting.events import relative_distances

Centers = dict[float, float]
SPACING, REACH = 4e-3, 3000
GAPS = np.arange(-2 * REACH, 2 * REACH + 1) * SPACING


def centers(shard: tuple[int, ...], event: FixedSize) -> Centers:
    """Where the query lies over all draws, in units of the replace-one sensitivity of a record at step 1."""
    weights = np.resize(relative_distances(event.local_steps, event.contraction), event.drawn)  # dealt out in turn
    draws = (
        itertools.combinations(shard, event.drawn)
        if event.local_steps == 1
        else itertools.permutations(shard, event.drawn)
    )
    counts = Counter(round(float(np.dot(weights, draw)) / 2.0, 12) for draw in draws)
    total = sum(counts.values())
    return {center: count / total for center, count in counts.items()}


def neighbors(event: FixedSize) -> list[tuple[Centers, Centers]]:
    """The two mixtures of each shard and each replacement of one of its records, without repetitions."""
    found = {}
    for rest in itertools.combinations_with_replacement((-1, 0, 1), event.records - 1):
        for record, other in itertools.permutations((-1, 0, 1), 2):
            pair = centers((record, *rest), event), centers((other, *rest), event)
            found[tuple(sorted(pair[0].items())), tuple(sorted(pair[1].items()))] = pair
    return list(found.values())


def loss_masses(pair: tuple[Centers, Centers], multiplier: float) -> NDArray[np.float64]:
    """Masses of the loss on the grid, cells of the output merged and losses rounded down."""
    edges = np.linspace(-3.0 - 9.0 * multiplier, 3.0 + 9.0 * multiplier, 4001)

    def cells(mixture: Centers) -> NDArray[np.float64]:
        tails = sum(weight * ndtr((edges - center) / multiplier) for center, weight in mixture.items())
        return np.diff(np.asarray(tails))

    first, second = cells(pair[0]), cells(pair[1])
    kept = (first > 1e-14) & (second > 1e-14)
    losses = np.floor(np.log(first[kept] / second[kept]) / SPACING).astype(int)
    inside = losses >= -REACH
    indices = np.minimum(losses[inside], REACH) + REACH
    masses = np.bincount(indices, weights=first[kept][inside], minlength=2 * REACH + 1)
    return np.asarray(masses, dtype=np.float64)


def realized(event: FixedSize, rounds: int) -> list[NDArray[np.float64]]:
    """The best delta of the adversary at each gap, after 1, 2, .. rounds."""
    size = int(2 ** math.ceil(math.log2(len(GAPS))))
    spectra = [rfft(loss_masses(pair, event.noise_multiplier), size) for pair in neighbors(event)]
    values = np.maximum(-np.expm1(np.minimum(GAPS, 0.0)), 0.0)
    history = []
    for _ in range(rounds):
        spectrum = rfft(values, size)
        best = np.max([irfft(spectrum * option, size)[2 * REACH : 4 * REACH + 1] for option in spectra], axis=0)
        values[REACH : 3 * REACH + 1] = np.clip(best, 0.0, 1.0)
        history.append(values[2 * REACH : 3 * REACH + 1].copy())
    return history


SHARDS = [(records, drawn) for records in range(2, 7) for drawn in range(1, min(3, records) + 1)]


@pytest.mark.parametrize("multiplier", [0.7, 2.0])
@pytest.mark.parametrize(("records", "drawn"), SHARDS)
def test_no_adversary_on_a_small_shard_beats_the_bound(records: int, drawn: int, multiplier: float) -> None:
    event = FixedSize(multiplier, records, drawn)
    for rounds, deltas in enumerate(realized(event, 3), start=1):
        for epsilon in (0.0, 0.2, 0.6, 1.2, 2.4):
            reached = deltas[round(epsilon / SPACING)]
            assert reached <= delta_at({event: rounds}, epsilon) + 1e-12


@pytest.mark.parametrize(("records", "drawn"), [(4, 1), (6, 3)])
def test_in_one_round_the_bound_is_attained(records: int, drawn: int) -> None:
    event = FixedSize(0.7, records, drawn)
    deltas = realized(event, 1)[0]
    for epsilon in (0.2, 0.6, 1.2):
        assert deltas[round(epsilon / SPACING)] >= 0.97 * delta_at({event: 1}, epsilon)


@pytest.mark.parametrize(
    "event",
    [
        FixedSize(0.7, 2, 2, local_steps=2, contraction=0.6),
        FixedSize(0.7, 4, 2, local_steps=2, contraction=0.6),
        FixedSize(0.7, 5, 3, local_steps=3, contraction=0.9),
        FixedSize(2.0, 4, 3, local_steps=3, contraction=0.5),
        FixedSize(1.0, 5, 4, local_steps=2, contraction=0.5),
        FixedSize(0.7, 3, 3, local_steps=2, contraction=0.6),
        FixedSize(0.3, 4, 4, local_steps=3, contraction=0.9),
        FixedSize(2.0, 5, 5, local_steps=3, contraction=0.8),
        FixedSize(0.7, 6, 6, local_steps=3, contraction=0.5),
    ],
    ids=repr,
)
def test_no_adversary_beats_the_bound_with_a_random_step(event: FixedSize) -> None:
    for rounds, deltas in enumerate(realized(event, 3), start=1):
        for epsilon in (0.0, 0.2, 0.6, 1.2, 2.4):
            assert deltas[round(epsilon / SPACING)] <= delta_at({event: rounds}, epsilon) + 1e-12


@pytest.mark.parametrize(
    ("event", "claimed"),
    [
        (FixedSize(0.7, 6, 3), FixedSize(0.75, 6, 3)),
        (FixedSize(0.7, 6, 3), FixedSize(1.4, 6, 3)),
        (FixedSize(0.7, 6, 3), FixedSize(0.7, 6, 2)),
        (FixedSize(0.7, 4, 2, 2, 0.6), FixedSize(0.7, 4, 2, 2, 1.0)),
        (FixedSize(0.3, 3, 3, 2, 0.6), FixedSize(0.3, 3, 3, 2, 1.0)),
        (FixedSize(0.3, 3, 3, 2, 0.6), FixedSize(0.3, 4, 4, 2, 0.6)),
    ],
    ids=["noise", "factor 2 lost", "rate", "contraction", "contraction of a whole shard", "uneven batches"],
)
def test_a_claim_for_less_than_what_happens_is_caught(event: FixedSize, claimed: FixedSize) -> None:
    reached = realized(event, 2)
    caught = [
        deltas[round(epsilon / SPACING)] > delta_at({claimed: rounds}, epsilon)
        for rounds, deltas in enumerate(reached, start=1)
        for epsilon in (0.2, 0.6, 1.2)
    ]
    assert any(caught)
