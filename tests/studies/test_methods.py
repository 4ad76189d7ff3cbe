"""Every method by its name: it builds and runs, claims what the table says, and refuses what it does not have."""

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from fedspd import InputError, run
from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.config import Config, load
from fedspd.engine.jax_engine.session import installed
from fedspd.privacy import ProvedPlan, PublishedPlan, plan_proved
from fedspd.privacy.accounting import FixedSize, Gaussian, spent
from fedspd.report.of_runs.terminal import privacy_statement
from tests.support.small_runs import small_run

SMOOTH = {"problem.regularizer": "squared-l2"}
PROVED = [name for name, method in METHODS.items() if method.guarantee == "proved"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_by_name_and_claims_no_more_than_the_table_says(name: str) -> None:
    finished = run(small_run(name))
    summary, history = finished.summary, finished.history
    assert (summary["algorithm"], summary["rounds"]) == (name, 1 if METHODS[name].needs.one_round else 3)
    assert summary["guarantee"] == METHODS[name].guarantee
    assert summary["unproved_because"] == (None if name in PROVED else METHODS[name].card.caveat)
    assert np.isfinite(finished.weights).all()
    assert np.abs(finished.weights).max() > 1e-4, "it moved"
    if METHODS[name].guarantee == "none":
        assert summary["epsilon"] == inf
        assert summary["epsilon_proved"] is None
        assert (history["noise_scale"] == 0).all()
    else:
        assert summary["epsilon"] == pytest.approx(1.0)
        free = np.array([name == "dp-radmm" and round % 2 == 0 for round in range(1, summary["rounds"] + 1)])
        np.testing.assert_array_equal(history["noise_scale"] > 0, ~free)
    assert (summary["epsilon_proved"] == 1.0) == (name in PROVED)
    statement, pure = privacy_statement(summary), METHODS[name].noise == "spherical Laplace"
    assert ("Conversion: each round is pure" in statement) == (summary["conversion"] is not None) == pure
    assert f"{METHODS[name].noise} noise" in statement or METHODS[name].guarantee == "none"
    if name in PROVED:
        assert summary["epsilon_spent_max"] <= 1.0
        assert summary["scaling_charged"]


@pytest.mark.parametrize("name", METHODS)
def test_the_object_behind_a_name_claims_at_least_what_its_plan_claims(name: str) -> None:
    experiment = prepare_experiment(small_run(name))
    strength = ("none", "as published", "proved")
    algorithm, plan = experiment.simulation.algorithm, experiment.plan
    assert plan.guarantee == METHODS[name].guarantee
    assert strength.index(algorithm.guarantee) >= strength.index(plan.guarantee)
    assert algorithm.relation == plan.relation == "replace-one"


@pytest.mark.parametrize("name", ["dp-sgd", "dp-sgd-published", "dp-admm", "dp-admm-published"])
def test_methods_of_one_step_have_no_setting_for_more(name: str) -> None:
    with pytest.raises(InputError, match=rf"^algorithm.local_steps is no setting of {name}, got it; leave it out, or"):
        small_run(name, algorithm__local_steps=2)


@pytest.mark.parametrize("name", ["dp-admm", "dp-admm-published"])
def test_dp_admm_has_no_setting_for_batches(name: str) -> None:
    with pytest.raises(InputError, match=rf"^algorithm.batch_size is no setting of {name}, got it; leave it out, or"):
        small_run(name, algorithm__batch_size=10)


def test_fedpd_refuses_a_part_of_the_clients() -> None:
    with pytest.raises(InputError, match=r"^fedpd needs every client in every round, got .* = 9 of 10; set it to 10\."):
        prepare_experiment(small_run("fedpd", run__participants=9))


@pytest.mark.parametrize("name", ["dp-sgd-published", "dp-fedavg-published", "fedavg", "fedprox", "fedpd"])
def test_methods_without_a_rule_for_their_step_size_ask_for_it(name: str) -> None:
    with pytest.raises(InputError, match=r"^algorithm.inverse_step is needed, got none; set it: gamma, 1 / step size"):
        small_run(name, algorithm__inverse_step=None, **({"algorithm__penalty": 1.0} if name == "fedprox" else {}))


@pytest.mark.parametrize("name", METHODS)
def test_three_methods_without_privacy_need_no_clipping_and_all_others_do(name: str) -> None:
    if METHODS[name].needs.own_bound:
        with pytest.raises(
            InputError, match=r"^problem.clip_norm would have no effect, got inf; it needs a method that"
        ):
            small_run(name, problem__clip_norm=inf)
        return
    config = small_run(name, problem__clip_norm=inf)
    if METHODS[name].guarantee == "none":
        assert prepare_experiment(config).simulation.algorithm.objective.clip_norm == inf
    elif METHODS[name].guarantee == "as published":
        with pytest.raises(InputError, match=r"clip_norm must be finite when privacy\.epsilon is"):
            prepare_experiment(config)
    else:
        algorithm: Any = prepare_experiment(config).simulation.algorithm
        scale = algorithm.sensitivity(1, np.array([100.0]))
        assert np.isfinite(scale).all(), "rows of bounded norm bound the gradients"


BATCHES = {"algorithm.batch_size": 10}
STEPS = {"algorithm.local_steps": 5}
ALL_100 = SMOOTH | {"run.participants": 100, "run.rounds": 20}
PER_ROUND: dict[str, dict[str, Any]] = {
    "fedspd": BATCHES | STEPS,
    "dp-sgd": BATCHES,
    "dp-fedavg": BATCHES | STEPS,
    "dp-admm": {},
    "ddp-admm-dvp": ALL_100,
    "ddp-admm-pvp": ALL_100,
    "dp-madmm": ALL_100,
    "dp-radmm": ALL_100 | {"run.rounds": 40},
    "dp-lr-admm": ALL_100,
    "ps-admm": BATCHES,
    "multi-step-dp-admm": BATCHES | STEPS,
    "private-admm": {},
    "dp-scaffold": BATCHES | STEPS,
    "noisy-prox-gd": {},
    "dp-ftrl": {},
    "one-shot": SMOOTH | {"run.rounds": 1, "run.participants": 100},
}
CHARGES = {"dp-ftrl": 5, "one-shot": 1}
"""Of a client in all rounds, where they are not 20: records come in four turns, and there is one round."""


def per_round(name: str, epsilon: float, **changes: Any) -> tuple[Config, ProvedPlan]:
    """At the size of the paper's figures: 100 clients, 20 of them in each of 100 rounds."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    config = load(
        "proved",
        {"algorithm.name": name, "privacy.budget": "round", "privacy.epsilon": epsilon, "privacy.delta": 1e-4,
         "privacy.allow_large_delta": True, "run.rounds": 100, "metrics.criterion": False}
        | PER_ROUND[name]
        | dotted,
        where_read={"metrics.spent_every_round": False},
    )  # fmt: skip
    plan = prepare_experiment(config).plan
    assert isinstance(plan, ProvedPlan)
    return config, plan


def test_the_proved_methods_with_a_budget_per_round_are_all_there_are() -> None:
    assert set(PER_ROUND) <= set(PROVED)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("name", PER_ROUND)
def test_with_a_budget_per_round_one_round_costs_epsilon_and_the_total_is_what_all_cost(
    name: str, epsilon: float
) -> None:
    _, plan = per_round(name, epsilon)
    for group in plan.groups:
        assert 0.95 * epsilon < max(spent([(g.event, 1)], 1e-4).epsilon for g in plan.groups) <= epsilon
        assert spent([(group.event, 1)], 1e-4).epsilon <= epsilon
        assert group.moments is not None
        total = spent([(group.event, CHARGES.get(name, 20)), (group.moments, 1)], 1e-4).epsilon
        assert group.epsilon == pytest.approx(total, rel=1e-9)
        assert group.epsilon > epsilon


@pytest.mark.parametrize("name", PER_ROUND)
def test_with_a_budget_per_round_the_summary_states_the_total_and_what_a_round_costs(name: str) -> None:
    rounds, participants = (4, 20) if not METHODS[name].needs.everybody else (2, 40)
    if name == "one-shot":
        rounds = 1
    config, plan = per_round(name, 1.0, run__rounds=rounds, partition__clients=40, run__participants=participants)
    summary = run(config).summary
    assert 0.95 < summary["epsilon_per_round"] <= 1.0
    assert summary["epsilon"] == plan.budgets.max()
    assert summary["epsilon"] > 1.0
    assert summary["epsilon_spent_max"] <= summary["epsilon"]
    assert summary["participations_max"] <= 2


@pytest.mark.parametrize("name", PER_ROUND)
def test_with_a_budget_per_round_scaling_takes_the_share_that_is_set_and_not_most_of_it(name: str) -> None:
    """A tenth of the squared budget by default: the total is about a twentieth above that of the rounds alone.

    One pure release does not add up in squares with a Gaussian one: there it is a third, the root of one in nine.
    """
    _, plan = per_round(name, 0.1)
    for group in plan.groups:
        rounds = spent([(group.event, CHARGES.get(name, 20))], 1e-4).epsilon
        assert group.moments is not None
        assert spent([(group.moments, 1)], 1e-4).epsilon < rounds
        assert group.epsilon < (1.15 if name != "one-shot" else 4 / 3) * rounds


@pytest.mark.parametrize("name", PER_ROUND)
def test_without_moments_the_total_of_a_budget_per_round_is_that_of_the_rounds(name: str) -> None:
    _, plan = per_round(name, 0.1, data__scaling="min-max")
    for group in plan.groups:
        assert group.moments is None
        charged = [(group.event, CHARGES.get(name, 20))]
        assert group.epsilon == pytest.approx(spent(charged, 1e-4).epsilon, rel=1e-9)


def test_whole_shards_with_a_budget_per_round_have_the_noise_of_one_gaussian_release() -> None:
    _, plan = per_round("dp-admm", 0.1)
    (group,) = plan.groups
    assert isinstance(group.event, Gaussian)
    assert 0.0999 < spent([(group.event, 1)], 1e-4).epsilon <= 0.1


def test_whole_shards_in_several_averaged_steps_are_charged_for_a_random_step() -> None:
    steps: dict[str, Any] = {"algorithm__local_steps": 5, "algorithm__inverse_step": 4.0, "algorithm__penalty": 0.5}
    plan = prepare_experiment(small_run("fedspd", **steps)).plan
    assert isinstance(plan, ProvedPlan)
    for group in plan.groups:
        assert isinstance(group.event, FixedSize)
        assert (group.event.drawn, group.event.contraction) == (group.event.records, 4.0 / 4.5)
    before = plan_proved(1.0, plan.delta, replace(plan.draws, contraction=0.0), np.array([325]), 5).noise_multipliers[0]
    after = plan_proved(1.0, plan.delta, plan.draws, np.array([325]), 5).noise_multipliers[0]
    assert 1.2 < before / after < 1.5
    last = prepare_experiment(small_run("dp-fedavg", algorithm__local_steps=5, algorithm__inverse_step=4.0)).plan
    assert isinstance(last, ProvedPlan)
    assert all(isinstance(group.event, Gaussian) for group in last.groups), "of a last iterate all steps weigh alike"


def test_a_budget_per_round_holds_for_the_shard_whose_records_stand_earliest() -> None:
    """Of shards that differ by one in size some divide by the number of steps and some do not."""
    steps: dict[str, Any] = {"algorithm__local_steps": 5, "algorithm__inverse_step": 4.0, "algorithm__penalty": 0.5}
    plan = prepare_experiment(
        small_run("fedspd", privacy__budget="round", privacy__epsilon=1.0, partition__clients=100, **steps)
    ).plan
    assert isinstance(plan, ProvedPlan)
    costs = [spent({group.event: 1}, plan.delta).epsilon for group in plan.groups]
    assert len(costs) == 2
    assert 0.99 < max(costs) <= 1.0


@pytest.mark.parametrize("name", ["one-shot", "ddp-admm-dvp", "dp-madmm", "dp-radmm"])
def test_statements_of_noise_in_the_objective_say_that_there_is_a_second_one(name: str) -> None:
    summary = run(small_run(name, run__engine="numpy")).summary
    assert "in the objective of every release and a small Gaussian on its minimizer;" in privacy_statement(summary)
    assert summary.mechanism == "spherical Laplace, in objectives, Gaussian on minimizers"
    other = run(small_run("private-admm", run__engine="numpy")).summary
    assert "on its minimizer" not in privacy_statement(other)


@pytest.mark.skipif(not installed(), reason="JAX is not installed")
@pytest.mark.parametrize(
    ("name", "engine", "precision"),
    [("fedspd", "jax", "float32"), ("fedspd", "numpy", "float64"), ("private-admm", "jax", "float64")],
)
def test_a_statement_says_where_noise_has_compact_support(name: str, engine: str, precision: str) -> None:
    summary = run(small_run(name, run__engine=engine)).summary
    said = "Computed in float32, whose normals have compact support: for experiments only." in privacy_statement(
        summary
    )
    assert (summary.precision, said) == (precision, precision == "float32")


def test_the_same_clients_in_all_rounds_are_charged_for_all_rounds() -> None:
    _, drawn = per_round("dp-sgd", 0.1, data__scaling="min-max")
    config, fixed = per_round("dp-sgd", 0.1, data__scaling="min-max", run__selection="fixed")
    assert drawn.most_participations.tolist() == [20] * 100
    assert fixed.most_participations.tolist() == [100] * 100
    assert fixed.budgets.max() > 1.5 * drawn.budgets.max()
    assert prepare_experiment(config).simulation.expected_participations == 100


@pytest.mark.parametrize("name", ["dp-sgd-published", "dp-admm-published", "fedspd-published"])
def test_as_published_the_same_clients_in_all_rounds_cost_what_full_participation_costs(name: str) -> None:
    """c_0 q epsilon sqrt(n / (1 - q)) with n the rounds, not a share of them."""
    changes: dict[str, Any] = {"privacy__budget": "round", "privacy__epsilon": 0.1, "run__rounds": 16}
    fixed = run(small_run(name, run__selection="fixed", **changes)).summary
    everyone = run(small_run(name, run__participants=10, **changes)).summary
    drawn = run(small_run(name, **changes)).summary
    assert fixed["epsilon"] == pytest.approx(everyone["epsilon"])
    assert drawn["epsilon"] == pytest.approx(fixed["epsilon"] * 0.5**0.5)
    assert fixed["participations_max"] == 16
    assert fixed["uploads"] == 5 * 16


@pytest.mark.parametrize("name", ["dp-sgd-published", "dp-admm-published", "fedspd-published"])
def test_as_published_a_total_budget_is_shared_by_all_rounds_where_the_same_clients_take_part_in_all(name: str) -> None:
    fixed, everyone, drawn = (
        prepare_experiment(small_run(name, **changes)).plan
        for changes in ({"run__selection": "fixed"}, {"run__participants": 10}, {})
    )
    assert isinstance(fixed, PublishedPlan)
    assert isinstance(everyone, PublishedPlan)
    assert isinstance(drawn, PublishedPlan)
    assert fixed.epsilon_per_round == pytest.approx(everyone.epsilon_per_round)
    assert drawn.epsilon_per_round == pytest.approx(fixed.epsilon_per_round * 2**0.5)
    assert run(small_run(name, run__selection="fixed")).summary["epsilon"] == pytest.approx(1.0)
