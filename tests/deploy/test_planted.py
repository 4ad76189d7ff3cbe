"""Bugs that would break the promises of a deployment, planted one at a time: each turns a check red.

The bugs of methods and plans are planted in `tests/test_planted_bugs.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fedspd.deploy.protocol import messages
from fedspd.deploy.server.run import Server
from fedspd.deploy.site import client as client_module
from fedspd.deploy.site.client import Client
from fedspd.deploy.site.spending import EnteredRun, Spending
from fedspd.deploy.site.store import Store, Stored
from fedspd.engine import release as door
from fedspd.engine import stream
from fedspd.privacy.exact import exact_gaussian
from fedspd.privacy.mechanism import gaussian
from fedspd.typing import Query, Release
from tests.deploy.site.test_client import die, in_a_process_that_is_killed
from tests.support.deploy.sites import Federation, ask, federation
from tests.support.deploy.twists import in_round, mean_of_totals, standing, with_reply

DP_SGD: dict[str, Any] = {"site": {"policy.methods": ["dp-sgd"]}, "algorithm__name": "dp-sgd"}


@contextmanager
def site(**changes: Any) -> Iterator[Federation]:
    with TemporaryDirectory() as folder:
        yield federation(Path(folder) / "federation", **changes)


class ChargesLate(Client):
    """The reply is made, kept, and only then paid for."""

    def _charge(self, entered: EnteredRun, event: Any, mechanism: str) -> int:
        self.owed = entered, event, mechanism
        return 1 + self.store.last(entered.run)[0]

    def released(self, *arguments: Any, **options: Any) -> Stored:
        stored = super().released(*arguments, **options)
        Client._charge(self, *self.owed)
        return stored


class ForgetsReplies(Client):
    """Every request is new: a repeated one is charged and noised again."""

    def released(self, entered: EnteredRun, request: Any, *arguments: Any, **options: Any) -> Stored:
        with_another_name = request._replace(weights=request.weights + 1e-300 * (1 + self.store.last(entered.run)[0]))
        return super().released(entered, with_another_name, *arguments, **options)


class AcknowledgesTooSoon(Server):
    """Replies count as merged when they have come, not when they are part of the sum."""

    def _merge(self, found: Any, asks: Any, round: int) -> None:
        super()._merge(found, asks, round)
        for place in asks:
            self.checkpoint = self.checkpoint.with_member(place, acknowledged=round)


def noise_of_the_round(query: Query, scale: float) -> Release:
    """The same noise whenever the same round is asked for."""
    return gaussian(query, scale, stream(0, "noise", 1).standard_normal(np.asarray(query.value).shape))


def released_without_a_charge(kind: type[Client]) -> bool:
    """Killed where a reply exists for the first time: does the ledger know of it?"""
    with site() as made:
        terms = made.enter()

        def crash() -> None:
            Store.keep = die  # in the child alone
            with made.client(kind=kind) as client:
                client.answer(ask(terms))

        in_a_process_that_is_killed(crash)
        return made.charges() == 0


def noise_cancels(mechanism: Callable[[Query, float], Release]) -> bool:
    """Do two requests for one round, with weights that hardly differ, tell what their queries differ by?"""
    with pytest.MonkeyPatch.context() as patch, site(**DP_SGD) as made:
        patch.setattr(door, "exact_gaussian", mechanism)
        terms = made.enter()
        first, second = (made.tell(0, ask(terms, weights=weights)).upload for weights in (0.0, 1e-9))
        return bool(np.abs(first - second).max() < 1e-8)


def asking_again_averages_the_noise(kind: type[Client]) -> bool:
    """Does the very same request get other noise?"""
    with site() as made:
        terms = made.enter()
        with made.client(kind=kind) as client:
            first, second = (client.answer(ask(terms)).upload for _ in range(2))
        return not np.array_equal(first, second)


def weights_beyond_the_proof_are_played(check: Callable[..., None]) -> bool:
    """At weights of 1e15 the rounding of a query is larger than its sensitivity."""
    with pytest.MonkeyPatch.context() as patch, site() as made:
        patch.setattr(client_module, "check_ask", check)
        terms = made.enter()
        made.tell(0, ask(terms, weights=1e15))
        return made.charges() > 0


def a_difference_is_lost(kind: type[Server]) -> bool:
    """One reply is rejected: is the server's sum still the mean of what its sites have said?"""
    with site(count=3, protected=False, federation__fixed_draws=True, federation__quorum=2) as made:
        rejected = with_reply(lambda reply: reply._replace(upload=1e6 * reply.upload))
        made.grid.handlers[made.node(0)] = in_round(2, rejected)
        kind(made.grid, made.settings, made.said.append).run()  # pyright: ignore[reportArgumentType]
        return not np.allclose(standing(made.saved), mean_of_totals(made), rtol=0, atol=1e-12)


def another_seed_is_taken(check: Callable[..., None]) -> bool:
    """Does a site with a budget let a server fix its noise?"""
    with pytest.MonkeyPatch.context() as patch, site() as made:
        patch.setattr(client_module, "check_terms", check)
        terms = replace(made.terms(), draws=0)
        made.tell(0, messages.Enter(terms.text))
        made.tell(0, ask(terms))
        return made.charges() > 0


class BelievesTheModel(Server):
    """What is believed of an upload grows with the model, as it once did."""

    def _limits(self, asks: Any, round: int) -> Any:
        norm = float(10 * np.linalg.norm(self.checkpoint.server))
        return {place: limit._replace(norm=limit.norm + norm) for place, limit in super()._limits(asks, round).items()}


class UsesAnyCharge(Spending):
    """The last charge is used again whether or not its reply has left."""

    def _left_over(self, entered: EnteredRun, event: Any, mechanism: str) -> int | None:
        before = sum(charged.times for charged in self.charged(entered))
        return before or super()._left_over(entered, event, mechanism)


class NeverLooksBack(Spending):
    """Whatever file is there is the ledger."""

    def _require_remembered(self) -> None:
        """It will be the right one."""


def limits_feed_themselves(kind: type[Server]) -> bool:
    """Is more believed of a site once the model is large?"""
    with site(count=2) as made:
        server = kind(made.grid, made.settings, made.said.append)
        before = server._limits({0: server._ask(0, 2)}, 2)[0].norm
        server.checkpoint.server[...] = 900.0
        return server._limits({0: server._ask(0, 2)}, 2)[0].norm > before


def one_charge_pays_for_two(kind: type[Spending]) -> bool:
    """Do two releases that both left share a charge?"""
    with pytest.MonkeyPatch.context() as patch, site() as made:
        patch.setattr(client_module, "Spending", kind)
        terms = made.enter()
        for round in (1, 2):
            made.tell(0, ask(terms, round=round))
        return made.charges() < 2


def an_older_ledger_is_taken(kind: type[Spending]) -> bool:
    """Is a ledger from before the last release charged as if that had never been?"""
    with pytest.MonkeyPatch.context() as patch, site() as made:
        patch.setattr(client_module, "Spending", kind)
        terms, home = made.enter(), made.sites[0].parent
        old = {path: path.read_bytes() for path in home.glob("ledger.db*")}
        made.tell(0, ask(terms))
        for path in home.glob("ledger.db*"):
            path.unlink()
        for path, content in old.items():
            path.write_bytes(content)
        made.tell(0, ask(terms, round=2, acknowledged=1))
        return made.charges() == 1


def unchecked(*_: Any) -> None:
    """Nothing is looked at."""


CHECKS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    # what was planted: (the check on the truth, the check on the bug); a check says whether it is red
    "the charge comes after the reply": (
        lambda: released_without_a_charge(Client),
        lambda: released_without_a_charge(ChargesLate),
    ),
    "noise is used again for another request of the same round": (
        lambda: noise_cancels(exact_gaussian),
        lambda: noise_cancels(noise_of_the_round),
    ),
    "the same request is noised again": (
        lambda: asking_again_averages_the_noise(Client),
        lambda: asking_again_averages_the_noise(ForgetsReplies),
    ),
    "the range of the server's weights is not checked": (
        lambda: weights_beyond_the_proof_are_played(client_module.check_ask),
        lambda: weights_beyond_the_proof_are_played(unchecked),
    ),
    "the terms are not checked": (
        lambda: another_seed_is_taken(client_module.check_terms),
        lambda: another_seed_is_taken(unchecked),
    ),
    "what is believed of an upload follows the model": (
        lambda: limits_feed_themselves(Server),
        lambda: limits_feed_themselves(BelievesTheModel),
    ),
    "a charge is used again though its reply has left": (
        lambda: one_charge_pays_for_two(Spending),
        lambda: one_charge_pays_for_two(UsesAnyCharge),
    ),
    "the ledger is not held against what the store remembers": (
        lambda: an_older_ledger_is_taken(Spending),
        lambda: an_older_ledger_is_taken(NeverLooksBack),
    ),
    "a reply is acknowledged before it is merged": (
        lambda: a_difference_is_lost(Server),
        lambda: a_difference_is_lost(AcknowledgesTooSoon),
    ),
}


@pytest.mark.parametrize("bug", CHECKS)
def test_the_truth_is_green_and_the_planted_bug_is_red(bug: str) -> None:
    on_truth, on_bug = CHECKS[bug]
    assert not on_truth()
    assert on_bug()
