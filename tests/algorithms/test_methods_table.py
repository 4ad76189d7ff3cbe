"""The table of all methods is true: what it says of a method is what the code does and what the paper prints."""

import inspect
import re
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedspd import InputError
from fedspd.algorithms import METHODS, Method
from fedspd.algorithms.base import draws_shape
from fedspd.algorithms.card import EXACT, ONE_GD, ONE_SGD, SEVERAL, Printed
from fedspd.assemble import Experiment, prepare_experiment
from fedspd.audit.replay import Shard, hides_state
from fedspd.typing import Batches
from tests.support.small_runs import small_run

every_method = pytest.mark.parametrize("name", METHODS)
LAWS = {"gaussian": "Gaussian", "laplace": "spherical Laplace", "objective": "spherical Laplace"}
CITED = re.compile(r'\bdoi\b|\barXiv\b|\b(19|20)\d\d,\s+"[^"]+"')
# Table 1 of arXiv 2204.12284 as it is printed: local updates, objective, partial client participation, rate.
TABLE_1 = {
    "DP-SGD": ("LSGD", "NC & S", "no", ""),
    "DP-FedAvg": ("LMSGD", "SC & S", "yes", "1/TQ"),
    "DP-ADMM": ("LGD", "C & NS", "no", "1/sqrt T"),
    "DDP-ADMM": ("LGD", "SC & S", "no", ""),
    "DP-MADMM": ("LGD", "C & S", "no", "1/sqrt T"),
    "DP-RADMM": ("LGD", "C & S", "no", ""),
    "DP-AADMM": ("LGD", "C & NS", "yes", ""),
    "DP-LR-ADMM": ("LGD", "C & S", "no", ""),
    "FedSPD-DP": ("LMSGD", "C & NS", "yes", "1/sqrt(TQ)"),
}
CITED_BESIDE_IT = {"ps-admm"}  # by the paper's related works, without a row
WORDS = {
    "LMSGD": SEVERAL, "LSGD": ONE_SGD, "LGD": ONE_GD, "yes": True, "no": False,
    "NC & S": "non-convex, smooth", "SC & S": "strongly convex, smooth", "C & S": "convex, smooth",
    "C & NS": "convex, non-smooth",
    "": "", "1/TQ": "O(1/(TQ))", "1/sqrt T": "O(1/sqrt(T))", "1/sqrt(TQ)": "O(1/sqrt(TQ))",
}  # fmt: skip


@cache
def built(name: str) -> Experiment:
    return prepare_experiment(small_run(name))


def module(name: str) -> Any:
    """The file that the method is written in."""
    return inspect.getmodule(type(built(name).simulation.algorithm))


def refused(name: str, **changes: Any) -> bool:
    try:
        prepare_experiment(small_run(name, **changes))
    except InputError:
        return True
    return False


# --- the table and the code ----------------------------------------------------------------------------------


@every_method
def test_guarantee_and_neighbors_are_those_of_the_plan_that_is_built(name: str) -> None:
    plan = built(name).plan
    assert (plan.guarantee, plan.relation) == (METHODS[name].guarantee, "replace-one")


@every_method
def test_only_what_is_not_proved_though_private_has_a_reason_why(name: str) -> None:
    assert bool(METHODS[name].card.caveat) == (METHODS[name].guarantee == "as published")


@every_method
def test_the_noise_has_the_law_that_the_table_names(name: str) -> None:
    law = getattr(built(name).simulation.algorithm, "law", "gaussian")
    assert METHODS[name].noise == ("none" if METHODS[name].guarantee == "none" else LAWS[law])


@every_method
def test_un_noised_state_is_named_exactly_where_the_code_declares_it(name: str) -> None:
    algorithm: Any = built(name).simulation.algorithm
    clients, columns, steps = built(name).simulation.shards.clients, 3, algorithm.local_steps
    zeros = np.zeros((clients, columns, algorithm.objective.loss.outputs))
    server, client, _ = algorithm.start(zeros)
    if hasattr(algorithm, "stir"):
        client, _ = algorithm.stir(client, np.zeros((clients, *draws_shape(algorithm, zeros.shape[1:]))))
    shard = Shard(np.eye(columns)[np.arange(4 * steps) % columns], np.arange(4 * steps) % 2)
    alike = shard.batches(np.arange(4 * steps).reshape(steps, 4))
    batches = Batches(*(np.repeat(part, clients, axis=0) for part in (alike.features, *alike[1:3])))
    _, kept = algorithm.query(algorithm.broadcast(server, 1), client, batches)
    assert bool(METHODS[name].card.private_state) == (hides_state(client) or hides_state(kept))


@every_method
def test_part_of_the_clients_is_accepted_exactly_where_the_table_says_so(name: str) -> None:
    assert refused(name, run__participants=9) == METHODS[name].needs.everybody
    assert not refused(name, run__participants=10)


@every_method
def test_several_local_steps_are_accepted_exactly_where_the_table_says_so(name: str) -> None:
    algorithm: Any = built(name).simulation.algorithm
    assert METHODS[name].local_updates in (SEVERAL, ONE_SGD, ONE_GD, EXACT)
    fixed = isinstance(getattr(type(algorithm), "local_steps", None), int)
    assert fixed != (METHODS[name].local_updates == SEVERAL)
    assert refused(name, algorithm__local_steps=2) != (METHODS[name].local_updates == SEVERAL)


@every_method
def test_a_step_along_all_records_takes_no_batches(name: str) -> None:
    """SGD is what draws a batch; a method whose steps are called GD, or exact, uses the whole shard."""
    stochastic = METHODS[name].local_updates in (SEVERAL, ONE_SGD)
    assert refused(name, algorithm__batch_size=10) != stochastic


@every_method
def test_a_method_minimizes_exactly_where_the_table_says_so(name: str) -> None:
    exact = re.search(r"\b(perturbed_minimum|minimize)\(", inspect.getsource(module(name))) is not None
    assert exact == built(name).simulation.algorithm.exact == (METHODS[name].local_updates == EXACT)


@every_method
def test_a_regularizer_with_a_kink_is_accepted_exactly_where_the_table_says_so(name: str) -> None:
    assert refused(name, problem__regularizer="l1") != ("non-smooth" in METHODS[name].objective)


# --- the table and the paper ---------------------------------------------------------------------------------


def row_of(method: Method) -> str:
    """The name of a method's row in Table 1."""
    (found,) = [row for row in sorted(TABLE_1, key=len) if re.match(rf"{row}(?![\w-])", method.card.title)]
    return found


@every_method
def test_what_table_1_prints_stands_in_the_table_word_by_word(name: str) -> None:
    method = METHODS[name]
    listed = method.card.table_1 is not None
    assert (method.card.printed is not None) == (listed and name not in CITED_BESIDE_IT)
    if method.card.printed is not None:
        assert method.card.printed == Printed(*(WORDS[word] for word in TABLE_1[row_of(method)]))  # pyright: ignore
        assert method.local_updates in (method.card.printed.local_updates, EXACT), (
            "it calls exact minimizers a step too"
        )


def test_ours_come_first_then_table_1_in_its_order_then_rivals_and_last_what_has_no_privacy() -> None:
    printed = ["FedSPD-DP", *(row for row in TABLE_1 if row != "FedSPD-DP")]
    places = []
    for method in METHODS.values():
        if method.guarantee == "none":
            places.append(len(printed) + 2)
        elif method.card.printed is not None:
            places.append(printed.index(row_of(method)))
        else:
            places.append(len(printed) + (1 if method.card.table_1 is None else 0))
    assert places == sorted(places)


# --- the table and the docstrings ----------------------------------------------------------------------------


def test_a_file_speaks_of_a_reconstruction_exactly_where_one_of_its_methods_is_one() -> None:
    told, listed = {}, defaultdict(bool)
    for name in METHODS:
        text = module(name).__doc__
        told[text] = "reconstruction" in text.lower()
        listed[text] |= METHODS[name].card.reconstruction
    assert told == listed


@every_method
def test_a_file_says_where_its_method_comes_from_what_it_releases_and_what_it_claims(name: str) -> None:
    text = module(name).__doc__
    source = "docs/proofs.md" if name == "fedspd" else CITED  # ours is defined where it is proved
    assert re.search(source, text), "a doi, an arXiv number, or a year and a title in quotes"
    assert METHODS[name].guarantee == "none" or ("Released" in text and "Claimed" in text)


@every_method
def test_every_entry_is_complete_and_says_how_far_its_text_can_be_trusted(name: str) -> None:
    method = METHODS[name]
    card = method.card
    assert method.guarantee in ("proved", "as published", "none")
    assert all([card.title, card.released])
    assert re.search(r"\b(19|20)\d\d\b", card.citation)
    assert re.fullmatch(r"(high|medium|low): .+", card.confidence)
    assert not (card.reconstruction and card.confidence.startswith("high"))
    assert card.reconstruction or not card.confidence.startswith("low")
    assert card.claimed.endswith(".")
    assert (card.proved != "") == (method.guarantee == "proved")
    assert not card.proved or card.proved.endswith(".")


def test_no_two_methods_have_the_same_title() -> None:
    assert len({method.card.title for method in METHODS.values()}) == len(METHODS)
