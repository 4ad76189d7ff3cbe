"""Secure sums of batches: every member draws from its own records, and pays for the most crowded of them."""

from math import sqrt
from typing import Any

import numpy as np
import pytest

from fedspd import InputError, config, run
from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.assemble.cohorts import most_crowded
from fedspd.engine import simulate
from fedspd.engine.batches import draw_of_members, gather_batches, member_batches
from fedspd.engine.numpy_engine import draw_round
from fedspd.privacy import POISSON, WITHOUT_REPLACEMENT
from fedspd.privacy.accounting import (
    FixedSize,
    Gaussian,
    Poisson,
    SharedFixedSize,
    SharedPoisson,
    from_dict,
    spent,
    to_dict,
)
from fedspd.typing import Query
from tests.support.small_runs import small_run

SMALL: dict[str, Any] = {
    "metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0, "data.encode": "declared",
    "privacy.trust": "secure-sums", "run.engine": "numpy", "partition.clients": 12, "run.participants": 4,
    "run.rounds": 6, "algorithm.batch_size": 50,
}  # fmt: skip
UNEQUAL = {"partition.kind": "dirichlet", "partition.alpha": 0.3, "partition.at_least": 20}
SIZES = np.array([100, 104, 96, 300, 20, 7])


def experiment(**changes: Any) -> Any:
    return prepare_experiment(
        config.load("proved", SMALL | {key.replace("__", "."): value for key, value in changes.items()})
    )


def test_members_draw_in_proportion_to_what_they_hold() -> None:
    batches = member_batches(SIZES, 10)
    np.testing.assert_array_equal(batches, [10, 10, 9, 29, 2, 1])
    assert np.all(member_batches(SIZES, 104) <= SIZES)
    with pytest.raises(InputError, match=r"at most the records of a client on average, 104\.5"):
        member_batches(SIZES, 105)


@pytest.mark.parametrize("sampling", [WITHOUT_REPLACEMENT, POISSON])
def test_every_member_draws_from_its_own_records_and_all_of_them_are_as_likely(sampling: str) -> None:
    batches, rng, counts = member_batches(SIZES, 10), np.random.default_rng(4), np.zeros(SIZES.sum())
    ends, times = np.cumsum(SIZES), 4000
    for _ in range(times):
        drawn = draw_of_members(rng, SIZES, batches, sampling)
        assert len(set(drawn.tolist())) == len(drawn), "no record twice"
        counts[drawn] += 1
        if sampling == WITHOUT_REPLACEMENT:
            np.testing.assert_array_equal(np.bincount(np.searchsorted(ends, drawn, "right")), batches)
    chances = np.repeat(batches / SIZES, SIZES)
    off = (counts / times - chances) / np.sqrt(chances * (1 - chances) / times)
    assert np.abs(off).max() < 5
    assert 0.8 < off.std() < 1.2


@pytest.mark.parametrize("sampling", [WITHOUT_REPLACEMENT, POISSON])
def test_a_member_is_charged_for_its_own_rate_and_for_both_numbers(sampling: str) -> None:
    made = experiment(algorithm__sampling=sampling, data__scaling="min-max")
    plan, (records, drawn) = made.plan, most_crowded(made.holdings, 50) or (0, 0)
    (event,) = {group.event for group in plan.groups}
    z, own = event.noise_multiplier, event.noise_multiplier / sqrt(plan.draws.sharing.honest)
    if sampling == WITHOUT_REPLACEMENT:
        assert event == SharedFixedSize(z, records, drawn, own_multiplier=own)
        plain, alone = FixedSize(z, records, drawn), FixedSize(own, records, drawn)
    else:
        assert event == SharedPoisson(z, drawn / records, own_multiplier=own)
        plain, alone = Poisson(z, drawn / records), Poisson(own, drawn / records)
    times = int(plan.most_participations[0])
    assert 0.99 < spent([(plain, times)], plan.delta).epsilon <= 1.0, "the budget is used, and kept to"
    assert plan.epsilon_alone == pytest.approx(spent([(alone, times)], plan.delta).epsilon, rel=1e-9)
    assert spent([(Gaussian(z), times)], plan.delta).epsilon > 3, "batches are what makes it so little"
    assert from_dict(to_dict(event)) == event
    assert from_dict(to_dict(event)) != plain


def test_no_member_pays_less_than_it_costs_also_where_members_differ() -> None:
    made = experiment(**{key.replace(".", "__"): value for key, value in UNEQUAL.items()}, data__scaling="min-max")
    sizes, plan = made.holdings.sizes, made.plan
    batches, times = member_batches(sizes, 50), int(plan.most_participations[0])
    event = plan.groups[0].event

    def costs(records: int, drawn: int) -> float:
        return spent([(FixedSize(event.noise_multiplier, records, drawn), times)], plan.delta).epsilon

    members = [costs(int(own), int(drawn)) for own, drawn in zip(sizes, batches, strict=True)]
    assert max(members) == pytest.approx(1.0, abs=0.01)
    assert max(members) <= 1.0
    pooled = [made.simulation.members.records[0].sum(), made.simulation.members.batches[0].sum()]
    assert costs(*map(int, pooled)) < 0.98 * max(members), "planted: the rate of the cohort in place of the member's"


@pytest.mark.parametrize("sampling", [WITHOUT_REPLACEMENT, POISSON])
def test_a_record_moves_a_sum_of_batches_by_as_much_as_is_charged_and_no_more(sampling: str) -> None:
    made = experiment(algorithm__sampling=sampling, problem__clip_norm=0.05)
    simulation, chosen = made.simulation, np.array([1])
    divisors, shards, algorithm = simulation.batch_sizes(chosen), simulation.shards, simulation.algorithm
    assert divisors[0] == pytest.approx(np.mean([each.sum() for each in simulation.members.batches]))
    records = draw_round(simulation, 1, chosen).records
    batches = gather_batches(shards, chosen, records, divisors)
    zeros = np.zeros((1, *simulation.matrix))
    server, state, _ = algorithm.start(zeros)
    told = algorithm.broadcast(server, 1)

    def query(label: int, there: float) -> np.ndarray:
        labels, features = np.array(batches.labels), np.array(batches.features)
        labels[0, 0, 0] = label
        features[0, 0, 0] *= there
        found, _ = algorithm.query(told, state, batches._replace(labels=labels, rows=features))
        assert isinstance(found, Query)
        return np.asarray(found.value)

    bound = float(algorithm.sensitivity(1, divisors)[0])
    other = query(0, 1.0) if sampling == WITHOUT_REPLACEMENT else query(1, 0.0)
    moved = float(np.linalg.norm(query(1, 1.0) - other))
    assert 0.999 * bound < moved <= bound * (1 + 1e-12)


def test_the_mean_gradient_of_batches_is_that_of_all_records_on_average() -> None:
    made = experiment(**{key.replace(".", "__"): value for key, value in UNEQUAL.items()}, algorithm__batch_size=400)
    members = made.simulation.members
    rates = np.concatenate([batch / own for batch, own in zip(members.batches, members.records, strict=True)])
    assert np.abs(rates / rates.mean() - 1).max() < 0.05, "but for rounding a record counts the same at every member"


def test_both_engines_play_batches_of_members_alike() -> None:
    from fedspd.engine.jax_engine.batch import simulate_batch

    simulation = experiment(**{key.replace(".", "__"): value for key, value in UNEQUAL.items()}).simulation
    ((_, compiled),) = simulate_batch([simulation], kind=np.float64)
    np.testing.assert_allclose(compiled.weights, simulate(simulation).weights, rtol=0, atol=1e-12)


def test_members_that_stay_away_take_their_batches_with_them() -> None:
    made = experiment(run__absence=0.25, privacy__threshold=3, privacy__colluders=0)
    full = simulate(experiment(privacy__threshold=3, privacy__colluders=0).simulation).history["noise_scale"][0]
    heard = simulate(made.simulation).history["noise_scale"]
    heard = heard[heard > 0] / full
    with_three = sqrt(3 / 4) * 4 / 3
    assert any(abs(ratio - with_three) < 0.02 for ratio in heard)
    assert all(abs(ratio - 1) < 1e-9 or abs(ratio - with_three) < 0.02 for ratio in heard)


@pytest.mark.parametrize("name", ["fedspd", "dp-sgd"])
@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_batches_on_sums_learn(name: str, engine: str) -> None:
    changes = {"algorithm.name": name, "run.engine": engine, "run.participants": 12, "run.rounds": 30}
    summary = run("proved", SMALL | changes | {"algorithm.batch_size": 500}).summary
    assert (summary.test_accuracy or 0) > 0.83
    assert summary.sampling == WITHOUT_REPLACEMENT


WHY = {
    "dp-fedavg": "takes several local steps",
    **dict.fromkeys(("dp-admm", "ps-admm", "multi-step-dp-admm"), "keeps state at its clients"),
    **dict.fromkeys(("ddp-admm-dvp", "ddp-admm-pvp", "dp-madmm", "dp-radmm", "one-shot"), "noise that is not Gaussian"),
    **dict.fromkeys(("dp-lr-admm", "private-admm"), "minimizes sub-problems"),
    "dp-ftrl": "remembers noise",
    "dp-scaffold": "releases more than once",
}


@pytest.mark.parametrize("name", METHODS.built_in)
def test_every_method_runs_on_sums_or_is_refused_by_name_and_reason(name: str) -> None:
    def prepare() -> Any:
        return prepare_experiment(small_run(name, run__participants=10, run__rounds=1, privacy__trust="secure-sums"))

    if name in ("fedspd", "dp-sgd", "noisy-prox-gd"):
        assert prepare().plan.epsilon_alone > 1
        return
    proved = METHODS[name].guarantee == "proved"
    with pytest.raises(
        InputError, match=f"got {name}, which .*{WHY[name]}" if proved else "a method whose guarantee is proved"
    ):
        prepare()
