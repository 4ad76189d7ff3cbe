"""All methods side by side: what each claims is attacked, and all keep the contract of `algorithms/base.py`."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from math import inf, sqrt
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
import pytest
from array_api_compat import array_namespace
from hypothesis import given, settings
from hypothesis import strategies as st

import fedspd.algorithms
from fedspd.algorithms import DPADMM, DPSGD, Constant, FedAvg, FedPD, FedSPD, FedSPDPublished, Schedule, SquareRoot
from fedspd.engine import Simulation, optimum, simulate
from fedspd.engine.diagnostics import objectives
from fedspd.engine.round import play
from fedspd.engine.rows import gather
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, Sampling, gaussian, plan_as_published, plan_proved
from fedspd.privacy.accounting.events import relative_distances
from fedspd.problem import (
    L1,
    Box,
    ElasticNet,
    GroupL1,
    LeastSquares,
    Loss,
    Objective,
    Regularizer,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
)
from fedspd.typing import Batches
from tests.algorithms.neighbors import Shard, hides_state, replay, same
from tests.algorithms.test_fedspd import bounded, random_shard
from tests.algorithms.test_fedspd_published import small_problem

COLUMNS, RECORDS, ROUNDS = 3, 24, 5
LOSSES: list[Loss] = [Softmax(2), LeastSquares(), SquaredHinge()]
REGULARIZERS: list[Regularizer] = [
    Unregularized(), L1(0.3), SquaredL2(0.5), ElasticNet(0.4, 0.5), GroupL1(0.2), Box(0.4),
]  # fmt: skip


class Setting(NamedTuple):
    """What the methods below are made from; each takes what it knows. Rows have norm at most 1."""

    objective: Objective = Objective(Softmax(2), L1(0.02), 0.7)
    local_steps: int = 1
    gamma: float = 1.0
    penalty: float = 0.3
    relation: Any = "replace-one"
    crowding: float = 1.0
    clients: int = 3
    grows: bool = True  # γ grows from round to round

    @property
    def schedule(self) -> Schedule:
        return SquareRoot(self.gamma) if self.grows else Constant(self.gamma)


METHODS: dict[str, Callable[[Setting], Any]] = {
    "FedSPD-DP": lambda s: FedSPD(
        s.objective, s.clients, s.penalty, s.local_steps, s.gamma, 1.0, "server", s.relation, s.crowding
    ),
    "FedSPD-DP from the client's own point": lambda s: FedSPD(
        s.objective, s.clients, s.penalty, s.local_steps, s.gamma, 1.0, "own", s.relation, s.crowding
    ),
    "FedSPD-DP as published": lambda s: FedSPDPublished(
        s.objective, s.clients, s.penalty, s.local_steps, s.schedule
    ),
    "DP-SGD": lambda s: DPSGD(s.objective, s.schedule, "fixed", s.relation),
    "DP-SGD with median clipping": lambda s: DPSGD(s.objective, s.schedule, "median", s.relation),
    "DP-FedAvg": lambda s: FedAvg(s.objective, s.local_steps, s.schedule, 0.0, 1.0, s.relation, s.crowding),
    "DP-FedAvg as published": lambda s: FedAvg(s.objective, s.local_steps, s.schedule),
    "DP-FedProx": lambda s: FedAvg(s.objective, s.local_steps, s.schedule, s.penalty, 1.0, s.relation, s.crowding),
    "DP-ADMM": lambda s: DPADMM(s.objective, s.clients, s.penalty, s.schedule, s.relation),
    "FedPD": lambda s: FedPD(s.objective, s.clients, s.penalty, s.local_steps, s.schedule),
}  # fmt: skip
CLAIMS = {
    "FedSPD-DP": "proved",
    "FedSPD-DP from the client's own point": "proved",
    "FedSPD-DP as published": "as published",
    "DP-SGD": "proved",
    "DP-SGD with median clipping": "as published",
    "DP-FedAvg": "proved",
    "DP-FedAvg as published": "as published",
    "DP-FedProx": "proved",
    "DP-ADMM": "proved",
    "FedPD": "none",
}
PROVED = [name for name, claim in CLAIMS.items() if claim == "proved"]
HIDING = ["FedSPD-DP as published", "DP-SGD with median clipping", "FedPD"]

every_method = pytest.mark.parametrize("name", METHODS)
seeds = given(seed=st.integers(0, 2**32))
light = settings(deadline=None, max_examples=15)


def test_the_table_holds_every_method_of_the_package() -> None:
    known = [getattr(fedspd.algorithms, name) for name in fedspd.algorithms.__all__]
    methods = {kind for kind in known if isinstance(kind, type) and hasattr(kind, "settle")}
    assert {type(make(Setting())) for make in METHODS.values()} == methods - {fedspd.algorithms.Algorithm}


@every_method
def test_a_method_claims_what_this_table_says_and_no_more(name: str) -> None:
    assert METHODS[name](Setting(local_steps=5)).guarantee == CLAIMS[name]


# --- what is proved ------------------------------------------------------------------------------------------


def drawn_without_replacement(rng: np.random.Generator, steps: int, batch: int) -> np.ndarray:
    return rng.permutation(RECORDS)[: steps * batch].reshape(steps, batch)


def drawn_whole(rng: np.random.Generator, steps: int) -> np.ndarray:
    """Every record once, dealt out to batches whose lengths differ by one where they must."""
    width = -(-RECORDS // steps)
    return np.concatenate([rng.permutation(RECORDS), np.full(width * steps - RECORDS, -1)]).reshape(-1, steps).T


def drawn_by_poisson(rng: np.random.Generator, steps: int, largest: int) -> np.ndarray:
    """Batches of any length up to the largest that the proof allows for, the empty one included."""
    drawn, order, begin = np.full((steps, largest), -1), rng.permutation(RECORDS), 0
    for step in range(steps):
        count = int(rng.integers(0, min(largest, RECORDS - begin) + 1))
        drawn[step, :count], begin = order[begin : begin + count], begin + count
    return drawn


@pytest.mark.parametrize("name", PROVED)
@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    local_steps=st.sampled_from([1, 2, 5]),
    loss=st.sampled_from(LOSSES),
    regularizer=st.sampled_from(REGULARIZERS),
    sampling=st.sampled_from(["without-replacement", "whole-shard", "poisson"]),
    penalty=st.sampled_from([0.01, 0.3, 5.0]),
)
def test_a_proved_method_survives_the_replay_on_random_neighbors(
    name: str, seed: int, local_steps: int, loss: Loss, regularizer: Regularizer, sampling: str, penalty: float
) -> None:
    """The server sends what it likes; one record is replaced, or made null where sampling is Poisson."""
    rng = np.random.default_rng(seed)
    steps = METHODS[name](Setting(local_steps=local_steps)).local_steps  # some methods take one step only
    batch = int(rng.integers(1, RECORDS // steps // 2 + 1))
    divisor = RECORDS / steps if sampling == "whole-shard" else float(batch)
    draw, crowding = {
        "without-replacement": (lambda: drawn_without_replacement(rng, steps, batch), 1.0),
        "whole-shard": (lambda: drawn_whole(rng, steps), -(-RECORDS // steps) / divisor),
        "poisson": (lambda: drawn_by_poisson(rng, steps, 2 * batch), 2.0),
    }[sampling]
    gamma = crowding * loss.curvature / 2 * rng.uniform(1.0, 4.0) if steps > 1 else rng.uniform(0.001, 2.0)
    relation = "zero-out" if sampling == "poisson" else "replace-one"
    algorithm = METHODS[name](Setting(Objective(loss, regularizer, 0.7), steps, gamma, penalty, relation, crowding))
    draws = [draw() for _ in range(ROUNDS)]
    shard = random_shard(rng, RECORDS)
    swapped = int(max(0, *draws[0][:, :1].flat))
    others = [random_shard(rng, 1).features[0], -shard.features[swapped]]
    row = np.zeros(COLUMNS) if relation == "zero-out" else others[rng.integers(2)]
    neighbor = shard.with_record(swapped, row, int(rng.integers(2)))
    servers = rng.standard_normal((ROUNDS, COLUMNS, loss.outputs)) * rng.uniform(0, 3)
    normals = rng.standard_normal((ROUNDS, 1, COLUMNS, loss.outputs))
    found = replay(algorithm, shard, neighbor, draws, servers, normals, divisor=divisor)
    assert found.worst_ratio <= 1 + 1e-9
    assert not found.state_differs


def ratio_in_each_step(
    name: str, local_steps: int, batch: int = 4, relation: str = "replace-one", gamma: float = 0.4, rho: float = 0.2
) -> np.ndarray:
    """How far the worst record moves the query from each step, over the sensitivity.

    At zero weights a row of norm 1 has gradients of norm 1/√2, opposite for the two labels; all other
    rows are zero, without gradient.
    """
    objective = Objective(Softmax(2), Unregularized(), sqrt(0.5))
    algorithm = METHODS[name](Setting(objective, local_steps, gamma, rho, relation))
    steps = algorithm.local_steps
    blank = Shard(np.zeros((steps * batch, COLUMNS)), np.zeros(steps * batch, int))
    unit, still = np.eye(COLUMNS)[0], np.zeros((1, 1, COLUMNS, 2))
    drawn = np.arange(steps * batch).reshape(steps, batch)
    ratios = []
    for record in drawn[:, -1]:
        first = blank.with_record(record, unit, 0)
        second = first.with_record(record, unit if relation == "replace-one" else 0 * unit, 1)
        ratios.append(replay(algorithm, first, second, [drawn], still[0], still).worst_ratio)
    return np.array(ratios)


@pytest.mark.parametrize("name", PROVED)
@pytest.mark.parametrize("local_steps", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_the_sensitivity_of_a_proved_method_is_attained(name: str, local_steps: int, batch: int, relation: str) -> None:
    assert ratio_in_each_step(name, local_steps, batch, relation).max() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", PROVED)
def test_no_step_weighs_more_than_the_accountant_assumes_for_it(name: str) -> None:
    """An average counts early steps most, a last iterate late ones: for it every step is charged like the worst."""
    steps, gamma, rho = 5, 0.4, 0.2
    c = gamma / (gamma + rho)
    measured = ratio_in_each_step(name, steps, gamma=gamma, rho=rho)
    left = steps - np.arange(len(measured)) - 1  # steps that follow
    expected, assumed = {
        "FedSPD-DP": ((1 - c ** (left + 1)) / (1 - c**steps), c),
        "FedSPD-DP from the client's own point": ((1 - c ** (left + 1)) / (1 - c**steps), c),
        "DP-FedAvg": (np.ones(steps), 0.0),
        "DP-FedProx": (c**left, 0.0),
        "DP-SGD": (np.ones(1), 0.0),
        "DP-ADMM": (np.ones(1), 0.0),
    }[name]
    np.testing.assert_allclose(measured, expected, rtol=1e-9)
    assert np.all(measured <= np.array(relative_distances(len(measured), assumed)) * (1 + 1e-9))


# --- what is not proved --------------------------------------------------------------------------------------


def one_round(name: str, setting: Setting | None = None) -> tuple[Any, Any, Any]:
    """State before, what is kept beside the query, state after."""
    algorithm = METHODS[name](setting or Setting())
    inputs = Inputs.random(algorithm, 0)
    told = algorithm.broadcast(inputs.server, 1)
    query, kept = algorithm.query(told, inputs.client, inputs.batches)
    client, _ = algorithm.settle(told, inputs.client, gaussian(query, 0.1, inputs.normals), kept)
    return inputs.client, kept, client


@every_method
def test_what_a_method_keeps_un_noised_is_declared_private_and_a_proved_method_keeps_nothing(name: str) -> None:
    before, kept, after = one_round(name)
    assert hides_state(kept) == (name in HIDING)
    assert name not in PROVED or not (kept is not None or hides_state(before) or hides_state(after))


@pytest.mark.parametrize("name", HIDING)
def test_a_record_used_in_one_round_shows_beside_the_releases_of_a_method_that_hides_state(name: str) -> None:
    """The record is the one of median gradient, and it grows: with median clipping all others are clipped otherwise."""
    rows = np.eye(COLUMNS)[[0, 1, 2, 0, 1, 2]] * np.array([0.5, 0.2, 0.9, 0.5, 0.2, 0.9])[:, None]
    shard = Shard(rows, np.array([0, 1, 0, 1, 0, 1]))
    neighbor = shard.with_record(0, 1.2 * rows[0], 0)
    draws = [np.array([[0, 1, 2]])] + [np.array([[3, 4, 5]])] * 3
    still = np.zeros((4, COLUMNS, 2))
    assert replay(METHODS[name](Setting()), shard, neighbor, draws, still, still[:, None]).state_differs


def test_with_median_clipping_one_record_moves_the_query_further_than_a_clipped_sum_may() -> None:
    """Three gradients in one direction, two of them short. One short one turns into a long one the other way: the
    median rises, so the other short one no longer counts in full."""
    rows = np.outer([1e-3, 1e-3, 1.0], np.eye(COLUMNS)[0])
    shard = Shard(rows, np.zeros(3, int))
    still = np.zeros((1, COLUMNS, 2))
    neighbor = shard.with_record(0, -rows[2], 0)
    algorithm = METHODS["DP-SGD with median clipping"](Setting())
    found = replay(algorithm, shard, neighbor, [np.array([[0, 1, 2]])], still, still[None])
    assert found.worst_ratio == pytest.approx((2 + 1 - 1e-3) / 2, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), local_steps=st.sampled_from([1, 2, 5]), loss=st.sampled_from(LOSSES))
def test_the_bound_of_dp_fedavg_as_published_holds_for_any_batches_and_any_step_size(
    seed: int, local_steps: int, loss: Loss
) -> None:
    """It is what the triangle inequality gives, for records drawn again and again; its total is what has no proof."""
    rng = np.random.default_rng(seed)
    objective = Objective(loss, REGULARIZERS[seed % len(REGULARIZERS)], 0.7)
    algorithm = METHODS["DP-FedAvg as published"](Setting(objective, local_steps, rng.uniform(0.001, 1.0)))
    shard = random_shard(rng, RECORDS)
    neighbor = shard.with_record(0, bounded(rng.standard_normal((1, COLUMNS)) * 3, 1.0)[0], int(rng.integers(2)))
    draws = [rng.integers(0, 3, (local_steps, 2)) for _ in range(ROUNDS)]
    servers = rng.standard_normal((ROUNDS, COLUMNS, loss.outputs)) * rng.uniform(0, 3)
    found = replay(algorithm, shard, neighbor, draws, servers, rng.standard_normal((ROUNDS, 1, COLUMNS, loss.outputs)))
    assert found.worst_ratio <= 1 + 1e-9
    assert not found.state_differs


@pytest.mark.parametrize("local_steps", [1, 5])
def test_a_record_alone_in_every_batch_attains_the_bound_of_dp_fedavg_as_published(local_steps: int) -> None:
    """Labels so far away that the clipped gradient never changes."""
    objective = Objective(LeastSquares(), Unregularized(), 0.7)
    algorithm = METHODS["DP-FedAvg as published"](Setting(objective, local_steps, 0.1))
    shard = Shard(np.eye(COLUMNS)[:1], np.array([10**6]))
    neighbor = shard.with_record(0, np.eye(COLUMNS)[0], -(10**6))
    still = np.zeros((1, COLUMNS, 1))
    found = replay(algorithm, shard, neighbor, [np.zeros((local_steps, 1), int)], still, still[None])
    assert found.worst_ratio == pytest.approx(1.0, rel=1e-9)


def small_run(algorithm: Any, plan: Any, rounds: int = 2) -> Simulation:
    """Whole shards of unequal size, rows of norm at most 1, everybody takes part."""
    shards, table = small_problem(seed=3, clients=5)
    shards = replace(shards, features=shards.features / np.linalg.norm(shards.features, axis=1).max())
    return Simulation(shards, table, algorithm, plan, None, 5, rounds, seed=0)


@every_method
def test_under_a_proved_plan_the_engine_runs_what_is_proved_and_refuses_the_rest(name: str) -> None:
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    run = small_run(METHODS[name](Setting(clients=5)), plan_proved(2.0, 1e-5, Sampling(WHOLE_SHARD), sizes, 2))
    if name in PROVED:
        assert np.isfinite(simulate(run).weights).all()
    else:
        with pytest.raises(RuntimeError, match="its plan cannot be 'proved'"):
            simulate(run)


@pytest.mark.parametrize("name", HIDING)
def test_a_round_refuses_a_method_that_hides_state_and_calls_itself_proved(name: str) -> None:
    honest = METHODS[name](Setting())
    values = {field.name: getattr(honest, field.name) for field in fields(honest)}
    liar: Any = type("Liar", (type(honest),), {"guarantee": "proved"})(**values)
    inputs = Inputs.random(honest, 0)
    told = honest.broadcast(inputs.server, 1)
    perturb = partial(gaussian, scale=0.1, normals=inputs.normals)
    play(honest, told, inputs.client, inputs.batches, perturb)
    with pytest.raises(RuntimeError, match="its guarantee cannot be 'proved'"):
        play(liar, told, inputs.client, inputs.batches, perturb)


# --- the contract --------------------------------------------------------------------------------------------


class Inputs(NamedTuple):
    """All that the legs of a method are given, for three clients with unequal batch sizes."""

    server: Any
    client: Any
    batches: Batches
    normals: Any
    previous: Any

    @classmethod
    def random(cls, algorithm: Any, seed: int) -> "Inputs":
        rng = np.random.default_rng(seed)
        shape = (3, COLUMNS, algorithm.objective.loss.outputs)
        features = rng.standard_normal((3, algorithm.local_steps, 5, COLUMNS))
        batches = Batches(features, rng.integers(0, 2, features.shape[:3]), np.array([5.0, 6.0, 8.0]))
        server, client, _ = algorithm.start(np.zeros(shape))
        client = mapped(lambda array: rng.standard_normal(array.shape), client)
        return cls(0.5 * rng.standard_normal(server.shape), client, batches, *rng.standard_normal((2, *shape)))

    def only(self, clients: slice) -> "Inputs":
        rows = np.arange(3)[clients]
        return Inputs(self.server, *(gather(table, rows) for table in self[1:]))


class Outputs(NamedTuple):
    """All that the legs of a method return."""

    query: Any
    kept: Any
    client: Any
    replies: Any
    point: Any
    server: Any


def legs(algorithm: Any, inputs: Inputs, round: int = 2) -> Outputs:
    server, client, batches, normals, previous = inputs
    told = algorithm.broadcast(server, round)
    query, kept = algorithm.query(told, client, batches)
    client, replies = algorithm.settle(told, client, gaussian(query, 0.1, normals), kept)
    present = array_namespace(replies).ones(replies.shape[0])
    server = algorithm.model(algorithm.merge(server, told, replies, previous, present))
    return Outputs(query, kept, client, replies, algorithm.local_point(client), server)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nested tuples with the function applied to every array."""
    if isinstance(tree, tuple):
        return type(tree)(*(mapped(function, field) for field in tree))
    return tree if tree is None else function(tree)


def arrays_of(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return [array for field in tree for array in arrays_of(field)]
    return [] if tree is None else [tree]


def assert_close(one: Any, two: Any) -> None:
    first, second = arrays_of(one), arrays_of(two)
    assert len(first) == len(second) > 0
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)


@every_method
@seeds
@light
def test_a_stack_of_three_clients_does_what_three_stacks_of_one_do(name: str, seed: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    together = legs(algorithm, inputs)
    for client in range(3):
        alone = legs(algorithm, inputs.only(slice(client, client + 1)))
        for part, whole in zip(alone[:5], together[:5], strict=True):  # a server needs them all
            if whole is not None:
                assert_close(part, gather(whole, np.array([client])))


@every_method
@seeds
@light
def test_an_empty_place_in_the_stack_changes_nothing_on_the_server(name: str, seed: int) -> None:
    algorithm = METHODS[name](Setting())
    inputs = Inputs.random(algorithm, seed)
    told, replies = algorithm.broadcast(inputs.server, 2), inputs.normals
    filled = algorithm.merge(inputs.server, told, replies, inputs.previous, np.array([1.0, 1.0, 0.0]))
    alone = algorithm.merge(inputs.server, told, replies[:2], inputs.previous[:2], np.ones(2))
    assert_close(algorithm.model(filled), algorithm.model(alone))


@every_method
@seeds
@light
def test_rows_of_zeros_that_fill_up_a_batch_change_nothing_but_the_clipped_share(name: str, seed: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    features, labels, divisors = inputs.batches
    filled = Batches(
        np.concatenate([features, np.zeros_like(features)], axis=2), np.concatenate([labels, labels], axis=2), divisors
    )
    short, long = legs(algorithm, inputs), legs(algorithm, inputs._replace(batches=filled))
    assert_close((short.query.value, *short[1:]), (long.query.value, *long[1:]))


@every_method
def test_a_batch_without_any_gradient_is_no_reason_for_numbers_that_are_none(name: str) -> None:
    algorithm = METHODS[name](Setting())
    inputs = Inputs.random(algorithm, 0)
    blank = inputs.batches._replace(features=0 * np.asarray(inputs.batches.features))
    assert all(np.isfinite(array).all() for array in arrays_of(legs(algorithm, inputs._replace(batches=blank))))


@every_method
@seeds
@light
def test_the_legs_use_only_the_array_api_standard(name: str, seed: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    strict = legs(algorithm, mapped(array_api_strict.asarray, inputs))
    assert {type(array) for array in arrays_of(strict)} == {type(array_api_strict.asarray(0.0))}
    assert_close(strict, legs(algorithm, inputs))


@every_method
def test_a_method_starts_on_any_array_of_the_standard(name: str) -> None:
    algorithm, zeros = METHODS[name](Setting()), np.zeros((3, COLUMNS, 2))
    strict = algorithm.start(array_api_strict.asarray(zeros))
    assert_close(tuple(arrays_of(strict)), tuple(arrays_of(algorithm.start(zeros))))


@every_method
@seeds
@light
def test_the_legs_are_pure_functions_that_leave_their_inputs_as_they_were(name: str, seed: int) -> None:
    algorithm = METHODS[name](Setting(local_steps=2))
    inputs = Inputs.random(algorithm, seed)
    before = mapped(np.copy, inputs)
    first, second = legs(algorithm, inputs), legs(algorithm, inputs)
    assert same(inputs, before)
    assert same(tuple(arrays_of(first)), tuple(arrays_of(second)))


# --- without privacy they learn ------------------------------------------------------------------------------

SMOOTH, SPARSE, ROUNDS_TO_CONVERGE = SquaredL2(0.01), L1(0.03), 250
CONVERGENCE: dict[str, tuple[Regularizer, float, float]] = {
    # regularizer, γ, ρ or μ; an average of proximal points, or a subgradient, needs a smooth regularizer
    "FedSPD-DP": (SPARSE, 0.1, 0.02),
    "FedSPD-DP from the client's own point": (SPARSE, 0.1, 0.02),
    "FedSPD-DP as published": (SPARSE, 0.1, 0.02),
    "DP-SGD": (SPARSE, 0.05, 0.0),
    "DP-FedAvg": (SMOOTH, 0.05, 0.0),
    "DP-FedAvg as published": (SMOOTH, 0.05, 0.0),
    "DP-FedProx": (SMOOTH, 0.04, 0.01),
    "DP-ADMM": (SMOOTH, 0.1, 0.02),
    "FedPD": (SPARSE, 0.1, 0.02),
}


def gap_at_the_end(name: str, regularizer: Regularizer, gamma: float, penalty: float) -> float:
    """Objective above the optimum of scikit-learn, without noise, with all records of all clients."""
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    plan = plan_as_published(inf, "round", 1e-4, WITHOUT_REPLACEMENT, 1, sizes, ROUNDS_TO_CONVERGE)
    objective = Objective(Softmax(2), regularizer, inf)
    algorithm = METHODS[name](Setting(objective, gamma=gamma, penalty=penalty, clients=5, grows=False))
    run = replace(small_run(algorithm, plan, ROUNDS_TO_CONVERGE), objective_every=ROUNDS_TO_CONVERGE)
    best = optimum(run)
    at_zero, least = objectives(objective, run.shards, np.stack([0 * best, best]))
    assert at_zero - least > 0.1, "the start must not be the optimum already"
    assert np.any(np.abs(best) < 1e-12) == (regularizer is SPARSE), "l1 must matter where it is used"
    return float(simulate(run).history.last("objective") - least)


@pytest.mark.parametrize("name", CONVERGENCE)
def test_without_noise_and_with_all_records_of_all_clients_a_method_reaches_the_optimum(name: str) -> None:
    """A tenth of the regularizer more or less would leave 2e-3."""
    assert abs(gap_at_the_end(name, *CONVERGENCE[name])) < 1e-6


def test_the_average_of_proximal_points_in_fedavg_misses_the_optimum_of_an_l1_problem() -> None:
    """Each client thresholds its own gradient, and a mean of thresholded points is not their mean thresholded."""
    assert gap_at_the_end("DP-FedAvg", SPARSE, 0.05, 0.0) > 1e-3
