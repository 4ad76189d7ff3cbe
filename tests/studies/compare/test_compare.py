"""The leaderboard is fair: every method in every situation, the same records, uploads and end-to-end budget."""

from math import inf
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import Experiment, prepare_experiment
from fedspd.config import Config, changed
from fedspd.config.conditions import lacks
from fedspd.config.sections import SECTIONS
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan
from fedspd.studies.compare import (
    ADULT,
    BUDGETS,
    SHARES,
    Cell,
    cells,
    configuration,
    count_runs,
)
from fedspd.studies.lineup import (
    BY_RULE,
    CLAIMED,
    EVERYBODY,
    OPEN,
    OURS,
    PRIVATE,
    TRUST,
    TRUSTED_SERVER,
    UNTUNED,
    company,
    first_try,
    fits,
    name_of,
)
from fedspd.studies.tuning import POINTS, SEEDS, TRIALS, trials

LOCAL_STEPS = METHODS["dp-fedavg"].board_grid or ()
SITUATIONS = [(deal, share) for deal in ADULT.deals for share in SHARES]


def flat(config: Config) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, keys in config.to_dict().items() for key, value in keys.items()}


def differing(configs: list[Config]) -> set[str]:
    """Settings that are not the same in all of them."""
    values = [flat(config) for config in configs]
    return {name for one in values for name in one if any(other.get(name) != one[name] for other in values)}


def read(config: Config) -> dict[str, Any]:
    """Every setting that is read, left open or not: one that a method does not read makes no difference to it."""
    named = {f"{section}.{key}": value for section in SECTIONS for key, value in config.section(section).items()}
    return {name: value for name, value in named.items() if lacks(config, name) is None}


def disputed(configs: list[Config]) -> set[str]:
    """Settings that are not the same in all of those that read them."""
    values = [read(config) for config in configs]
    return {name for one in values for name in one if any(other.get(name, one[name]) != one[name] for other in values)}


def as_declared(config: Config, **changes: Any) -> bool:
    """Whether a method's own settings are its defaults, but for these."""
    own = config.algorithm.settings
    return own == type(own)(**changes)


def test_a_setting_that_is_left_open_is_disputed_and_one_that_is_not_read_is_not() -> None:
    ours, exact = (configuration(Cell("iid", "full", 1.0, method)) for method in (OURS, "DDP-ADMM (DVP)"))
    assert disputed([ours, changed(ours, {"run.rounds": None})]) == {"run.rounds"}
    assert disputed([ours, changed(ours, {"algorithm.step_scale": 2.0})]) == {"algorithm.step_scale"}
    assert "run.selection" in differing([ours, exact]) - disputed([ours, exact])


def test_the_line_up_is_every_method_there_is_ours_once_more_by_rule_and_under_three_kinds_of_trust() -> None:
    assert sorted(name_of(title) for title in EVERYBODY) == sorted([*METHODS, *["fedspd"] * 4])
    assert len(TRUST) == 3
    assert list(PRIVATE)[:4] == ["FedSPD-DP", "DP-SGD", "DP-FedAvg", "DP-ADMM"]
    assert len(PRIVATE) == 16
    assert {"DP-AADMM", "DDP-ADMM (PVP) as published", "FedSPD-DP as published"} <= set(CLAIMED)


def test_every_method_meets_every_situation_that_is_for_it() -> None:
    found = cells()
    assert (BUDGETS, list(ADULT.deals), list(SHARES)) == (
        (0.1, 0.5, 1.0, 3.0, 8.0), ["iid", "dirichlet", "occupation"], ["full", "20%"],
    )  # fmt: skip
    expected = {
        (*situation, budget, method)
        for situation in SITUATIONS
        for method in EVERYBODY
        for budget in ((inf,) if method in OPEN else BUDGETS)
        if fits(method, *situation)
    }
    assert {(c.deal, c.participation, c.epsilon, c.method) for c in found} == expected
    assert len(set(found)) == len(found)


def test_a_situation_is_not_for_who_needs_all_clients_nor_for_who_is_as_published_on_another_deal() -> None:
    left_out = {(m, *situation) for m in EVERYBODY for situation in SITUATIONS if not fits(m, *situation)}
    full_only = {m for m in EVERYBODY if METHODS[name_of(m)].needs.everybody} | {"one shot", *TRUST}
    iid_only = set(CLAIMED)
    assert left_out == {(m, deal, "20%") for m in full_only for deal in ADULT.deals} | {
        (m, deal, share) for m in iid_only for deal, share in SITUATIONS if deal != "iid"
    }


def test_a_comparison_may_be_of_some_methods_named_as_in_a_configuration() -> None:
    chosen = cells((1.0,), ("iid",), ("full",), ("fedspd", "dp-ftrl"))
    assert {cell.method for cell in chosen} == {OURS, *UNTUNED, "DP-FTRL, banded"}
    with pytest.raises(
        InputError, match=r"^the method must be one of fedspd, .*, got 'dp-sdg'; did you mean 'dp-sgd'\?"
    ):
        cells(methods=("dp-sdg",))


def test_figures_show_ours_in_three_companies_that_share_nobody_else() -> None:
    found = {company(title) for title in PRIVATE if title != OURS}
    assert found == {"the paper's baselines", "the rest of Table 1", "rivals"}
    assert company("PS-ADMM") == "the rest of Table 1"
    assert company("private ADMM") == "rivals"


def test_every_method_is_entered_under_the_guarantee_that_it_is_listed_for() -> None:
    for cell in cells((1.0,)):
        guarantee = METHODS[configuration(cell).algorithm.name].guarantee
        listed = "none" if cell.method in OPEN else "as published" if cell.method in CLAIMED else "proved"
        assert guarantee == listed, cell
        assert (cell.epsilon < inf) == (guarantee != "none")


@pytest.mark.parametrize(("deal", "share"), SITUATIONS)
def test_private_methods_of_a_situation_differ_in_their_name_and_in_what_exact_sub_problems_ask_for(
    deal: str, share: str
) -> None:
    for budget in BUDGETS:
        fitting = [method for method in PRIVATE if fits(method, deal, share)]
        configs = [configuration(Cell(deal, share, budget, method)) for method in fitting]
        smooth = {"problem.regularizer", "run.rounds"} if share == "full" else set()
        assert disputed(configs) == {"algorithm.name"} | smooth
        assert all(as_declared(config) for config in configs), "nobody is set up beforehand"
        unread = set.union(*(set(read(one)) - set(read(other)) for one in configs for other in configs))
        everybody = {
            "run.selection",
            "run.most_stale",
            "metrics.spent_every_round",
            "run.average_last",
            "run.min_participants",
            "run.most_participations",
        }
        assert {name for name in unread if not name.startswith("algorithm.")} <= everybody
        assert {config.problem.regularizer for config in configs} <= {"l1", "squared-l2"}
        assert {config.privacy.epsilon for config in configs} == {budget}
        assert {config.privacy.delta for config in configs} == {1e-5}


@pytest.mark.parametrize("method", [*PRIVATE, *BY_RULE])
def test_a_method_differs_between_budgets_in_epsilon_only(method: str) -> None:
    assert differing([configuration(Cell("iid", "full", b, method)) for b in BUDGETS]) == {"privacy.epsilon"}


def test_what_goes_by_rule_is_our_method_with_every_step_size_left_open() -> None:
    for method in BY_RULE:
        config = configuration(Cell("iid", "full", 1.0, method))
        assert config == configuration(Cell("iid", "full", 1.0, OURS))
        assert config.algorithm.settings == type(config.algorithm.settings)()


def test_open_methods_differ_from_private_ones_in_the_method_and_in_what_privacy_asks_of_the_data() -> None:
    for deal, share in SITUATIONS:
        own = configuration(Cell(deal, share, 1.0, OURS))
        for method in OPEN:
            if not fits(method, deal, share):
                continue
            config, needed = configuration(Cell(deal, share, inf, method)), first_try(name_of(method))
            assert disputed([own, config]) <= {
                "algorithm.name", "algorithm.local_steps", "data.scaling", "data.bias", "data.row_norm",
                "problem.clip_norm", *needed,
            }  # fmt: skip
            entered = needed | dict(METHODS[name_of(method)].compared)
            assert as_declared(config, **{name.removeprefix("algorithm."): value for name, value in entered.items()})
            unread = {name for name in set(read(own)) ^ set(read(config)) if not name.startswith("algorithm.")}
            assert {name for name in unread if not name.startswith("privacy.")} <= {
                "data.encode", "data.moments_share", "data.deviation_floor", "metrics.spent_every_round",
                "run.min_participants", "run.most_participations", "evaluation.held_out",
                *({"run.selection", "run.most_stale"} if method == "FedPD" else ()),
            }  # fmt: skip


def test_deals_and_shares_are_what_their_names_say() -> None:
    for deal, share in SITUATIONS:
        config = configuration(Cell(deal, share, 1.0, OURS))
        kind = {"iid": "iid", "dirichlet": "dirichlet", "occupation": "by-column"}[deal]
        assert (config.partition.kind, config.partition.clients) == (kind, 100)
        assert config.run.participants == {"full": 100, "20%": 20}[share]
        assert (config.problem.counts, config.data.split) == ("records", "test")
    assert configuration(Cell("dirichlet", "full", 1.0, OURS)).partition.alpha == 0.1
    assert configuration(Cell("occupation", "full", 1.0, OURS)).partition.column == "occupation"


def built(cell: Cell) -> tuple[Experiment, ProvedPlan]:
    experiment = prepare_experiment(configuration(cell))
    assert isinstance(experiment.plan, ProvedPlan)
    return experiment, experiment.plan


@pytest.mark.parametrize(
    ("deal", "share"),
    [pytest.param(*where, marks=() if where == ("dirichlet", "20%") else pytest.mark.slow) for where in SITUATIONS],
)
def test_all_private_methods_of_a_situation_have_the_same_end_to_end_budget_and_the_same_uploads(
    deal: str, share: str
) -> None:
    for budget in (0.1, 8.0):
        deals = []
        for method in (title for title in PRIVATE if fits(title, deal, share)):
            experiment, plan = built(Cell(deal, share, budget, method))
            simulation, everyone = experiment.simulation, np.arange(100)
            assert plan.budgets.tolist() == [budget] * 100
            assert (plan.delta, plan.relation, plan.accountant) == (1e-5, "replace-one", "pld")
            assert all(group.moments is not None for group in plan.groups), "scaling is charged"
            taken = {"DP-RADMM": 3, "one shot": 1}.get(method, 5)  # even rounds are free, and one is one
            assert plan.most_participations.tolist() == [taken] * 100
            assert simulation.participants * simulation.rounds == (100 if method == "one shot" else 500)
            spent = plan.spent(everyone, plan.most_participations)
            assert 0.99 * budget < spent.min() <= spent.max() <= budget
            assert simulation.algorithm.guarantee == "proved"
            deals.append(simulation.shards)
        for other in deals[1:]:
            np.testing.assert_array_equal(other.order, deals[0].order)
            np.testing.assert_array_equal(other.features, deals[0].features)


def test_one_record_moves_every_client_equally_far_however_unequal_the_shards() -> None:
    for method in PRIVATE:
        simulation = built(Cell("occupation", "full", 1.0, method))[0].simulation
        assert simulation.shards.sizes.max() > 2 * simulation.shards.sizes.min()
        sensitivity = simulation.algorithm.sensitivity(1, simulation.batch_sizes(np.arange(100)))
        assert np.ptp(sensitivity) == 0, method


def test_a_deal_in_capitals_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(InputError, match=r"^the deal must be one of iid, .*, got 'IID'; did you mean 'iid'\?$"):
        cells(deals=("iid", "IID"))


@pytest.mark.parametrize("wrong", ["half", "power-law", ""])
def test_an_unknown_deal_or_share_is_refused_in_one_sentence(wrong: str) -> None:
    with pytest.raises(InputError, match=r"^the deal must be one of iid, dirichlet, occupation, got '.*'; name one of"):
        cells(deals=("iid", wrong))
    with pytest.raises(InputError, match=r"^the participation must be one of full, 20%, got '.*'; name one of those"):
        cells(shares=(wrong,))


def test_what_a_comparison_tunes_of_dp_fedavg_is_a_grid_of_the_same_size() -> None:
    assert len({tuple(sorted(point.items())) for point in LOCAL_STEPS}) == len(LOCAL_STEPS) == POINTS
    assert {point["algorithm.local_steps"] for point in LOCAL_STEPS} >= {1, 5}


@pytest.mark.parametrize("deal", ["dirichlet", "occupation"])
def test_the_most_local_steps_that_are_tried_fit_the_smallest_client_of_every_trial(deal: str) -> None:
    config = configuration(Cell(deal, "full", 1.0, "DP-FedAvg"))
    most = max(LOCAL_STEPS, key=lambda point: point["algorithm.local_steps"])
    for trial in trials(config, (most,), SEEDS):
        simulation = prepare_experiment(trial).simulation
        assert simulation.algorithm.local_steps == 5 <= simulation.shards.sizes.min()


def test_the_number_of_runs_counts_the_trials_of_what_is_tuned() -> None:
    chosen = cells((1.0,), ("iid",), ("full",))
    assert count_runs(chosen, 3) == 3 * (len(METHODS) + len(UNTUNED)) + len(METHODS) * TRIALS
    assert all(len(configuration(cell).algorithm.method.grid) == POINTS for cell in chosen)


def test_a_trusted_server_adds_the_noise_once_and_secure_sums_that_of_all_members() -> None:
    plans: list[Any] = [prepare_experiment(configuration(Cell("iid", "full", 1.0, m))).plan for m in TRUST]
    each, sums, trusted = (plan.spread[0] for plan in plans)
    assert each == trusted == 1
    np.testing.assert_allclose(sums, np.sqrt(100 / 67))
    assert configuration(Cell("iid", "full", 1.0, TRUSTED_SERVER)).privacy.threshold == 100
