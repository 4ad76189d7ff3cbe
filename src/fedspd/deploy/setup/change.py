"""Changes to a federation that stands: a site's key that arrives, a certificate that ends."""

import re
from pathlib import Path

from cryptography import x509

from fedspd.deploy.protocol.identity import read_public_key
from fedspd.deploy.server.settings import read_federation
from fedspd.deploy.setup.keys import LOOPBACK, write_certificates
from fedspd.deploy.setup.kit import members_text
from fedspd.errors import InputError

NEXT = "next"


def add_key(federation: Path, name: str, public: Path) -> str:
    """Enter a site's public key into federation.toml and members.toml; its fingerprint."""
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
    federation.write_text(place.sub(rf'\g<1>"{key.line}"', text), encoding="utf-8")
    seats = read_federation(federation).seats
    (federation.parent / "members.toml").write_text(members_text({seat.name: seat.key for seat in seats}))
    return key.fingerprint


def renew(federation: Path, hosts: tuple[str, ...]) -> Path:
    """A new authority and server certificate beside the old ones, and a ca.pem that trusts both; the sites get that.

    Guarantees:
        Nothing that is in use changes, so a running federation goes on.
    """
    settings = read_federation(federation)
    folder = (settings.home / settings.listen.certificate).parent
    if (folder / NEXT).exists():
        raise InputError(f"a next certificate is in {folder / NEXT} already; switch to it, or remove that folder.")
    names = _names(settings.home / settings.listen.certificate)
    files = write_certificates(folder / NEXT, tuple(dict.fromkeys([*hosts, *names, *LOOPBACK])))
    both = folder / NEXT / "both.pem"
    both.write_bytes((folder / "ca.pem").read_bytes() + files.authority.read_bytes())
    return both


def _names(certificate: Path) -> list[str]:
    """What the present certificate calls the server: the next one must not forget a name that sites use."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise InputError(f"expected the server's certificate at {certificate}, got '{error}'; restore it.") from None
    return [str(name.value) for name in names]


def switch(federation: Path) -> None:
    """Put the new certificate in the place of the old one; the server uses it from its next start on."""
    settings = read_federation(federation)
    certificate, key = settings.home / settings.listen.certificate, settings.home / settings.listen.key
    new = certificate.parent / NEXT
    if not (new / "both.pem").exists():
        raise InputError(f"expected a new certificate in {new}, got none; make it first, with `fedspd deploy renew`.")
    (new / "server.key").replace(key)
    (new / "server.pem").replace(certificate)
    (new / "ca.pem").replace(certificate.parent / "ca.pem")
    (new / "both.pem").unlink()
    new.rmdir()
