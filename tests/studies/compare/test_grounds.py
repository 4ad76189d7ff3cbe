"""Several data sets in one comparison: who is entered where, and what is the same for all of them."""

import pytest

from fedspd.errors import InputError
from fedspd.studies.compare import ADULT, SHARES, Cell, Ground, cells, configuration, only_possible
from fedspd.studies.lineup import BY_RULE, CLAIMED, OURS, PRIVATE

CREDIT, LETTERS = (Ground(name, (("data.name", name),), deals=("iid", "dirichlet")) for name in ("credit", "letters"))


def test_a_comparison_on_several_data_has_every_private_method_on_each_and_what_is_published_on_the_papers_alone() -> (
    None
):
    found = cells((1.0,), None, ("full",), None, (ADULT, CREDIT))
    for ground in (ADULT, CREDIT):
        here = {cell.method for cell in found if cell.ground == ground}
        assert here >= set(PRIVATE) | set(BY_RULE)
        assert here & set(CLAIMED) == (set(CLAIMED) if ground == ADULT else set())
    assert {cell.deal for cell in found if cell.ground == CREDIT} == {"iid", "dirichlet"}
    only = cells((1.0,), ("occupation",), ("full",), ("fedspd",), (ADULT, CREDIT))
    assert {cell.ground for cell in only} == {ADULT}, "a deal that some data do not have is left out there"


def test_methods_that_are_not_for_many_classes_are_left_out_and_say_why() -> None:
    chosen = cells((1.0,), ("iid",), ("full",), ("fedspd", "dp-sgd", "ddp-admm-dvp"), (ADULT, LETTERS))
    possible, refused = only_possible(chosen)
    assert [(one.ground, one.method) for one in refused] == [(LETTERS, "DDP-ADMM (DVP)")]
    assert "an exact sub-problem needs a loss of one margin" in refused[0].why
    assert len(possible) == len(chosen) - 1


@pytest.mark.parametrize("beside", [(), ("fedavg",)])
def test_what_no_private_method_can_do_is_refused_in_its_own_words(beside: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="an exact sub-problem needs a loss of one margin"):
        only_possible(cells((1.0,), ("iid",), ("full",), ("ddp-admm-dvp", *beside), (LETTERS,)))
    with pytest.raises(InputError, match=r"privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got -1.0"):
        only_possible(cells((-1.0,), ("iid",), ("full",), ("fedspd", *beside)))


@pytest.mark.parametrize("clients", [6, 40, 100])
def test_every_client_uploads_as_often_whoever_takes_part(clients: int) -> None:
    ground = Ground("credit", (("data.name", "credit"), ("partition.clients", clients)), clients, ("iid",), uploads=7)
    for share in SHARES:
        run = configuration(Cell("iid", share, 1.0, OURS, ground)).run
        assert (run.participants or 0) * (run.rounds or 0) == 7 * clients


def test_another_delta_reaches_every_private_method() -> None:
    found = cells((1.0,), ("iid",), ("full",), None, (Ground(delta=1e-7),))
    assert {configuration(cell).privacy.delta for cell in found if cell.method in PRIVATE} == {1e-7}
