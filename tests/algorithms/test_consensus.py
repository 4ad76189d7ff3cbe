"""ADMM on graphs, where a star is the complete one, against plain double loops; and how exact its sub-problems are."""

from collections.abc import Callable
from dataclasses import fields, replace
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.methods.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.ddp_admm_pvp_published import DDPADMMPrimalPublished
from fedspd.algorithms.methods.dp_aadmm import DPAADMM
from fedspd.algorithms.methods.dp_lr_admm import DPLRADMM
from fedspd.algorithms.methods.dp_madmm import DPMADMM
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.step_sizes import Geometric
from fedspd.algorithms.parts.topology import Topology, make_topology
from fedspd.engine import simulate
from fedspd.errors import InputError
from fedspd.problem import LEFT, FlippedLabels, Objective
from fedspd.typing import Batches, Query
from tests.algorithms.test_table_one import (
    BOUND,
    CLIENTS,
    DELTA,
    OPEN,
    PENALTY,
    ROUNDS,
    ROW_NORM,
    SHAPE,
    SMOOTH,
    SPARSE,
    STRENGTH,
    assert_agree,
    gaps,
    played,
    simulation,
)
from tests.support.algorithms import plain_table_one as plain

EPSILON, LABEL_EPSILON, GROWTH, GAMMA, TILTING = 60.0, 1.5, 1.1, 0.3, 1.2
FLIPS = 1 / (1 + exp(LABEL_EPSILON))


def graph(name: str, clients: int = CLIENTS) -> Topology:
    made = make_topology(name, clients, 0.5, np.random.default_rng(3))
    assert made is not None
    return made


METHODS: dict[str, Callable[[Objective, Network, float], Any]] = {
    "DVP": lambda objective, network, penalty: DDPADMMDual(objective, network, penalty, ROW_NORM),
    "PVP": lambda objective, network, penalty: DDPADMMPrimal(objective, network, penalty, ROW_NORM),
    "PVP as published": lambda objective, network, penalty: DDPADMMPrimalPublished(objective, network, penalty),
    "MADMM": lambda objective, network, penalty: DPMADMM(
        objective, network, penalty, Geometric(penalty, GROWTH), ROW_NORM
    ),
    "RADMM": lambda objective, network, penalty: DPRADMM(objective, network, penalty, GAMMA, ROW_NORM),
    "LR-ADMM": lambda objective, network, penalty: DPLRADMM(
        replace(objective, loss=FlippedLabels(FLIPS)), network, penalty, ROW_NORM, TILTING
    ),
}
every_method = pytest.mark.parametrize("name", METHODS)
every_graph = pytest.mark.parametrize(
    "topology", ["ring", *(pytest.param(name, marks=pytest.mark.slow) for name in ("complete", "erdos-renyi"))]
)


@every_method
def test_a_star_whose_server_relays_the_mean_is_the_complete_graph(name: str) -> None:
    star, complete = (
        simulate(simulation(METHODS[name](SMOOTH, Network(CLIENTS, topology), PENALTY), EPSILON)).models
        for topology in (None, graph("complete"))
    )
    assert_agree(star, list(complete), 1e-10)


def plain_models(name: str, rounds: list[plain.Round], topology: Topology) -> list[plain.Point]:
    edges = {client: list(others) for client, others in enumerate(topology.neighbors)}
    degrees = [len(others) for others in edges.values()]
    eta = PENALTY / (2 * sum(degrees) / CLIENTS)
    common = rounds, edges, SHAPE, eta

    def deviation(records: float) -> float:
        moved = (1 + LEFT) * 2 * BOUND / (records * (STRENGTH + 2 * eta * min(degrees)))
        return sqrt(2 * log(1.25 / DELTA)) / EPSILON * moved

    match name:
        case "DVP":
            return plain.dvp(*common, STRENGTH, BOUND, EPSILON)
        case "PVP" | "PVP as published":
            return plain.pvp(*common, STRENGTH, BOUND, EPSILON, hidden=name != "PVP")
        case "MADMM":
            return plain.madmm(*common, GROWTH, STRENGTH, BOUND, EPSILON)
        case "RADMM":
            return plain.radmm(*common, GAMMA, STRENGTH, BOUND, EPSILON)
        case _:
            return plain.lr_admm(*common, STRENGTH, BOUND, TILTING, LABEL_EPSILON, deviation)


@every_method
@every_graph
def test_on_a_graph_a_method_and_its_plain_implementation_agree_on_the_same_draws(name: str, topology: str) -> None:
    chosen = graph(topology)
    assert topology != "erdos-renyi" or len(set(chosen.degrees)) > 1, "degrees must differ somewhere"
    models, rounds = played(simulation(METHODS[name](SMOOTH, Network(CLIENTS, chosen), PENALTY), EPSILON))
    assert_agree(models, plain_models(name, rounds, chosen), 1e-8)


WITHOUT_NOISE = METHODS | {
    "MADMM": lambda objective, network, penalty: DPMADMM(
        objective, network, penalty, Geometric(penalty, 1.002), ROW_NORM
    ),
    "LR-ADMM": lambda objective, network, penalty: DPLRADMM(
        replace(objective, loss=FlippedLabels(0.0)), network, penalty, ROW_NORM, 0.0
    ),
}


@pytest.mark.parametrize("name", WITHOUT_NOISE)
@every_graph
def test_without_noise_a_method_reaches_the_same_optimum_on_every_graph(name: str, topology: str) -> None:
    algorithm = WITHOUT_NOISE[name](OPEN, Network(CLIENTS, graph(topology)), 0.3)
    assert abs(gaps(simulation(algorithm, inf, rounds=200))[-1]) < 1e-6


@every_graph
def test_the_penalty_is_the_mean_curvature_that_a_graph_adds(topology: str) -> None:
    network = Network(CLIENTS, graph(topology))
    told = network.tell(np.zeros((CLIENTS, *SHAPE)), PENALTY)
    heard = network.listen(told, np.zeros((CLIENTS, *SHAPE)))
    curvatures = (2 * heard.edge * heard.degree)[:, 0, 0]
    assert curvatures.mean() == pytest.approx(PENALTY, rel=1e-14)
    assert curvatures.min() == pytest.approx(PENALTY * network.least_share, rel=1e-14)


def test_on_a_star_all_clients_have_the_same_curvature() -> None:
    network = Network(CLIENTS)
    assert (network.mean_degree, network.least_share) == (CLIENTS - 1, 1.0)


@pytest.mark.parametrize("clients", [0, 1])
def test_a_network_of_one_is_refused(clients: int) -> None:
    with pytest.raises(InputError, match=f"at least 2 clients, got {clients}"):
        Network(clients)


@pytest.mark.parametrize("others", [3, CLIENTS + 1])
def test_a_network_refuses_the_graph_of_other_clients(others: int) -> None:
    """Sums over a graph of three would be taken of six clients without a word."""
    with pytest.raises(InputError, match=f"{CLIENTS} clients needs a topology of as many, got {others}"):
        Network(CLIENTS, graph("ring", others))


# --- sub-problems are exact ----------------------------------------------------------------------------------


def slopes_left(algorithm: Any, told: Any, client: Any, batches: Batches, query: Query, kept: Any) -> Any:
    """The gradient of what the paper minimizes, on a star, at what a method took for its minimizer."""

    def loss_slope(x: Any) -> Any:
        return algorithm.objective.gradient(x, batches.features[:, 0], batches.labels[:, 0], batches.divisors).mean

    if isinstance(algorithm, DPAADMM):  # whose new dual is minus the slope of the loss
        return loss_slope(kept.value.weights) + kept.value.dual
    if isinstance(algorithm, PrivateADMM):
        x = told.weights + (query.value - client.anchor) / (2 * algorithm.relaxation)
        return loss_slope(x) + algorithm.penalty * (x - (2 * told.weights - client.anchor))
    own = client.own.value if hasattr(client, "own") else client.weights
    edge = algorithm.penalty / (2 * (CLIENTS - 1))
    others = CLIENTS * told.weights - client.weights
    dual = client.dual + edge / 2 * ((CLIENTS - 1) * client.weights - others)
    apart = 2 * edge * ((CLIENTS - 1) * (query.value - own / 2) - others / 2)
    tilt = algorithm.tilting * BOUND * client.tilt / batches.divisors[:, None, None] if hasattr(client, "tilt") else 0
    return loss_slope(query.value) + STRENGTH * query.value + 2 * dual + apart + tilt


def watched(algorithm: Any, left: list[np.ndarray]) -> Any:
    """The same method, which notes what is left of slopes wherever it minimizes."""

    class Watched(type(algorithm)):
        def query(self, told: Any, client: Any, batches: Batches) -> Any:
            query, kept = super().query(told, client, batches)
            if isinstance(query, Query):
                left.append(slopes_left(algorithm, told, client, batches, query, kept))
                return query, kept

            def under(noise: np.ndarray) -> np.ndarray:
                left.append(query.slope(query.under(noise)) + noise)
                return query.under(noise)

            return query._replace(under=under), kept

    return Watched(**{field.name: getattr(algorithm, field.name) for field in fields(algorithm)})


EXACT: dict[str, Callable[[float], Any]] = {
    "DVP": lambda penalty: DDPADMMDual(SMOOTH, Network(CLIENTS), penalty, ROW_NORM),
    "PVP": lambda penalty: DDPADMMPrimal(SMOOTH, Network(CLIENTS), penalty, ROW_NORM),
    "PVP as published": lambda penalty: DDPADMMPrimalPublished(SMOOTH, Network(CLIENTS), penalty),
    "MADMM": lambda penalty: DPMADMM(SMOOTH, Network(CLIENTS), penalty, Geometric(penalty, 1.1), ROW_NORM),
    "RADMM": lambda penalty: DPRADMM(SMOOTH, Network(CLIENTS), penalty, 1.0, ROW_NORM),
    "LR-ADMM": lambda penalty: DPLRADMM(replace(SMOOTH, loss=FlippedLabels(0.3)), Network(CLIENTS), penalty, ROW_NORM),
    "AADMM": lambda penalty: DPAADMM(SPARSE, CLIENTS, penalty, CLIENTS),
    "private ADMM": lambda penalty: PrivateADMM(SPARSE, CLIENTS, penalty, ROW_NORM),
    "one shot": lambda penalty: OneShot(SMOOTH, penalty, ROW_NORM),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("penalty", [0.03, 0.6, 20.0])
def test_every_sub_problem_of_an_exact_method_is_solved_to_the_ninth_digit(name: str, penalty: float) -> None:
    left: list[np.ndarray] = []
    simulate(simulation(watched(EXACT[name](penalty), left)))
    norms = np.concatenate([np.linalg.norm(slope, axis=(1, 2)) for slope in left])
    assert len(norms) == CLIENTS * ROUNDS / (2 if name == "RADMM" else 1)
    assert norms.max() <= 1e-9
