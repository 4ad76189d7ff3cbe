"""Changes to a federation that stands: a site's key that arrives, a certificate that ends."""

import re
import ssl
import stat
import tomllib
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from fedspd.deploy.protocol.identity import read_public_key
from fedspd.deploy.server.settings import parse_federation, read_federation
from fedspd.deploy.setup.init import drafted
from fedspd.deploy.setup.keys import LOOPBACK, check_host, write_certificates
from fedspd.deploy.setup.kit import members_text
from fedspd.errors import InputError
from fedspd.results import write_whole

NEXT = "next"


def add_key(federation: Path, name: str, public: Path) -> str:
    """Enter a site's public key into federation.toml and members.toml; its fingerprint.

    Guarantees:
        A key that the federation cannot have changes nothing, nor does a disk without room.
    """
    settings = read_federation(federation)
    if name not in {seat.name for seat in settings.seats}:
        raise InputError(f'expected a [[site]] named {name!r} in {federation}, got none; add it with `key = ""`.')
    try:
        key = read_public_key(public.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected the site's public key at {public}, got '{error}'; name its .pub file.") from None
    text = federation.read_text(encoding="utf-8")
    place = re.compile(rf'(\[\[site\]\]\s*\nname = "{re.escape(name)}"\s*\nkey = )"[^"]*"')
    if len(place.findall(text)) != 1:
        raise InputError(
            f"expected `name` and `key` in the first two lines of the [[site]] of {name!r} in {federation}, got "
            "another order; enter the key by hand."
        )
    entered = place.sub(rf'\g<1>"{key.line}"', text)
    members = parse_federation(tomllib.loads(entered), settings.home).members
    _replace(federation.resolve(), entered)
    _replace(settings.home / "members.toml", members_text(members))
    return key.fingerprint


def write_members(federation: Path) -> Path:
    """The federation's file for its sites, written anew: after threshold, colluders or cohorts have changed."""
    settings = read_federation(federation)
    path = settings.home / "members.toml"
    _replace(path, members_text(settings.members))
    return path


def _replace(path: Path, text: str) -> None:
    """Write a file anew, whole or not at all, with the mode it had."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    try:
        write_whole(path, text.encode(), durable=True, mode=0o600)
        path.chmod(mode)
    except OSError as error:
        raise InputError(f"expected to write {path}, got: {error.strerror}; mend that, and say it again.") from None


def renew(federation: Path, hosts: tuple[str, ...]) -> Path:
    """A new authority and server certificate beside the old ones, and a ca.pem that trusts both; the sites get that.

    Guarantees:
        Nothing that is in use changes, so a running federation goes on.
    """
    for host in hosts:
        check_host(host)
    settings = read_federation(federation)
    folder = (settings.home / settings.listen.certificate).parent
    if (folder / NEXT).exists():
        raise InputError(f"a next certificate is in {folder / NEXT} already; switch to it, or remove that folder.")
    names = _names(settings.home / settings.listen.certificate)
    try:
        present = (folder / "ca.pem").read_bytes()
        x509.load_pem_x509_certificates(present)
    except (OSError, ValueError) as error:
        raise InputError(
            f"expected the authority's certificate at {folder / 'ca.pem'}, got '{error}'; restore it."
        ) from None
    with drafted(folder / NEXT) as draft:
        files = write_certificates(draft, tuple(dict.fromkeys([*hosts, *names, *LOOPBACK])))
        (draft / "both.pem").write_bytes(present + files.authority.read_bytes())
    return folder / NEXT / "both.pem"


def _names(certificate: Path) -> list[str]:
    """What the present certificate calls the server: the next one must not forget a name that sites use."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise InputError(f"expected the server's certificate at {certificate}, got '{error}'; restore it.") from None
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def switch(federation: Path) -> None:
    """Put the new certificate in the place of the old one; the server uses it from its next start on.

    Guarantees:
        Where a file is missing or does not fit, nothing is moved.
        A switch that was cut off goes on when it is said again.
    """
    settings = read_federation(federation)
    certificate, key = settings.home / settings.listen.certificate, settings.home / settings.listen.key
    new = certificate.parent / NEXT
    if not (new / "both.pem").exists():
        raise InputError(f"expected a new certificate in {new}, got none; make it first, with `fedspd deploy renew`.")
    moves = {new / "server.key": key, new / "server.pem": certificate, new / "ca.pem": certificate.parent / "ca.pem"}
    at_end_key, at_end_certificate, authority = (file if file.exists() else target for file, target in moves.items())
    try:
        _require_pair(at_end_certificate, at_end_key, authority)
    except (OSError, ValueError) as error:
        raise InputError(
            f"expected a new key, its certificate and its authority's in {new}, got '{error}'; remove that folder and "
            "make it anew, with `fedspd deploy renew`."
        ) from None
    for file, target in moves.items():
        if file.exists():  # else it was moved before
            file.replace(target)
    (new / "both.pem").unlink()
    new.rmdir()


def _require_pair(certificate: Path, key: Path, authority: Path) -> None:
    """Refuse files that no server could be started with, or that no site would believe."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    shown = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        shown.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.read_bytes()))
    except InvalidSignature:
        raise ValueError("a certificate that another authority signed") from None
