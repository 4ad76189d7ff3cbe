"""A run that stopped goes on where it was: the same model, and nobody is charged twice."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import Ask
from fedspd.errors import InputError
from tests.support.deploy.loopback import Handler, honest
from tests.support.deploy.sites import Federation, federation
from tests.support.deploy.twists import mean_of_totals, replies_made, standing

ROUNDS, SITES = 4, 3
FIXED: dict[str, Any] = {
    "protected": False, "federation__fixed_draws": True, "run__rounds": ROUNDS, "federation__quorum": 2,
}  # fmt: skip


def stopping(round: int, played: bool) -> Handler:
    """Sites that are cut off in one round, before they play it or just after."""

    def handler(message: Message, path: Path) -> Message | None:
        asked = wire.read_request(message)
        if not isinstance(asked, Ask) or asked.round != round:
            return honest(message, path)
        if played:
            honest(message, path)
        return None

    return handler


def cut_off(made: Federation, round: int, played: bool, nodes: int = SITES) -> None:
    for place in range(nodes):
        made.grid.handlers[made.node(place)] = stopping(round, played)
    with pytest.raises(InputError, match=f"goes on after round {round - 1}"):
        made.serve()
    for place in range(nodes):
        made.grid.handlers[made.node(place)] = honest


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    return federation(tmp_path_factory.mktemp("runs") / "whole", SITES, **FIXED).serve().server


@pytest.mark.parametrize("played", [False, True])
@pytest.mark.parametrize("round", range(1, ROUNDS + 1))
def test_a_run_that_stopped_in_any_round_ends_with_the_same_model(
    round: int, played: bool, tmp_path: Path, uninterrupted: np.ndarray
) -> None:
    made = federation(tmp_path, SITES, **FIXED)
    cut_off(made, round, played)
    assert made.saved.round == round - 1
    np.testing.assert_array_equal(made.serve().server, uninterrupted)
    assert [replies_made(made, place) for place in range(SITES)] == [ROUNDS] * SITES
    assert [row["round"] for row in made.saved.history] == [*range(1, ROUNDS + 1)]
    assert any(line.endswith(f"goes on after round {round - 1}") for line in made.said)


def test_a_run_that_stopped_in_every_round_ends_with_the_same_model(tmp_path: Path, uninterrupted: np.ndarray) -> None:
    made = federation(tmp_path, SITES, **FIXED)
    for round in range(1, ROUNDS + 1):
        cut_off(made, round, played=True)
    np.testing.assert_array_equal(made.serve().server, uninterrupted)
    assert [replies_made(made, place) for place in range(SITES)] == [ROUNDS] * SITES


def checkpoints(made: Federation) -> list[Path]:
    return sorted(made.settings.folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))


@pytest.mark.parametrize("round", [2, 3, 4])
def test_a_server_whose_last_checkpoint_is_torn_goes_on_from_the_one_before(
    round: int, tmp_path: Path, uninterrupted: np.ndarray
) -> None:
    made = federation(tmp_path, SITES, **FIXED)
    cut_off(made, round, played=True)
    os.truncate(last := checkpoints(made)[-1], last.stat().st_size // 2)
    np.testing.assert_array_equal(made.serve().server, uninterrupted)
    assert [replies_made(made, place) for place in range(SITES)] == [ROUNDS] * SITES


def test_a_server_that_is_rounds_behind_its_sites_gets_their_stored_replies(
    tmp_path: Path, uninterrupted: np.ndarray
) -> None:
    made = federation(tmp_path, SITES, **FIXED)
    cut_off(made, 2, played=True)
    older = checkpoints(made)[-1].read_bytes()
    cut_off(made, 4, played=True)
    for path in checkpoints(made):
        path.write_bytes(older)
    assert made.saved.round == 1
    np.testing.assert_array_equal(made.serve().server, uninterrupted)
    assert [replies_made(made, place) for place in range(SITES)] == [ROUNDS] * SITES


def test_sites_with_budgets_are_not_charged_again_for_what_they_answered_before_the_stop(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, federation__quorum=3, data__scaling="noisy-moments")
    cut_off(made, 2, played=True, nodes=2)
    assert [made.charges(place) for place in range(SITES)] == [3, 3, 3]
    made.serve()
    assert [made.charges(place) for place in range(SITES)] == [4, 4, 4]
    np.testing.assert_allclose(standing(made.saved), mean_of_totals(made), rtol=0, atol=1e-14)


def test_moments_that_too_few_released_are_asked_for_again_and_charged_once(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, federation__quorum=3, data__scaling="noisy-moments")
    server = made.server()
    made.grid.silent = {made.node(0)}
    with pytest.raises(InputError, match="goes on after round 0"):
        server.run()
    assert [made.charges(place) for place in range(SITES)] == [0, 1, 1]
    assert not made.saved.measured
    made.grid.silent = set()
    made.serve()
    assert [made.charges(place) for place in range(SITES)] == [4, 4, 4]


def test_a_folder_goes_on_with_its_own_settings_only(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, **FIXED)
    cut_off(made, 2, played=False)
    for name, value in {"run.rounds": 5, "privacy.epsilon": 0.5, "federation.quorum": 1, "run.seed": 1}.items():
        before, made.values[name] = made.values.get(name), value
        with pytest.raises(InputError, match=r"expected the settings that .* was begun with, got others"):
            made.serve()
        made.values[name] = before
    made.values = {name: value for name, value in made.values.items() if value is not None}
    made.values |= {"federation.round_seconds": 0.02, "federation.start_seconds": 1.0}  # how long it waits may change
    made.serve()


def test_a_folder_whose_schema_changed_does_not_go_on(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, **FIXED)
    cut_off(made, 2, played=False)
    path = made.folder / "schema.toml"
    path.write_text(path.read_text().replace("100]", "110]"))
    with pytest.raises(InputError, match="has changed since the run began"):
        made.serve()


def test_a_run_that_is_complete_does_not_begin_again(tmp_path: Path) -> None:
    made = federation(tmp_path, 1)
    model, asked = made.serve().server, len(made.grid.sent)
    np.testing.assert_array_equal(made.serve().server, model)
    assert (len(made.grid.sent), made.charges()) == (asked, 3)
