"""Cohorts of real processes over TLS: one that is short is left out, and the others play."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedspd.deploy.setup.keys import write_certificates
from tests.support.deploy.live import Live
from tests.support.deploy.processes import free_port
from tests.support.deploy.shared import sharing

pytestmark = pytest.mark.deploy
SITES, ROUNDS = 6, 3
COMPLETE, SHORT = (1, 2, 5), (0, 4)  # dealt by a hash of names; site-3 of the second is never started
NUMBERS: dict[str, Any] = {
    "privacy__cohorts": 2, "federation__threshold": 3, "federation__colluders": 1, "federation__quorum": 3,
    "federation__start_seconds": 40.0, "federation__round_seconds": 20.0, "run__rounds": ROUNDS,
}  # fmt: skip


def test_a_cohort_of_which_a_process_is_missing_is_left_out_and_the_other_plays(tmp_path: Path) -> None:
    made = sharing(tmp_path / "sites", SITES, **NUMBERS)
    port = free_port()
    write_certificates(made.folder / "keys")
    values: dict[str, Any] = {"site": made.seats, "listen": {"port": port}}
    for name, value in made.values.items():
        section, _, key = name.partition(".")
        values.setdefault(section, {})[key] = value
    (made.folder / "federation.toml").write_text(tomli_w.dumps(values))
    for site in made.sites:
        server = f'\n[server]\naddress = "127.0.0.1:{port}"\nauthority = "../keys/ca.pem"\n'
        site.write_text(site.read_text() + server)
    processes = Live(made.folder, [site.parent for site in made.sites])
    try:
        processes.server()
        for place in (*COMPLETE, *SHORT):
            processes.site(place)
        assert processes.await_end(150) == 0, processes.log()
    finally:
        processes.stop()
    assert "cohort 2 is left out of the run: 2 of its sites agree, 3 are needed in a sum" in processes.log()
    results = processes.results()
    assert [site["site"] for site in results["sites"]] == [f"site-{place}" for place in COMPLETE]
    assert (results["rounds"], results["cohorts"], results["members"]) == (ROUNDS, 1, 3)
    assert [processes.charges(place) for place in COMPLETE] == [ROUNDS] * 3
    assert [processes.charges(place) for place in (*SHORT, 3)] == [0] * 3, "nobody of it was asked for anything"
