"""The figures as files: the paper's parameters, the same in both variants, each file in one place."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.config import Config, load, parse
from fedspd.errors import InputError
from fedspd.studies.reproduce import FIGURES, Study, load_studies

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "src" / "fedspd" / "studies" / "figures").glob("*/*"))
BOTH = ("published", "proved")
# K, Q, b, epsilon and whose it is, of every curve that both variants have, as Section V has them.
EXPECTED: dict[str, list[tuple[int, int, int, float, str]]] = {
    "fig2": [(20, 5, 10, epsilon, "total") for epsilon in (0.5, 1.0, 3.0, 10.0)],
    "fig3": [(clients, 5, 10, 1.0, "total") for clients in (10, 20, 50, 100)],
    "fig4": [(10, steps, 10, 3.0, "total") for steps in (1, 2, 5, 10)],
}
METHODS_OF_FIGURE_5 = {
    "FedSPD-DP": ("fedspd", 5, 10, "uniform"),
    "DP-SGD": ("dp-sgd", 1, 10, "fixed"),
    "DP-FedAvg": ("dp-fedavg", 5, 10, "uniform"),
    "DP-ADMM": ("dp-admm", 1, None, "fixed"),
}


def everything() -> dict[str, Config]:
    return {f"{s.figure}/{s.name}: {c.label}": c.config for s in load_studies("all") for c in s.curves}


def study(figure: str, name: str) -> Study:
    (found,) = [s for s in load_studies(figure) if s.name == name]
    return found


def setup(config: Config) -> tuple[Any, ...]:
    return (
        config.run.participants,
        config.algorithm.work.local_steps,
        config.algorithm.work.batch_size,
        config.privacy.epsilon,
        config.privacy.budget,
    )


def test_all_14_panels_are_there_published_ones_first() -> None:
    names = {figure: [s.name for s in load_studies(figure)] for figure in FIGURES}
    panels = {"fig5": ["-0.1", "-1"], "fig6": ["-fcp", "-pcp"]}
    assert names == {f: [v + end for v in BOTH for end in panels.get(f, [""])] for f in FIGURES}
    assert [(s.figure, s.name) for s in load_studies("all")] == [(f, name) for f in FIGURES for name in names[f]]
    assert all(s.name.startswith(s.variant) for s in load_studies("all"))


def test_every_file_of_a_figure_is_a_panel_of_it() -> None:
    assert [path.relative_to(path.parents[1]).with_suffix("").as_posix() for path in FILES] == sorted(
        f"{s.figure}/{s.name}" for s in load_studies("all")
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_folder_experiments_of_the_repository_leads_to_the_files_of_the_package(path: Path) -> None:
    reached = ROOT / "figures" / path.parent.name / path.name
    assert reached.samefile(path)
    assert tomllib.loads(reached.read_text()) == tomllib.loads(path.read_text())


def test_every_curve_has_100_rounds_of_100_clients_at_delta_1e_4_and_the_objective_of_the_paper() -> None:
    for name, config in everything().items():
        assert (config.run.rounds, config.partition.clients, config.partition.kind) == (100, 100, "iid"), name
        assert config.privacy.delta == 1e-4, name
        problem, sums = config.problem, {"share": 1, "full": 100}
        assert (problem.regularizer, problem.counts) == ("l1", "clients"), name
        assert problem.strength * sums[problem.per_client] == pytest.approx(0.01, rel=1e-15), name
        assert config.metrics.objective_every == 1, f"{name}: the verdict needs the objective after every round"


def test_every_curve_is_read_back_as_it_was_and_names_a_method_of_its_variant() -> None:
    for s in load_studies("all"):
        assert len({curve.label for curve in s.curves}) == len(s.curves) > 1
        for curve in s.curves:
            assert parse(curve.config.to_dict()) == curve.config
            expected = "proved" if s.variant == "proved" else "as published"
            assert METHODS[curve.config.algorithm.name].guarantee == expected, f"{s.name}: {curve.label}"


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize("figure", EXPECTED)
def test_figures_2_to_4_vary_what_the_paper_varies(figure: str, variant: str) -> None:
    found = study(figure, variant)
    assert [setup(curve.config) for curve in found.curves] == EXPECTED[figure]
    varied = {"fig2": 3, "fig3": 0, "fig4": 1}[figure]
    assert [curve.level for curve in found.curves] == [setup(curve.config)[varied] for curve in found.curves]
    assert found.measure == "runs"
    assert not any(curve.tuned for curve in found.curves), "these have the paper's step sizes, or those of a rule"


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_figure_5_holds_four_methods_against_each_other_at_one_epsilon_per_round(variant: str, epsilon: str) -> None:
    found = study("fig5", f"{variant}-{epsilon}")
    curves = {curve.label: curve for curve in found.curves}
    expected = {
        label: (name if variant == "proved" else f"{name}-published", *rest)
        for label, (name, *rest) in METHODS_OF_FIGURE_5.items()
    }
    if variant == "published":
        own = expected.pop("FedSPD-DP")
        expected |= {"FedSPD-DP as printed": own, "FedSPD-DP tuned": own}
    assert {
        label: (c.config.algorithm.name, c.config.algorithm.work.local_steps, c.config.algorithm.work.batch_size,
                c.config.run.selection)
        for label, c in curves.items()
    } == expected  # fmt: skip
    for label, curve in curves.items():
        assert (curve.config.run.participants, curve.config.privacy.budget) == (20, "round")
        assert curve.config.privacy.epsilon == float(epsilon)
        assert curve.tuned == ("as printed" not in label)


@pytest.mark.parametrize("variant", BOTH)
@pytest.mark.parametrize(("end", "participants"), [("fcp", 100), ("pcp", 20)])
def test_figure_6_adds_up_epsilon_0_1_per_round_and_trains_nothing(variant: str, end: str, participants: int) -> None:
    found = study("fig6", f"{variant}-{end}")
    assert found.measure == "privacy"
    curves = {curve.label: curve.config for curve in found.curves}
    without = {"DP-ADMM": (1, None, "without-replacement"),
               "FedSPD-DP, without replacement": (5, 10, "without-replacement")}  # fmt: skip
    replaced = {"FedSPD-DP, with replacement": (5, 10, "with-replacement")} if variant == "published" else {}
    assert {
        label: (c.algorithm.work.local_steps, c.algorithm.work.batch_size, c.algorithm.work.sampling)
        for label, c in curves.items()
    } == without | replaced
    for config in curves.values():
        assert (config.run.participants, config.privacy.epsilon, config.privacy.budget) == (participants, 0.1, "round")


def test_what_the_paper_prints_is_what_the_curve_as_printed_has() -> None:
    (curve,) = [c for c in study("fig5", "published-1").curves if c.label == "FedSPD-DP as printed"]
    algorithm, printed = curve.config.algorithm.settings, load("published").algorithm.settings
    assert (algorithm.penalty, algorithm.diameter, algorithm.dual_diameter) == (20.0, 1.0, 1.0)
    assert algorithm == printed


@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig4", "fig6"])
def test_every_curve_that_is_not_tuned_can_be_built(figure: str) -> None:
    for s in load_studies(figure):
        for curve in s.curves[-1:]:
            assert prepare_experiment(curve.config).simulation.rounds == 100


@pytest.mark.parametrize("figure", ["fig1", "fig7", "2", "", "fig2/published", "../presets"])
def test_an_unknown_figure_is_refused_in_one_sentence(figure: str) -> None:
    with pytest.raises(InputError, match=r"^the figure must be one of fig2, .*, fig6 or all, got .*; name one of") as e:
        load_studies(figure)
    assert repr(figure) in str(e.value)
    assert "\n" not in str(e.value)
