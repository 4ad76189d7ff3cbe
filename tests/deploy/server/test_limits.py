"""What one site can do to the model: limits that do not feed themselves, and honest sites that stay."""

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import Ask
from fedspd.deploy.server.checks import largest_norm, outlying
from tests.support.deploy.loopback import honest
from tests.support.deploy.sites import Federation, federation

ROUNDS = 8


def pushed(made: Federation, share: float) -> Federation:
    """Run with a site that always uploads that share of what is believed of it, in one direction."""
    server = made.server()

    def push(message: Message, path: Path) -> Message:
        answer, asked = honest(message, path), wire.read_request(message)
        if not isinstance(asked, Ask):
            return answer
        reply = wire.read_answer(answer, "train.play")
        upload = np.full_like(reply.upload, share * server._limits({0: asked}, asked.round)[0].norm)
        return wire.answer(message, reply._replace(upload=upload / np.sqrt(upload.size)))

    made.grid.handlers[made.node(0)] = push
    server.run()
    return made


@pytest.mark.parametrize("weights", [0.0, 1.0, 900.0])
def test_what_is_believed_does_not_depend_on_the_model(weights: float, tmp_path: Path) -> None:
    """Before, limits were ten times the model's norm: 104, 255, ... 6285 in five rounds."""
    made = federation(tmp_path, 2, run__rounds=ROUNDS)
    server = made.server()
    expected = [server._limits({0: server._ask(0, round)}, round)[0].norm for round in range(1, ROUNDS + 1)]
    server.checkpoint.server[...] = weights
    found = [server._limits({0: server._ask(0, round)}, round)[0].norm for round in range(1, ROUNDS + 1)]
    assert found == expected
    steps = np.diff(found)
    assert steps.max() <= 3 * found[0], "a bound on what honest sites gathered grows by the round, not by a factor"


@pytest.mark.parametrize("share", [0.99, 1e6])
def test_a_site_that_pushes_with_all_that_is_believed_retires_nobody_honest(share: float, tmp_path: Path) -> None:
    made = federation(tmp_path, 2, run__rounds=ROUNDS, federation__quorum=1)
    pushed(made, share)
    assert [member.retired for member in made.saved.roster] == ["", ""]
    assert made.saved.roster[1].answered == ROUNDS
    assert np.abs(made.saved.server).max() <= made.settings.federation.largest_weight


def test_weights_stay_within_what_all_sites_agreed_to_whatever_is_uploaded(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, run__rounds=ROUNDS, federation__quorum=1, federation__largest_weight=2.0)
    pushed(made, 0.99)
    assert np.abs(made.saved.server).max() <= 2.0
    assert [member.retired for member in made.saved.roster] == ["", ""]


def test_where_three_answer_one_far_beyond_the_others_is_rejected_and_named(tmp_path: Path) -> None:
    made = federation(tmp_path, 4, run__rounds=ROUNDS, federation__quorum=2)
    pushed(made, 0.99)
    rejected = [line for line in made.said if "the reply of site-0 is rejected: its norm is" in line]
    assert len(rejected) >= ROUNDS - 1, made.said
    assert not any("site-1 is rejected" in line or "site-2 is rejected" in line for line in made.said)
    calm = federation(tmp_path / "calm", 4, run__rounds=ROUNDS, federation__quorum=2).serve()
    assert np.linalg.norm(made.saved.server) < 3 * np.linalg.norm(calm.server)


@pytest.mark.parametrize("epsilon", [0.3, pytest.param(100.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("steps", [1, 3])
def test_an_honest_site_is_never_rejected_also_after_it_was_away(epsilon: float, steps: int, tmp_path: Path) -> None:
    """With much noise and with next to none; one site has one class only, and its gradients all point one way."""
    for seed in range(2):
        made = federation(
            tmp_path / str(seed), 4, site={"budget.epsilon": epsilon}, run__rounds=ROUNDS, federation__quorum=2,
            run__seed=seed, privacy__epsilon=epsilon, algorithm__local_steps=steps,
        )  # fmt: skip
        path = made.sites[0].parent / "records.csv"
        path.write_text(path.read_text().replace(",no", ",yes"))
        server = made.server()
        server._round()
        made.grid.silent = {made.node(0)}
        for _ in range(4):
            server._round()
        made.grid.silent = set()
        server.run()
        assert not any("rejected" in line for line in made.said), made.said
        assert made.saved.roster[0].answered == ROUNDS - 4


def test_a_few_that_differ_are_not_outlying_and_one_that_is_far_out_is() -> None:
    reaches = dict.fromkeys(range(4), 1.0)
    assert outlying({0: 4.9, 1: 0.1, 2: 0.1, 3: 0.1}, reaches) == {}
    assert set(outlying({0: 5.1, 1: 0.1, 2: 0.1, 3: 0.1}, reaches)) == {0}
    assert outlying({0: 9.9, 1: 2.0, 2: 2.0, 3: 2.0}, reaches) == {}
    assert set(outlying({0: 10.1, 1: 2.0, 2: 2.0, 3: 2.0}, reaches)) == {0}
    assert outlying({0: 1e9, 1: 0.1}, reaches) == {}, "of two nobody can say which is right"
    assert outlying({0: 14.9, 1: 0.1, 2: 0.1}, reaches | {0: 3.0}) == {}, "who was away has more to tell"


def test_what_is_believed_grows_with_the_rounds_and_with_how_long_a_site_was_away() -> None:
    assert largest_norm(1.0, 2.0, 1, 1) == 2 * (4 + 1)
    assert largest_norm(1.0, 2.0, 3, 2) == 2 * (12 + 2)
