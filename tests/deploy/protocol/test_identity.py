"""Long-term keys: what they sign nobody else can, and the federation's file binds each to one printable name."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
    ssh_key_fingerprint,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from hypothesis import given
from hypothesis import strategies as st

from fedspd.deploy.protocol.identity import Identity, Members, read_identity, read_members, read_public_key
from fedspd.deploy.setup.keys import write_private_key
from fedspd.errors import InputError

MINE, OTHER = (Identity(ec.generate_private_key(ec.SECP384R1())) for _ in range(2))
PIECES = st.lists(st.binary(max_size=4), max_size=3)


def file_of(folder: Path, *sites: dict[str, Any]) -> Path:
    path = folder / "members.toml"
    path.write_text(tomli_w.dumps({"site": list(sites)}))
    return path


def private_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_key_is_read_from_the_file_that_is_written_for_a_site(tmp_path: Path) -> None:
    write_private_key(tmp_path / "site.key")
    identity = read_identity(tmp_path / "site.key")
    assert identity.public.verify(identity.sign("greeting", b"hello"), "greeting", b"hello")
    assert identity.public == read_public_key(identity.public.line)


def test_a_public_key_has_the_fingerprint_that_people_know_and_the_bytes_that_flower_keeps() -> None:
    line = MINE.public.line
    key = load_ssh_public_key(line.encode())
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert MINE.public.raw == public_key_to_bytes(key)
    digest = ssh_key_fingerprint(key, hashes.SHA256())  # by another implementation
    assert MINE.public.fingerprint == "SHA256:" + b64encode(digest).decode().rstrip("=")


def test_a_comment_does_not_make_another_key() -> None:
    assert read_public_key(f"  {MINE.public.line} north@hospital\n") == MINE.public
    assert "hospital" not in read_public_key(f"{MINE.public.line} north@hospital").line


@given(PIECES, PIECES, st.sampled_from(["a", "b", ""]), st.sampled_from(["a", "b", ""]))
def test_a_signature_is_good_for_its_purpose_and_its_parts_only(
    signed: list[bytes], claimed: list[bytes], purpose: str, other: str
) -> None:
    signature = MINE.sign(purpose, *signed)
    assert MINE.public.verify(signature, other, *claimed) == ((purpose, signed) == (other, claimed))


def test_parts_that_run_together_are_not_confused() -> None:
    signature = MINE.sign("p", b"ab", b"c")
    assert not MINE.public.verify(signature, "p", b"a", b"bc")
    assert not MINE.public.verify(signature, "p", b"abc")
    assert not MINE.public.verify(signature, "pab", b"c")


@pytest.mark.parametrize("signature", [b"", b"garbage", bytes(104), OTHER.sign("p", b"x")])
def test_nobody_else_can_sign(signature: bytes) -> None:
    assert not MINE.public.verify(signature, "p", b"x")
    assert MINE.public.verify(MINE.sign("p", b"x"), "p", b"x")


def test_a_private_key_is_not_printed() -> None:
    assert repr(MINE) == "Identity()"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_private_key_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    write_private_key(tmp_path / "site.key")
    (tmp_path / "site.key").chmod(mode)
    with pytest.raises(InputError, match=f"readable by its owner alone, got mode {mode:o}"):
        read_identity(tmp_path / "site.key")


def test_other_private_keys_are_refused(tmp_path: Path) -> None:
    short, edwards = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    plain, locked = NoEncryption(), BestAvailableEncryption(b"secret")
    contents = [
        short.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, plain),
        edwards.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, plain),
        MINE.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, plain),
        MINE.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked),
        MINE.public.line.encode(),
        b"",
    ]
    for content in contents:
        with pytest.raises(InputError, match="expected an OpenSSH private key on the curve P-384"):
            read_identity(private_file(tmp_path, content))
    with pytest.raises(InputError, match="No such file"):
        read_identity(tmp_path / "absent")
    with pytest.raises(InputError, match="Is a directory"):
        read_identity(tmp_path)


def test_other_public_keys_are_refused() -> None:
    short = ec.generate_private_key(ec.SECP256R1()).public_key()
    edwards = ed25519.Ed25519PrivateKey.generate().public_key()
    lines = [key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() for key in (short, edwards)]
    for line in [*lines, MINE.public.line[:-9], MINE.public.raw.decode(), "", "north", "ecdsa-sha2-nistp384 é"]:
        with pytest.raises(InputError, match="expected a public key that begins with 'ecdsa-sha2-nistp384'"):
            read_public_key(line)


def test_members_are_read_in_the_order_of_the_file_and_other_entries_are_ignored(tmp_path: Path) -> None:
    south = {"name": "south", "key": f"{OTHER.public.line} comment", "records": 120, "node": 7}
    members = read_members(file_of(tmp_path, south, {"name": "north", "key": MINE.public.line}))
    assert list(members.items()) == [("south", OTHER.public), ("north", MINE.public)]
    assert "east" not in members
    assert repr(members) == "Members(south, north)"


def test_a_threshold_is_read_with_its_colluders_and_one_that_does_not_fit_names_the_file(tmp_path: Path) -> None:
    keys = [Identity(ec.generate_private_key(ec.SECP384R1())).public.line for _ in range(3)]
    path = file_of(tmp_path, *({"name": f"site-{place}", "key": key} for place, key in enumerate(keys)))
    text = path.read_text()
    assert (read_members(path).threshold, read_members(path).colluders) == (0, 0), "none is said"
    path.write_text(f"threshold = 3\ncolluders = 2\n{text}")
    assert (read_members(path).threshold, read_members(path).colluders) == (3, 2)
    for numbers, why in (
        ("threshold = 2", r"members\.toml: twice the threshold must be more than the 3 sites"),
        ("threshold = 3\ncolluders = 3", "it is from 4 to 3"),
        ("colluders = 1", "got threshold 0 and colluders 1"),
        ("threshold = 3.0", "must be whole numbers"),
        ("threshold = true", "must be whole numbers"),
    ):
        path.write_text(f"{numbers}\n{text}")
        with pytest.raises(InputError, match=why):
            read_members(path)


NAMES = ["", "a" * 61, "two words", "new\nline", "naïve", "north/south", "\x1b[31m", "north\n", 7, None]


@pytest.mark.parametrize("name", NAMES)
def test_only_short_printable_names_are_taken(name: Any, tmp_path: Path) -> None:
    site = {"key": MINE.public.line} | ({} if name is None else {"name": name})
    with pytest.raises(InputError, match="a site's name must be 1 to 60 letters"):
        read_members(file_of(tmp_path, site))
    assert len(read_members(file_of(tmp_path, {"name": "Saint-Jean_2.eu", "key": MINE.public.line}))) == 1


def test_no_two_sites_have_the_same_name_or_the_same_key(tmp_path: Path) -> None:
    mine, other = ({"name": "north", "key": identity.public.line} for identity in (MINE, OTHER))
    with pytest.raises(InputError, match="got 'north' twice"):
        read_members(file_of(tmp_path, mine, other))
    with pytest.raises(InputError, match="got one key for 'north' and 'south'"):
        read_members(file_of(tmp_path, mine, {"name": "south", "key": f"{MINE.public.line} another comment"}))
    with pytest.raises(InputError, match="twice"):
        Members([("north", MINE.public), ("north", OTHER.public)])


@pytest.mark.parametrize(
    "text", ["", "site = 1", "site = []", "[site]\nname = 'a'", "site = ['north']", "[[sites]]\nname = 'a'"]
)
def test_a_file_without_sites_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "members.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"must have a \[\[site\]\] table for each site"):
        read_members(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for content, why in ((b"[[site", "is not valid TOML"), (b"\xff", "not UTF-8 text")):
        (tmp_path / "members.toml").write_bytes(content)
        with pytest.raises(InputError, match=why):
            read_members(tmp_path / "members.toml")
    with pytest.raises(InputError, match="No such file"):
        read_members(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="got no key for 'north'"):
        read_members(file_of(tmp_path, {"name": "north"}))
