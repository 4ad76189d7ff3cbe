"""Graphs of clients: connected, without direction, and as random as they say."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse.csgraph import connected_components

from fedspd.algorithms.parts.topology import DRAWS, TOPOLOGIES, Topology, make_topology
from fedspd.engine.jax_engine.session import installed, session
from fedspd.errors import InputError

GRAPHS = [name for name in TOPOLOGIES if name != "star"]
light = settings(deadline=None, max_examples=50)


def graph(name: str, clients: int, probability: float = 0.6, seed: int = 0) -> Topology:
    made = make_topology(name, clients, probability, np.random.default_rng(seed))
    assert made is not None
    return made


def edges(topology: Topology) -> set[tuple[int, int]]:
    return {(client, other) for client, others in enumerate(topology.neighbors) for other in others}


some_graph = given(name=st.sampled_from(GRAPHS), clients=st.integers(2, 12), seed=st.integers(0, 2**32))


@some_graph
@light
def test_every_edge_is_listed_once_at_both_of_its_ends(name: str, clients: int, seed: int) -> None:
    topology = graph(name, clients, seed=seed)
    listed = edges(topology)
    assert topology.clients == clients
    assert sum(topology.degrees) == len(listed), "a neighbor is listed twice"
    assert listed == {(other, client) for client, other in listed}
    assert all(client != other for client, other in listed)


@some_graph
@light
def test_every_graph_is_connected(name: str, clients: int, seed: int) -> None:
    # sparse enough that many draws fall apart
    topology = graph(name, clients, probability=min(1.0, 2.5 / clients), seed=seed)
    links = np.zeros((clients, clients))
    links[tuple(np.array(sorted(edges(topology))).T)] = 1
    assert connected_components(links, directed=False, return_labels=False) == 1


def test_in_a_ring_of_three_or_more_all_have_the_two_next_to_them() -> None:
    assert graph("ring", 5).neighbors == ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))
    assert graph("ring", 3).degrees == (2, 2, 2)


@pytest.mark.parametrize("name", GRAPHS)
def test_two_clients_have_one_edge(name: str) -> None:
    assert graph(name, 2).neighbors == ((1,), (0,))


def test_in_a_complete_graph_all_are_neighbors() -> None:
    assert edges(graph("complete", 6)) == {(i, j) for i in range(6) for j in range(6) if i != j}


def test_a_star_is_no_graph_of_clients() -> None:
    assert make_topology("star", 5, 0.5, np.random.default_rng(0)) is None


def test_a_random_graph_is_the_generators_and_only_it_draws() -> None:
    assert graph("erdos-renyi", 9, seed=4) == graph("erdos-renyi", 9, seed=4) != graph("erdos-renyi", 9, seed=5)
    assert hash(graph("erdos-renyi", 9, seed=4)) == hash(graph("erdos-renyi", 9, seed=4))
    for name in ("star", "ring", "complete"):
        rng = np.random.default_rng(0)
        make_topology(name, 9, 0.5, rng)
        assert rng.random() == np.random.default_rng(0).random()


def drawn_edges(probability: float, clients: int = 30, graphs: int = 100) -> np.ndarray:
    """How often each pair is joined in graphs that are connected all but once in a million."""
    rng, counts = np.random.default_rng(1), np.zeros((clients, clients))
    for _ in range(graphs):
        topology = make_topology("erdos-renyi", clients, probability, rng)
        assert topology is not None
        counts[tuple(np.array(sorted(edges(topology))).T)] += 1
    return counts[np.triu_indices(clients, 1)]


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.05, False), (0.95, False)])
def test_edges_are_drawn_with_their_probability_and_not_with_one_5_percent_off(factor: float, accepted: bool) -> None:
    counts = drawn_edges(0.5)
    found = stats.binomtest(int(counts.sum()), 100 * len(counts), 0.5 * factor)
    assert (found.pvalue > 1e-4) == accepted


def test_all_pairs_are_as_likely_to_be_joined() -> None:
    counts = drawn_edges(0.5)
    spread = np.sum((counts - 50) ** 2) / 25
    assert 1e-4 < stats.chi2.cdf(spread, len(counts)) < 1 - 1e-4


def test_a_sparse_graph_is_as_likely_as_any_other_connected_one() -> None:
    """With three clients and edges of 1/2 four graphs are connected, all equally likely."""
    rng = np.random.default_rng(2)
    seen = [make_topology("erdos-renyi", 3, 0.5, rng) for _ in range(4000)]
    kinds = [3, *(pair for pair in combinations(range(3), 2))]

    def kind(topology: Any) -> Any:
        missing = [pair for pair in combinations(range(3), 2) if pair not in edges(topology)]
        return missing[0] if missing else 3

    found = [kind(topology) for topology in seen]
    assert stats.chisquare([found.count(kind) for kind in kinds]).pvalue > 1e-4


@some_graph
@light
def test_sums_are_those_of_a_double_loop(name: str, clients: int, seed: int) -> None:
    topology = graph(name, clients, seed=seed)
    table = np.random.default_rng(seed).standard_normal((clients, 3, 2))
    expected = np.zeros_like(table)
    for client, others in enumerate(topology.neighbors):
        for other in others:
            expected[client] += table[other]
    np.testing.assert_allclose(topology.sums(table), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_use_only_the_array_api_standard_and_keep_the_type(kind: Any) -> None:
    table = np.random.default_rng(0).standard_normal((7, 3, 2)).astype(kind)
    topology = graph("erdos-renyi", 7)
    strict = topology.sums(array_api_strict.asarray(table))
    assert strict.dtype == array_api_strict.asarray(table).dtype
    assert topology.sums(table).dtype == kind
    np.testing.assert_array_equal(np.asarray(strict), topology.sums(table))


@pytest.mark.skipif(not installed(), reason="JAX is not installed")
def test_sums_are_the_same_in_a_compiled_program() -> None:
    import jax

    table = np.random.default_rng(0).standard_normal((7, 3, 2))
    topology = graph("erdos-renyi", 7)
    with session():
        compiled = np.asarray(jax.jit(Topology.sums, static_argnums=0)(topology, table))
    np.testing.assert_allclose(compiled, topology.sums(table), rtol=0, atol=1e-13)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no such graph": (lambda: graph("torus", 5), "must be one of star, complete, ring, erdos-renyi, got 'torus'"),
    "one client": (lambda: graph("ring", 1), "at least 2 clients, got 1"),
    "no edges": (lambda: graph("erdos-renyi", 5, 0.0), "above 0 and at most 1, got 0"),
    "too sure of edges": (lambda: graph("erdos-renyi", 5, 1.5), "above 0 and at most 1, got 1.5"),
    "too sparse": (lambda: graph("erdos-renyi", 40, 0.01), f"in {DRAWS} draws .* raise the probability"),
    "in parts": (lambda: Topology("mine", ((1,), (0,), (3,), (2,))), "must connect all clients"),
    "with a direction": (lambda: Topology("mine", ((1,), (0, 2), ())), "at both of its ends"),
    "with itself": (lambda: Topology("mine", ((0, 1), (0,))), "two clients that list each other, got 0 with 0"),
}


@pytest.mark.parametrize(("make", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_connected_graph_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()
