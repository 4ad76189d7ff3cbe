"""Keys of a federation whose operators have no certificate authority of their own.

The server shows a certificate, which every site checks against the authority's; each site signs its requests with its
own key, whose public half stands in federation.toml. Who has an authority uses its certificates instead of
`write_certificates`.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedspd.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost")
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST = re.compile(rf"(?=.{{1,253}}\Z)({LABEL}\.)*(?=.*[A-Za-z-]){LABEL}")  # the last part is no number
CLOCK_SKEW = timedelta(hours=1)  # machines of a federation do not agree on the time to the second
NOT_A_USE = dict.fromkeys(
    ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"],
    False,
)


@dataclass(frozen=True)
class Certificates:
    """Files of the TLS connection: everyone gets `authority`, only the server's machine keeps the other two."""

    authority: Path
    server: Path
    server_key: Path


def write_certificates(folder: Path, hosts: Sequence[str] = LOOPBACK, days: int = 365) -> Certificates:
    """Write an authority's certificate and a server certificate for `hosts` (names or addresses) signed by it.

    Guarantees:
        The authority's private key is never written: nobody can sign another certificate with it later.
        The server's private key is readable by its owner alone.
        A file that exists is never overwritten.
    """
    if not hosts:
        raise InputError("a server certificate needs at least one host name or address, got none; name the server's.")
    files = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    _refuse_existing(files.authority, files.server, files.server_key)
    authority_key, server_key = new_key(), new_key()
    authority = _sign(_authority(authority_key, days), authority_key)
    server = _sign(_server(server_key, authority, authority_key, hosts, days), authority_key)
    folder.mkdir(parents=True, exist_ok=True)
    _write(files.server_key, server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    _write(files.authority, authority.public_bytes(Encoding.PEM), 0o644)
    _write(files.server, server.public_bytes(Encoding.PEM), 0o644)
    return files


def write_private_key(file: Path) -> None:
    """Write a site's private key in OpenSSH's form, on the curve P-384.

    Guarantees:
        The file is readable by its owner alone. One that exists is never overwritten.
    """
    _refuse_existing(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"expected a place for the key {file}, got: {error.strerror}; name another one.") from None
    _write(file, new_key().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), 0o600)


def check_host(host: str) -> None:
    """Refuse what cannot be a server's name or address."""
    try:
        ip_address(host)
        fits = "%" not in host  # a scope means something on one machine only
    except ValueError:
        fits = HOST.fullmatch(host) is not None
    if not fits:
        raise InputError(
            f"expected a host: an IP address or a name of ASCII letters, digits, dots and hyphens, got {host!r}; "
            "change --host, and write other alphabets in their xn-- form."
        )


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key on the curve P-384."""
    return ec.generate_private_key(ec.SECP384R1())


def _authority(key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedspd federation")])
    usage = x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **NOT_A_USE)
    return (
        _certificate(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )


def _server(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    days: int,
) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedspd server")])
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **NOT_A_USE)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _certificate(name, authority.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _sign(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return builder.sign(key, hashes.SHA384())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _refuse_existing(*files: Path) -> None:
    for file in files:
        if os.path.lexists(file):
            raise InputError(
                f"keys are written to new files only, but {file} exists; name another folder or remove it."
            )


def _write(file: Path, content: bytes, mode: int) -> None:
    # O_EXCL refuses a file that appeared since the check; the mode is set before anything is in the file.
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise InputError(f"expected a place for {file}, got: {error.strerror}; name another one.") from None
    try:
        with os.fdopen(opened, "wb") as stream:
            stream.write(content)
    except BaseException:
        file.unlink()  # half a key would be taken for one that was spoiled
        raise
