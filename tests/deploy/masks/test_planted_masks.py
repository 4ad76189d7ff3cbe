"""Bugs that would let a server take an upload out of a masked sum, planted one at a time: each turns a check red."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fedspd.config import changed
from fedspd.deploy.masks import shares as shares_module
from fedspd.deploy.masks import stages as stages_module
from fedspd.deploy.masks.member import new_secrets, public_keys
from fedspd.deploy.masks.signed import Scope, sign_keys
from fedspd.deploy.masks.stages import Attempt, Masking
from fedspd.deploy.protocol import identity as identity_module
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.identity import Members
from fedspd.deploy.site import client as client_module
from fedspd.deploy.site.computing import local as local_module
from fedspd.deploy.site.store import Store
from fedspd.errors import InputError
from tests.deploy.masks.test_secure import masked, silent_at
from tests.support.deploy import masked_sites as sites_module
from tests.support.deploy.masked_sites import Masked
from tests.support.deploy.two_faced import TwoFaced, many_stories, two_halves

pytestmark = pytest.mark.slow

Check = Callable[[], bool]


@contextmanager
def sites(count: int = 5, kind: type[Masking] = Masking, **options: Any) -> Iterator[Masked]:
    """Sites whose part in a round is played by this class."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites_module, "Masking", kind)
        yield Masked(Path(folder), count, **options)


@contextmanager
def begun(**options: Any) -> Iterator[TwoFaced]:
    """Five sites have uploaded."""
    with sites(**options) as made:
        server = TwoFaced(made)
        server.publish()
        server.deal()
        server.mask()
        yield server


def planted(where: Any, name: str, bug: Any, check: Check) -> Check:
    """The same check with something else in the place of the truth."""

    def run() -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, name, bug)
            return check()

    return run


class NobodyConfirms(Masking):
    """Shares are revealed by whatever survivors the server has told this site."""

    def _require_confirmed(self, request: Any, attempt: Attempt) -> None:
        """It will be the same for all."""


class BelievesTheTerms(Masking):
    """The threshold is the server's."""

    def __init__(self, store: Store, terms: Any, identity: Any, members: Any) -> None:
        numbers = terms.threshold, terms.colluders
        super().__init__(store, terms, identity, Members(members.items(), *numbers))


class CountsWhoIsThere(Masking):
    """The threshold is two thirds of those who showed up, as it once was."""

    def step(self, request: Any) -> Any:
        there = 0 if isinstance(request, messages.Exchange) else len(self._known(request))
        self.members = Members(self.members.items()) if there < 3 else _with_threshold(self.members, there)
        return super().step(request)

    def answer(self, request: Any, release: Any) -> Any:
        self.members = _with_threshold(self.members, len(self._known(request)))
        return super().answer(request, release)

    def _known(self, request: Any) -> set[int]:
        keys = request.keys if isinstance(request, messages.Deal) else self._attempt(request).keys
        return {self.terms.place, *(int(place) for place in keys)}


def _with_threshold(members: Members, there: int) -> Members:
    changed = Members(members.items())
    changed.threshold = max(3, -(-2 * there // 3))
    return changed


class BeginsAnew(Masking):
    """An exchange makes fresh keys whenever it comes, and forgets how far the attempt had come."""

    def exchange(self, request: messages.Exchange) -> messages.Published:
        attempt = Attempt(new_secrets().blob.hex())
        self._keep(request, attempt)
        keys = public_keys(stages_module._secrets(attempt))
        signature = sign_keys(self._scope(request), self.identity, self.terms.place, keys)
        return messages.Published(request.terms, request.round, keys, signature)


class WithoutTerms(Scope):
    """Masks that know run, round and attempt, and not the terms."""

    @property
    def context(self) -> bytes:
        return f"{self.terms.run} {self.round} {self.attempt}".encode()


class MasksWithoutTerms(Masking):
    """A site that masks for such a scope."""

    def _scope(self, request: Any) -> Scope:
        return WithoutTerms(*super()._scope(request))


def one_is_unmasked(members: int, threshold: int, colluders: int, kind: type[Masking]) -> bool:
    """Does a server that tells everybody another story have one upload?"""
    with sites(members, kind, threshold=threshold, colluders=colluders) as made:
        return many_stories(TwoFaced(made, range(members - colluders, members)))[1]


def two_halves_have_a_story_each() -> bool:
    """Is a site unmasked where twice the threshold is more than n, but not than n + c?"""
    try:
        with sites(6, threshold=4, colluders=2) as made:
            return two_halves(TwoFaced(made, [4, 5]))[1]
    except InputError:
        return False


def fewer_are_summed_than_the_file_allows(kind: type[Masking], lowered: bool) -> bool:
    """Is there a sum of three where the sites' file says four: by the server's terms, or as two of five are away?"""
    with sites(5, kind, threshold=4, colluders=1) as made:
        if lowered:
            made.terms = [replace(terms, threshold=3, colluders=0) for terms in made.terms]
            for site, terms in zip(made.sites, made.terms, strict=True):
                site.terms = terms
        server = TwoFaced(made)
        try:
            server.publish([0, 1, 2])
            server.deal()
            server.mask()
        except AssertionError:  # somebody refused
            return False
        return server.show(dict.fromkeys(range(3), range(3))) == []


def a_stranger_is_signed() -> bool:
    """Does a site sign survivors among whom is one that it shares no mask with?"""
    with sites() as made:
        server = TwoFaced(made)
        server.publish()
        server.deal()
        server.mask({0: {1, 2, 3}})
        return isinstance(server.confirm(0, range(5)), messages.Confirmed)


def shares_come_twice() -> bool:
    """Are secrets there after they have served?"""
    with begun() as server:
        signed = {place: server.confirm(place, range(5)).signature for place in range(5)}
        return all(isinstance(server.unmask(0, signed), messages.Unmasked) for _ in range(2))


def an_exchange_resets(kind: type[Masking]) -> bool:
    """Does a site upload twice in an attempt?"""
    with begun(kind=kind) as server:
        again = TwoFaced(server.made)
        try:
            again.publish()
        except AssertionError:  # somebody refused
            return False
        again.deal()
        again.mask()
        return server.made.sites[0].charges == 2


def masks_are_the_same_under_other_terms(kind: type[Masking]) -> bool:
    """Does a site mask one vector alike in a run of which it was told of smaller noise, by one set of secrets?

    Nobody looks at signatures, which are over the terms too: what is left to keep such runs apart are the masks.
    """
    with sites(kind=kind) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "_require_signed", unchecked)
        server, site, found = TwoFaced(made), made.sites[0], []
        server.publish()
        server.deal()
        with Store(site.path) as store:
            secrets = store.secrets(site.terms.run, server.round, server.attempt)
        assert secrets
        for epsilon in (1.0, 2.0):
            site.terms = replace(site.terms, config=changed(site.terms.config, {"privacy.epsilon": epsilon}))
            with Store(site.path) as store, store.turn():  # as if the attempt had not masked anything yet
                store.keep_secrets(site.terms.run, server.round, server.attempt, False, secrets)
            answer = server.ask(0, [1, 2, 3, 4])
            assert isinstance(answer, messages.Masked), answer
            found.append(answer.upload)
        return np.array_equal(*found)


def a_foreign_key_is_taken() -> bool:
    """Does a site deal to a key that the server has made?"""
    with sites() as made:
        server = TwoFaced(made)
        server.publish()
        foreign = server.published[1]._replace(keys=public_keys(new_secrets()))
        others = {1: foreign} | {place: server.published[place] for place in (2, 3, 4)}
        return isinstance(server.deal_to(0, others), messages.Dealt)


def a_repeated_key_is_taken() -> bool:
    """Does a site deal to two members with one key, which both have signed?"""
    with sites() as made:
        server = TwoFaced(made)
        server.publish()
        keys = server.published[2].keys
        thief = server.published[1]._replace(keys=keys, signature=sign_keys(server.scope, made.sites[1].me, 1, keys))
        others = {1: thief} | {place: server.published[place] for place in (2, 3, 4)}
        return isinstance(server.deal_to(0, others), messages.Dealt)


def begun_again(look: Callable[[Any], bool], **changes: Any) -> bool:
    """A masked round that is begun again, between sites with budgets: what is seen of it?"""
    with TemporaryDirectory() as folder:
        made = masked(Path(folder) / "federation", protected=True, run__rounds=2, **changes)
        for place in (2, 3, 4):
            made.grid.handlers[made.node(place)] = silent_at("train.mask")
        with pytest.raises(InputError, match="got 0 that answered round 1"):
            made.serve()
        made.serve()
        return look(made)


def an_upload_is_in_two_sums() -> bool:
    """Is the stored reply masked again?"""

    def look(made: Any) -> bool:
        return made.charges(0) < 2 or made.saved.round == 2

    return begun_again(look)


def the_same_records_are_drawn() -> bool:
    """Does another attempt at a round use the batch of the first, with noise that averages away?"""
    seen, real = [], local_module._drawn

    def noted(*arguments: Any) -> np.ndarray:
        seen.append(real(*arguments))
        return seen[-1]

    changes = {"algorithm__batch_size": 60, "site": {"policy.min_batch": 20}}
    check = planted(local_module, "_drawn", noted, lambda: begun_again(lambda made: True, **changes))
    assert check()
    drawn = [np.sort(batch.ravel()).tobytes() for batch in seen]
    return len(drawn) > len(set(drawn))


def drawn_by_the_round(terms: Any, agreed: Any, round: int, size: int) -> np.ndarray:
    """The same records whenever the same round is asked for."""
    terms = replace(terms, draws=round)
    return TRULY_DRAWN(terms, agreed, round, size)


TRULY_DRAWN = local_module._drawn


def digest_without_the_attempt(ask: Any) -> str:
    return client_module_digest(ask._replace(attempt="") if hasattr(ask, "attempt") else ask)


client_module_digest = client_module.digest_of_ask


def unchecked(*_: Any) -> bool:
    """Nothing is looked at."""
    return True


CHECKS: dict[str, tuple[Check, Check]] = {
    # what was planted: (the check on the truth, the check on the bug); a check says whether it is red
    "no consistency round, six sites": (
        lambda: one_is_unmasked(6, 4, 1, Masking),
        lambda: one_is_unmasked(6, 4, 1, NobodyConfirms),
    ),
    "no consistency round, twenty sites": (
        lambda: one_is_unmasked(20, 14, 6, Masking),
        lambda: one_is_unmasked(20, 14, 6, NobodyConfirms),
    ),
    "2t > n instead of n + c": (
        two_halves_have_a_story_each,
        planted(identity_module, "_check_threshold", unchecked, two_halves_have_a_story_each),
    ),
    "t from the message": (
        lambda: fewer_are_summed_than_the_file_allows(Masking, lowered=True),
        lambda: fewer_are_summed_than_the_file_allows(BelievesTheTerms, lowered=True),
    ),
    "t from who showed up": (
        lambda: fewer_are_summed_than_the_file_allows(Masking, lowered=False),
        lambda: fewer_are_summed_than_the_file_allows(CountsWhoIsThere, lowered=False),
    ),
    "U outside those masked with": (
        a_stranger_is_signed,
        planted(stages_module, "check_survivors", unchecked, a_stranger_is_signed),
    ),
    "reveal twice": (shares_come_twice, planted(Store, "erase_secrets", unchecked, shares_come_twice)),
    "a repeated exchange that resets flags": (
        lambda: an_exchange_resets(Masking),
        lambda: an_exchange_resets(BeginsAnew),
    ),
    "terms not in the mask's context": (
        lambda: masks_are_the_same_under_other_terms(Masking),
        lambda: masks_are_the_same_under_other_terms(MasksWithoutTerms),
    ),
    "foreign keys": (
        a_foreign_key_is_taken,
        planted(stages_module, "keys_are_signed", unchecked, a_foreign_key_is_taken),
    ),
    "repeated keys": (
        a_repeated_key_is_taken,
        planted(shares_module, "_require_own_keys", unchecked, a_repeated_key_is_taken),
    ),
    "stored reply masked again": (
        an_upload_is_in_two_sums,
        planted(client_module, "digest_of_ask", digest_without_the_attempt, an_upload_is_in_two_sums),
    ),
    "same batch with new noise": (
        the_same_records_are_drawn,
        planted(local_module, "_drawn", drawn_by_the_round, the_same_records_are_drawn),
    ),
}


@pytest.mark.parametrize("bug", CHECKS)
def test_the_truth_is_green_and_the_planted_bug_is_red(bug: str) -> None:
    on_truth, on_bug = CHECKS[bug]
    assert not on_truth()
    assert on_bug()
