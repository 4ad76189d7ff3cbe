"""Setting a federation up: archives that hold what is named, keys that arrive, certificates that are renewed."""

import os
import resource
import shutil
import ssl
import stat
import tarfile
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedspd.deploy.protocol.identity import read_identity, read_members
from fedspd.deploy.server.settings import masked_group, read_federation
from fedspd.deploy.setup.change import add_key, renew, switch
from fedspd.deploy.setup.check import check_site
from fedspd.deploy.setup.init import SetupPlan, write_federation
from fedspd.deploy.setup.join import join
from fedspd.deploy.setup.keys import Certificates, write_private_key
from fedspd.deploy.setup.kit import FILES
from fedspd.deploy.site.settings import read_site
from fedspd.errors import InputError
from tests.deploy.setup.test_keys import handshake
from tests.support.deploy.live import unpacked
from tests.support.deploy.sites import SCHEMA, write_records
from tests.support.ledger.crashes import fork


def plan(folder: Path, *sites: str, **changes: Any) -> SetupPlan:
    schema = folder / "given.toml"
    folder.mkdir(parents=True, exist_ok=True)
    schema.write_text(SCHEMA)
    values = {"schema": schema, "epsilon": 0.5, "delta": 1e-6, "aggregation": "plain"} | changes
    return SetupPlan(folder / "wards", sites or ("north", "south"), **values)


def test_an_archive_holds_the_named_files_and_nothing_of_another_site(tmp_path: Path) -> None:
    archives = write_federation(plan(tmp_path))
    assert [archive.name for archive in archives] == ["north.tar.gz", "south.tar.gz"]
    keys = []
    for archive in archives:
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
        name = archive.name.removesuffix(".tar.gz")
        with tarfile.open(archive) as file:
            names = sorted(file.getnames())
            assert names == sorted(f"{name}/{each}" for each in FILES if each != "records.csv")
            assert file.getmember(f"{name}/site.key").mode == 0o600
        keys.append((unpacked(archive, tmp_path / "at home") / "site.key").read_bytes())
    assert keys[0] != keys[1]
    rest = b"".join(
        path.read_bytes() for path in (tmp_path / "wards").rglob("*") if path.is_file() and path.suffix != ".gz"
    )
    assert rest.count(b"PRIVATE KEY") == 2, "of the server alone, begin and end: sites' keys are in their archives"


def test_what_the_archive_says_can_be_read_and_fits_what_the_server_has(tmp_path: Path) -> None:
    archives = write_federation(plan(tmp_path, hosts=("fl.example.org",), port=9443))
    settings = read_federation(tmp_path / "wards" / "federation.toml")
    assert (settings.listen.host, settings.listen.port) == ("0.0.0.0", 9443)
    for archive in archives:
        home = unpacked(archive, tmp_path / "at home")
        site = read_site(home / "site.toml")
        assert site.server is not None
        assert (site.name, site.server.address) == (home.name, "fl.example.org:9443")
        assert site.budget is not None
        assert (site.budget.epsilon, site.budget.delta) == (0.5, 1e-6)
        key = read_identity(home / "site.key").public
        assert settings.members[site.name] == read_members(home / "members.toml")[site.name] == key
        assert "@" not in (home / "HOWTO.md").read_text()
        assert f"ReadWritePaths=/srv/fedspd/{site.name}" in (home / "fedspd-site.service").read_text()


def test_a_site_that_makes_its_own_key_sends_the_public_half(tmp_path: Path) -> None:
    (archive,) = write_federation(plan(tmp_path, "north", own_keys=True))
    federation = tmp_path / "wards" / "federation.toml"
    home, said = unpacked(archive, tmp_path / "at home"), list[str]()
    assert not (home / "site.key").exists()
    assert len(read_federation(federation).members) == 0
    join(home / "site.toml", said.append)
    public = read_identity(home / "site.key").public
    assert said[1] == f"{public.line} north"
    assert add_key(federation, "north", home / "site.key.pub") == public.fingerprint
    assert read_federation(federation).members["north"] == public
    assert read_members(federation.parent / "members.toml")["north"] == public
    with pytest.raises(InputError, match=r"expected a \[\[site\]\] named 'west'"):
        add_key(federation, "west", home / "site.key.pub")
    with pytest.raises(InputError, match="expected a public key"):
        add_key(federation, "north", home / "site.toml")
    write_records(home / "records.csv", 150, 0)
    assert [what for what, (good, _) in checked(home).items() if not good] == ["connection"]


def test_a_masked_federation_has_its_threshold_in_the_file_of_every_site_and_in_the_servers(tmp_path: Path) -> None:
    names = ("north", "south", "east", "west", "center")
    archives = write_federation(plan(tmp_path, *names, aggregation="secure"))
    settings = read_federation(tmp_path / "wards" / "federation.toml")
    assert (settings.federation.threshold, settings.federation.colluders, settings.federation.quorum) == (4, 1, 4)
    for members in (settings.members, *(read_members(unpacked(each, tmp_path) / "members.toml") for each in archives)):
        assert (len(members), members.threshold, members.colluders) == (5, 4, 1)


def test_the_threshold_is_written_for_the_sites_when_enough_keys_have_come(tmp_path: Path) -> None:
    names = ("north", "south", "east", "west", "center")
    write_federation(plan(tmp_path, *names, aggregation="secure", own_keys=True))
    federation, found = tmp_path / "wards" / "federation.toml", []
    for name in names:
        write_private_key(tmp_path / f"{name}.key")
        (tmp_path / f"{name}.pub").write_text(read_identity(tmp_path / f"{name}.key").public.line)
        add_key(federation, name, tmp_path / f"{name}.pub")
        members = read_members(federation.parent / "members.toml")
        found.append((len(members), members.threshold, members.colluders))
    assert found == [(1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 4, 1), (5, 4, 1)]


@pytest.mark.parametrize(
    ("sites", "numbers"), [(3, (3, 1)), (4, (3, 0)), (5, (4, 1)), (6, (5, 1)), (20, (16, 3)), (100, (80, 13))]
)
def test_the_rule_lets_a_fifth_be_absent_and_one_of_four(sites: int, numbers: tuple[int, int]) -> None:
    assert masked_group(sites) == numbers
    assert masked_group(sites, sites, 0) == (sites, 0)


def test_every_threshold_of_the_rule_allows_one_story_only() -> None:
    for sites in range(3, 1001):
        threshold, colluders = masked_group(sites)
        assert 2 * threshold > sites + colluders
        assert 3 <= threshold <= sites


def test_the_next_certificate_keeps_the_names_of_the_present_one(tmp_path: Path) -> None:
    write_federation(plan(tmp_path, "north", hosts=("fl.example.org", "192.0.2.7")))
    federation, keys = tmp_path / "wards" / "federation.toml", tmp_path / "wards" / "keys"
    renew(federation, ("new.example.org",))
    with pytest.raises(InputError, match=r"a next certificate is in .* already"):
        renew(federation, ())
    switch(federation)
    serving = Certificates(keys / "ca.pem", keys / "server.pem", keys / "server.key")
    for name in ("fl.example.org", "192.0.2.7", "new.example.org", "localhost"):
        handshake(serving, keys / "ca.pem", name)


def test_a_certificate_is_renewed_without_a_moment_in_which_a_site_is_shut_out(tmp_path: Path) -> None:
    (archive,) = write_federation(plan(tmp_path, "north"))
    federation, keys = tmp_path / "wards" / "federation.toml", tmp_path / "wards" / "keys"
    old = unpacked(archive, tmp_path / "at home") / "ca.pem"
    serving = Certificates(keys / "ca.pem", keys / "server.pem", keys / "server.key")
    handshake(serving, old, "localhost")
    with pytest.raises(InputError, match="make it first, with `fedspd deploy renew`"):
        switch(federation)
    both = tmp_path / "both.pem"
    shutil.copy(renew(federation, ()), both)
    handshake(serving, both, "localhost")
    switch(federation)
    handshake(serving, both, "localhost")
    handshake(serving, keys / "ca.pem", "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(serving, old, "localhost")
    assert sorted(path.name for path in keys.iterdir()) == ["ca.pem", "server.key", "server.pem"]
    assert stat.S_IMODE((keys / "server.key").stat().st_mode) == 0o600


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a name with a blank": ({"sites": ("north", "so uth")}, "a site's name must be"),
    "a name that leaves the folder": ({"sites": ("../north",)}, "a site's name must be"),
    "a name twice": ({"sites": ("north", "north")}, "each site must have a name of its own"),
    "too many": ({"sites": tuple(f"s{number}" for number in range(1001))}, "expected 1 to 1000 sites, got 1001"),
    "nobody": ({"sites": ()}, "expected 1 to 1000 sites, got 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_slip_is_refused_before_anything_is_written(what: str, tmp_path: Path) -> None:
    changes, why = WRONG[what]
    with pytest.raises(InputError) as caught:
        write_federation(
            SetupPlan(tmp_path / "wards", schema=None, epsilon=1.0, delta=1e-5, aggregation="plain", **changes)
        )
    assert why in str(caught.value)
    assert not (tmp_path / "wards").exists()


def home_of(tmp_path: Path) -> Path:
    (archive,) = write_federation(plan(tmp_path, "north"))
    home = unpacked(archive, tmp_path / "at home")
    write_records(home / "records.csv", 150, 0)
    return home


def checked(home: Path) -> dict[str, tuple[bool, str]]:
    return {one.what: (one.good, one.told) for one in check_site(home / "site.toml")}


def test_a_check_has_a_line_for_everything_and_finds_what_is_missing(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    found = checked(home)
    assert list(found) == [
        "file", "versions", "schema", "table", "bounds", "key", "ledger", "certificate", "connection",
    ]  # fmt: skip
    assert [what for what, (good, _) in found.items() if not good] == ["ledger", "connection"]
    assert "let `fedspd deploy join` make" in found["ledger"][1]
    join(home / "site.toml", lambda line: None)
    found = checked(home)
    assert [what for what, (good, _) in found.items() if not good] == ["connection"]
    assert "epsilon 0.0000 of 0.5 at delta 1e-06 spent; no witness" in found["ledger"][1]
    assert "150 records" in found["table"][1]


def test_a_check_counts_what_is_odd_about_a_table_and_tells_no_cell_of_it(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    path = home / "records.csv"
    odd = ["secret,100,red,no", ",100,red,no", "999,100,red,no", "40,100,mauve,yes"]
    path.write_text("\n".join([path.read_text().strip(), *odd]))
    good, told = checked(home)["bounds"]
    assert good
    assert "age: 1 missing, 1 unreadable, 1 outside" in told
    assert "color: 1 unknown" in told
    assert "secret" not in told
    assert "mauve" not in told


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        ("table", lambda home: (home / "records.csv").unlink()),
        ("schema", lambda home: (home / "schema.toml").write_text("[target]")),
        ("key", lambda home: (home / "site.key").chmod(0o644)),
        ("certificate", lambda home: (home / "ca.pem").write_text("no certificate")),
        ("file", lambda home: (home / "site.toml").write_text("name =")),
    ],
)
def test_a_check_names_what_is_spoiled(what: str, spoil: Any, tmp_path: Path) -> None:
    home = home_of(tmp_path)
    spoil(home)
    assert checked(home)[what][0] is False


def test_a_site_with_fewer_records_than_its_own_policy_wants_is_told_before_any_run(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    write_records(home / "records.csv", 99, 0)
    assert checked(home)["table"] == (
        False, "expected at least policy.min_batch = 100 records, got 99; no run would fit.",
    )  # fmt: skip


def test_the_federations_file_is_toml_that_says_everything(tmp_path: Path) -> None:
    write_federation(plan(tmp_path))
    values = tomllib.loads((tmp_path / "wards" / "federation.toml").read_text())
    assert {"federation", "listen", "site", "privacy", "run", "algorithm", "data", "problem"} <= set(values)
    assert values["privacy"]["epsilon"] == 0.5


def test_a_certificate_that_cannot_be_made_leaves_nothing_of_it(tmp_path: Path) -> None:
    write_federation(plan(tmp_path))
    federation, keys = tmp_path / "wards" / "federation.toml", tmp_path / "wards" / "keys"
    authority = (keys / "ca.pem").read_bytes()
    (keys / "ca.pem").unlink()
    with pytest.raises(InputError, match="expected the authority's certificate"):
        renew(federation, ())
    assert sorted(path.name for path in keys.iterdir()) == ["server.key", "server.pem"]
    (keys / "ca.pem").write_bytes(authority)
    renew(federation, ())


@pytest.mark.parametrize("missing", ["server.key", "server.pem", "ca.pem"])
def test_a_switch_with_a_file_missing_moves_nothing(missing: str, tmp_path: Path) -> None:
    write_federation(plan(tmp_path))
    federation, keys = tmp_path / "wards" / "federation.toml", tmp_path / "wards" / "keys"
    before = {path: path.read_bytes() for path in keys.iterdir()}
    renew(federation, ())
    (keys / "next" / missing).unlink()
    with pytest.raises(InputError, match=r"remove that folder and make it anew, with `fedspd deploy renew`"):
        switch(federation)
    assert {path: path.read_bytes() for path in keys.iterdir() if path.is_file()} == before


def test_a_switch_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    write_federation(plan(tmp_path))
    federation, keys = tmp_path / "wards" / "federation.toml", tmp_path / "wards" / "keys"
    renew(federation, ())
    (keys / "next" / "server.key").replace(keys / "server.key")
    switch(federation)
    assert sorted(path.name for path in keys.iterdir()) == ["ca.pem", "server.key", "server.pem"]


def test_another_sites_key_is_refused_and_the_federation_stays_as_it_was(tmp_path: Path) -> None:
    write_federation(plan(tmp_path, own_keys=True))
    federation = tmp_path / "wards" / "federation.toml"
    key = tmp_path / "north.pub"
    write_public(key)
    add_key(federation, "north", key)
    federation.chmod(0o640)
    before = federation.read_text()
    with pytest.raises(InputError, match="got one key for 'north' and 'south'"):
        add_key(federation, "south", key)
    assert federation.read_text() == before
    write_public(tmp_path / "south.pub")
    add_key(federation, "south", tmp_path / "south.pub")
    assert federation.stat().st_mode & 0o777 == 0o640
    assert len(read_federation(federation).members) == 2


def write_public(path: Path) -> None:
    write_private_key(path.with_suffix(".key"))
    path.write_text(read_identity(path.with_suffix(".key")).public.line)


def without_room(task: Callable[[], object]) -> None:
    """Run in a child that can write files of 200 bytes at most; it must end with an InputError or OSError."""

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
        with pytest.raises((InputError, OSError)):
            task()

    _, status = os.waitpid(fork(child), 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_without_room_on_the_disk_a_federation_stays_as_it_was(tmp_path: Path) -> None:
    write_federation(plan(tmp_path, own_keys=True))
    federation = tmp_path / "wards" / "federation.toml"
    write_public(tmp_path / "north.pub")
    before = federation.read_text()
    names = sorted(path.name for path in federation.parent.iterdir())
    without_room(lambda: add_key(federation, "north", tmp_path / "north.pub"))
    assert federation.read_text() == before
    assert sorted(path.name for path in federation.parent.iterdir()) == names


def test_without_room_on_the_disk_nothing_is_left_of_a_new_federation_or_key(tmp_path: Path) -> None:
    wanted = plan(tmp_path)
    without_room(lambda: write_federation(wanted))
    assert [path.name for path in tmp_path.iterdir()] == ["given.toml"]
    wanted.folder.mkdir()
    without_room(lambda: write_federation(wanted))
    assert list(wanted.folder.iterdir()) == []
    without_room(lambda: write_private_key(tmp_path / "site.key"))
    assert not (tmp_path / "site.key").exists()
    write_federation(wanted)


@pytest.mark.parametrize(
    ("folder", "name"), [("Two Wards", "Two-Wards"), (".wards", "wards"), ("ü", "federation"), ("w" * 99, "w" * 60)]
)
def test_a_federation_has_a_name_that_its_own_file_may_have(folder: str, name: str, tmp_path: Path) -> None:
    write_federation(replace(plan(tmp_path), folder=tmp_path / folder))
    assert read_federation(tmp_path / folder / "federation.toml").federation.name == name


def test_an_address_of_the_sixth_version_stands_in_brackets(tmp_path: Path) -> None:
    archive, _ = write_federation(plan(tmp_path, hosts=("::1",)))
    site = read_site(unpacked(archive, tmp_path) / "site.toml")
    assert site.server is not None
    assert site.server.address == "[::1]:9092"
    assert read_federation(tmp_path / "wards" / "federation.toml").listen.host == "::1"
