"""Servers that do not keep to the rules, and members that die, between real processes whose sites share noise.

All faults meet the same five sites, which stay up: any sum holds four of them, and one may tell all it knows.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedspd.algorithms.parts.moves import WEIGHTS
from fedspd.deploy.server.checkpoint import load
from fedspd.deploy.setup.keys import write_certificates
from fedspd.deploy.site.store import Store
from fedspd.privacy.accounting import spent
from fedspd.privacy.ledger import Ledger
from tests.support.deploy.false_server import GO, MASKED
from tests.support.deploy.live import Live
from tests.support.deploy.lost_sum import LostSum
from tests.support.deploy.processes import free_port, wait_until
from tests.support.deploy.shared import sharing

pytestmark = pytest.mark.deploy
SITES, ROUNDS, SECONDS = 5, 2, 90
LESS = 1.5  # times the epsilon of 1 that the run has


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Five sites at work; what their owners allow is enough for all runs of this file."""
    budget = {"budget.epsilon": 100.0, "budget.epsilon_alone": 1e4, "policy.most_rounds": 100}
    made = sharing(tmp_path_factory.mktemp("false") / "federation", SITES, site=budget, run__rounds=ROUNDS)
    port = free_port()
    write_certificates(made.folder / "keys")
    values: dict[str, Any] = {"site": made.seats, "listen": {"port": port}}
    for name, value in (made.values | {"federation.start_seconds": 60.0, "federation.round_seconds": 8.0}).items():
        section, _, key = name.partition(".")
        values.setdefault(section, {})[key] = value
    (made.folder / "federation.toml").write_text(tomli_w.dumps(values))
    for site in made.sites:
        server = f'\n[server]\naddress = "127.0.0.1:{port}"\nauthority = "../keys/ca.pem"\n'
        site.write_text(site.read_text() + server)
    processes = Live(made.folder, [site.parent for site in made.sites])
    try:
        processes.sites()
        yield processes
    finally:
        processes.stop()


def begin(sites: Live, fault: str) -> None:
    sites.start(fault, [sys.executable, "-m", "tests.support.deploy.false_server", str(sites.file), fault])


def ended(sites: Live, fault: str) -> str:
    """What a false server has printed when it is over."""
    begin(sites, fault)
    sites.await_end(SECONDS, fault)
    return sites.log(fault)


def charged(sites: Live, fault: str) -> list[int]:
    """How often each site has paid in the run of a false server."""
    found = []
    for home in sites.homes:
        with Ledger(home / "ledger.db") as ledger:
            found.append(sum(one.times for one in ledger.charges() if one.run.startswith(f"{fault}-")))
    return found


def rounds(sites: Live, fault: str) -> int:
    checkpoint = load(sites.folder / fault)
    return 0 if checkpoint is None else checkpoint.round


def test_a_server_that_tells_of_two_sets_of_survivors_is_shown_no_share(sites: Live) -> None:
    """One site is on its side and signs both; with the honest ones who heard the same that is one short."""
    log = ended(sites, "two-stories")
    for place in range(SITES):
        words = "3 sites have signed the survivors that this one signed, 4 are needed"
        assert f"two stories: site-{place} refuses: {words} before anything is revealed." in log, log
    assert "gives Unmasked" not in log
    assert rounds(sites, "two-stories") == 0
    assert max(charged(sites, "two-stories")) <= ROUNDS, "every masked upload is paid for, within the plan"


def test_keys_that_a_server_swaps_or_replays_are_refused_by_the_name_of_their_owner(sites: Live) -> None:
    log = ended(sites, "swapped-keys")
    assert "site-0 refuses: the round keys of site-1 are not signed by its key." in log, log
    assert rounds(sites, "swapped-keys") == ROUNDS, "the others go on"
    assert charged(sites, "swapped-keys") == [0, 2, 2, 2, 2], "who refused has paid nothing"
    log = ended(sites, "replayed-keys")
    assert "site-0 refuses: the round keys of site-1 are not signed by its key." in log, log
    assert charged(sites, "replayed-keys") == [1, 2, 2, 2, 2]


TWICE = {
    "train.exchange": "keys are published once in an attempt",
    "train.deal": "shares are dealt once in an attempt.",
    "train.mask": "an upload is masked once",
    "train.confirm": "survivors are signed once",
    "train.unmask": "no keys for this attempt at a masked round, or it is over.",
}


def test_a_server_that_asks_twice_is_answered_once_and_paid_for_once(sites: Live) -> None:
    log = ended(sites, "asks-twice")
    for kind, words in TWICE.items():
        found = re.findall(rf"^{kind}: site-\d refuses: .*{re.escape(words)}", log, re.MULTILINE)
        assert len(found) == SITES * ROUNDS, (kind, log)
    assert " gives " not in log
    assert rounds(sites, "asks-twice") == ROUNDS
    assert charged(sites, "asks-twice") == [ROUNDS] * SITES


def test_members_that_are_told_of_other_noise_mask_with_nobody_in_common(sites: Live) -> None:
    log = ended(sites, "less-noise")
    assert "starts with 5 sites" in log, log
    words = r"^other noise: site-0 refuses: the round keys of site-\d are not signed by its key\."
    assert re.search(words, log, re.MULTILINE), log
    assert charged(sites, "less-noise") == [0, 1, 1, 1, 1], "nobody has its part in a sum with less noise unawares"
    assert rounds(sites, "less-noise") == 0, "what they masked under other terms is masked for the server, too"
    for home in sites.homes[1:]:
        with Ledger(home / "ledger.db") as ledger:
            (event,) = {one.event for one in ledger.charges() if one.run.startswith("less-noise-")}
        assert spent({event: ROUNDS}, 1e-5).epsilon == pytest.approx(LESS, rel=1e-3), "charged for what it was told of"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "lower-threshold",
            "at least 4 sites are summed and 1 may collude by the site's file of members",
        ),
        ("stuffed-roster", "the run has sites that this one's file of members does not name: ghost."),
    ],
)
def test_a_threshold_that_a_server_lowers_and_a_roster_that_it_stuffs_are_refused_before_anything_is_paid(
    fault: str, words: str, sites: Live
) -> None:
    log = ended(sites, fault)
    assert sum(f"site-{place} refuses: {words}" in log for place in range(SITES)) == SITES, log
    assert charged(sites, fault) == [0] * SITES


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_member_that_dies_in_a_round_is_not_needed_and_nothing_of_it_can_be_sent_again(
    when: str, sites: Live
) -> None:
    fault = f"die-{when}-masking"
    begin(sites, fault)
    assert wait_until(lambda: "holding before" in sites.log(fault), SECONDS), sites.log(fault)
    sites.kill("site-4site.toml")
    (sites.folder / fault / GO).touch()
    sites.site(4)
    sites.await_end(SECONDS, fault)
    checkpoint = load(sites.folder / fault)
    assert checkpoint is not None
    assert checkpoint.round == ROUNDS, sites.log(fault)
    paid = charged(sites, fault)
    assert paid[:4] == [ROUNDS] * 4
    assert max(checkpoint.roster[4].answered, when == "after") <= paid[4] <= ROUNDS
    for place in range(SITES):
        with Store(sites.homes[place] / "store.db") as store:
            kept = [store.reply(checkpoint.run, number) for number in range(1, 1 + paid[place])]
            found = store._connection.execute("SELECT secrets FROM attempts WHERE run = ?", (checkpoint.run,))
            held = sum(bool(secrets) for (secrets,) in found.fetchall())
        assert not any(one.upload or one.total for one in kept if one is not None), "nothing that could be sent again"
        assert held <= (place == 4), "only who died has yet to hear that the attempt is over"


def test_a_server_that_dies_between_masks_and_their_removal_pays_for_another_attempt_with_other_noise(
    sites: Live,
) -> None:
    fault = "server-dies"
    begin(sites, fault)
    assert wait_until(lambda: "holding before" in sites.log(fault), SECONDS), sites.log(fault)
    sites.kill(fault)
    before, masked = load(sites.folder / fault), np.load(sites.folder / fault / MASKED)
    assert before is not None
    assert before.round == 0
    assert charged(sites, fault) == [1] * SITES
    lost = LostSum(sites.homes, before.run, {int(place): masked[place] for place in masked.files})
    noise = lost.part.noise.scale * SITES**0.5
    assert np.abs(lost.total).max() < lost.part.reach + 6 * noise, "so it is the sum, and no masks are left on it"
    changes = (f"federation.folder={fault}", f"federation.name={fault}", "federation.round_seconds=60")
    sites.server(*(word for change in changes for word in ("--set", change)), name="resumed")
    assert sites.await_end(SECONDS, "resumed") == 0, sites.log("resumed")
    after = load(sites.folder / fault)
    assert after is not None
    assert after.run == before.run, "it went on"
    assert after.round == ROUNDS - 1, "one of the planned participations is gone"
    assert charged(sites, fault) == [2] * SITES
    for home in sites.homes:
        with Store(home / "store.db") as store:
            assert store.masked_attempts(before.run, 1) == 2
    apart = lost.weights_after(before) - after.server[WEIGHTS]
    assert np.mean(np.abs(apart) > 1e-6) > 0.9, "by the same noise the same round would have ended there"
