"""All methods keep the contract of `algorithms/base.py`: pure functions of stacks, in the words of the array API."""

from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
import pytest
from array_api_compat import array_namespace

from fedspd.algorithms.base import draws_shape
from fedspd.audit.replay import same, told_by
from fedspd.engine.client_tables import gather
from fedspd.engine.round import play
from fedspd.privacy.mechanism import MECHANISMS
from fedspd.typing import Argmin, Batches, Query, Release
from tests.support.algorithms.contract_methods import EXACT, METHODS, Setting, every_method, light, seeds

COLUMNS = 3


class Inputs(NamedTuple):
    """All that the legs of a method are given, for three clients with unequal batch sizes."""

    server: Any
    client: Any
    batches: Batches
    draws: Any
    replies: Any
    previous: Any

    @classmethod
    def random(cls, algorithm: Any, seed: int) -> "Inputs":
        rng = np.random.default_rng(seed)
        shape = (3, COLUMNS, algorithm.objective.loss.outputs)
        features = rng.standard_normal((3, algorithm.local_steps, 5, COLUMNS))
        labels, shares = rng.integers(0, 2, features.shape[:3]), 1 / rng.integers(1, 4, features.shape[:3])
        batches = Batches(features, labels, np.array([5.0, 6.0, 8.0]), shares)
        server, client, replies = algorithm.start(np.zeros(shape))
        client = mapped(lambda array: anywhere(rng, array), client)
        server = mapped(lambda array: 0.5 * anywhere(rng, array), server)
        draws = rng.standard_normal((3, *draws_shape(algorithm, shape[1:])))
        return cls(server, client, batches, draws, *rng.standard_normal((2, *replies.shape)))

    def only(self, clients: slice) -> "Inputs":
        rows = np.arange(3)[clients]
        return Inputs(self.server, *(gather(table, rows) for table in self[1:]))


class Outputs(NamedTuple):
    """All that the legs of a method return."""

    queries: Any  # of each release; for a minimizer under noise, what it gives away
    client: Any
    replies: Any
    point: Any
    server: Any


def anywhere(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Random numbers for weights; counts, one for a matrix, stay as they start."""
    return array if array.shape[-2:] == (1, 1) else rng.standard_normal(array.shape)


def legs(algorithm: Any, inputs: Inputs, round: int) -> Outputs:
    """What the engine does in a round."""
    server, client, batches, draws, _, previous = inputs
    told, queries = algorithm.broadcast(server, round), []
    scale = 0.1 if np.any(algorithm.sensitivity(round, np.ones(1))) else 0.0  # what depends on no record gets no noise

    def perturb(query: Query | Argmin, draws: Any) -> Release:
        release = MECHANISMS[algorithm.law](query, scale, draws)
        queries.append(Query(told_by(query, release.value), query.clipped))
        return release

    played = play(algorithm, told, client, batches, perturb, draws)
    present = array_namespace(played.replies).ones(played.replies.shape[0])
    merged = algorithm.merge(server, told, played.replies, previous, present)
    point = algorithm.local_point(played.client)
    return Outputs(tuple(queries), played.client, played.replies, point, (merged, algorithm.model(merged)))


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nested tuples with the function applied to every array."""
    if isinstance(tree, tuple):
        return type(tree)(*(mapped(function, field) for field in tree))
    return tree if tree is None else function(tree)


def arrays_of(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return [array for field in tree for array in arrays_of(field)]
    return [] if tree is None else [tree]


def assert_close(one: Any, two: Any, name: str) -> None:
    """Up to rounding; exact sub-problems are solved until their gradients are as good as zero."""
    first, second, tolerance = arrays_of(one), arrays_of(two), 1e-9 if name in EXACT else 1e-12
    assert len(first) == len(second) > 0
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@every_method
@seeds
@light
def test_a_stack_of_three_clients_does_what_three_stacks_of_one_do(name: str, seed: int, round: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    together = legs(algorithm, inputs, round)
    for client in range(3):
        alone = legs(algorithm, inputs.only(slice(client, client + 1)), round)
        for part, whole in zip(alone[:4], together[:4], strict=True):  # a server needs them all
            assert_close(part, gather(whole, np.array([client])), name)


@every_method
@seeds
@light
def test_an_empty_place_in_the_stack_changes_nothing_on_the_server(name: str, seed: int, round: int) -> None:
    algorithm = METHODS[name](Setting())
    inputs = Inputs.random(algorithm, seed)
    told, replies = algorithm.broadcast(inputs.server, round), inputs.replies
    filled = algorithm.merge(inputs.server, told, replies, inputs.previous, np.array([1.0, 1.0, 0.0]))
    alone = algorithm.merge(inputs.server, told, replies[:2], inputs.previous[:2], np.ones(2))
    assert_close((filled, algorithm.model(filled)), (alone, algorithm.model(alone)), name)


@every_method
@seeds
@light
def test_rows_of_zeros_that_fill_up_a_batch_change_nothing_but_the_clipped_share(
    name: str, seed: int, round: int
) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    _, labels, divisors, shares = inputs.batches
    features = inputs.batches.features
    twice = (np.concatenate([part, part], axis=2) for part in (labels, shares))
    filled = Batches(np.concatenate([features, np.zeros_like(features)], axis=2), next(twice), divisors, next(twice))
    short, long = legs(algorithm, inputs, round), legs(algorithm, inputs._replace(batches=filled), round)
    for one, two in zip(short.queries, long.queries, strict=True):
        assert_close(one.value, two.value, name)
    assert_close(short[1:], long[1:], name)


@every_method
@pytest.mark.parametrize("round", [2, 3])
def test_a_batch_without_any_gradient_is_no_reason_for_numbers_that_are_none(name: str, round: int) -> None:
    algorithm = METHODS[name](Setting())
    inputs = Inputs.random(algorithm, 0)
    blank = inputs.batches._replace(rows=0 * np.asarray(inputs.batches.features))
    assert all(np.isfinite(array).all() for array in arrays_of(legs(algorithm, inputs._replace(batches=blank), round)))


@every_method
@seeds
@light
def test_the_legs_use_only_the_array_api_standard(name: str, seed: int, round: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    strict = legs(algorithm, mapped(array_api_strict.asarray, inputs), round)
    assert {type(array) for array in arrays_of(strict)} == {type(array_api_strict.asarray(0.0))}
    assert_close(strict, legs(algorithm, inputs, round), name)


@every_method
def test_a_method_starts_on_any_array_of_the_standard(name: str) -> None:
    algorithm, zeros = METHODS[name](Setting()), np.zeros((3, COLUMNS, 2))
    strict = algorithm.start(array_api_strict.asarray(zeros))
    assert_close(tuple(arrays_of(strict)), tuple(arrays_of(algorithm.start(zeros))), name)


@every_method
@seeds
@light
def test_the_legs_are_pure_functions_that_leave_their_inputs_as_they_were(name: str, seed: int, round: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    before = mapped(np.copy, inputs)
    first, second = legs(algorithm, inputs, round), legs(algorithm, inputs, round)
    assert same(inputs, before)
    assert same(tuple(arrays_of(first)), tuple(arrays_of(second)))
