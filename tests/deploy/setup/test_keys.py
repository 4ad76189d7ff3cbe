"""Keys of a federation: TLS and signatures accept them, and no other."""

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedspd.deploy.setup.keys import Certificates, write_certificates, write_private_key
from fedspd.errors import InputError


def handshake(server: Certificates, authority: Path, host: str) -> None:
    """Connect to a server with these files as a client that trusts `authority` and wants `host`."""
    offering = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    offering.load_cert_chain(server.server, server.server_key)
    trusting = ssl.create_default_context(cafile=str(authority))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            try:
                offering.wrap_socket(theirs, server_side=True).close()
            except OSError:  # the client refused; it says why
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, trusting.wrap_socket(ours, server_hostname=host):
            pass
    finally:
        thread.join()


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_that_trusts_the_authority_accepts_the_server_under_each_of_its_names(
    tmp_path: Path, host: str
) -> None:
    files = write_certificates(tmp_path)
    handshake(files, files.authority, host)


def test_a_client_refuses_the_server_under_another_name(tmp_path: Path) -> None:
    files = write_certificates(tmp_path, hosts=("hospital.example",))
    handshake(files, files.authority, "hospital.example")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.1"):
        handshake(files, files.authority, "127.0.0.1")


def test_a_client_refuses_the_server_of_another_authority(tmp_path: Path) -> None:
    ours, theirs = write_certificates(tmp_path / "ours"), write_certificates(tmp_path / "theirs")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(theirs, ours.authority, "localhost")


def test_certificates_are_valid_for_a_year_from_now(tmp_path: Path) -> None:
    files = write_certificates(tmp_path)
    for file in (files.authority, files.server):
        left = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=364) < left <= timedelta(days=365)


def test_the_private_key_of_the_authority_is_never_written(tmp_path: Path) -> None:
    files = write_certificates(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([files.authority, files.server, files.server_key])
    assert files.server_key.read_bytes().count(b"BEGIN") == 1
    assert b"PRIVATE" not in files.authority.read_bytes() + files.server.read_bytes()


def test_private_keys_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    assert mode(write_certificates(tmp_path).server_key) == 0o600
    write_private_key(tmp_path / "site.key")
    assert mode(tmp_path / "site.key") == 0o600


def test_a_sites_key_is_on_the_curve_p384_in_openssh_form_and_every_one_is_another(tmp_path: Path) -> None:
    keys = []
    for name in ("a", "b"):
        write_private_key(tmp_path / name)
        keys.append(load_ssh_private_key((tmp_path / name).read_bytes(), password=None))
    for key in keys:
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert isinstance(key.curve, ec.SECP384R1)
    assert keys[0].private_numbers() != keys[1].private_numbers()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", ["ca.pem", "server.pem", "server.key"])
def test_a_certificate_file_that_exists_is_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError, match=name):
        write_certificates(tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "precious")]


def test_a_sites_key_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "site.key").write_text("precious")
    with pytest.raises(InputError, match=r"site\.key"):
        write_private_key(tmp_path / "site.key")
    assert (tmp_path / "site.key").read_text() == "precious"


def test_a_certificate_for_no_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="host"):
        write_certificates(tmp_path, hosts=())
