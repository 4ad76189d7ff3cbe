"""Who is who: a site's long-term key, what it signs, and the federation's file that binds names to keys.

Keys are ECDSA keys on the curve P-384 in OpenSSH's form, as `fedspd deploy join` makes them. The same key authenticates
the site's connection.
"""

import base64
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedspd.errors import InputError
from fedspd.reading import read_toml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")  # of a site: it stands in logs, ledgers, reports and paths
SCHEME = ec.ECDSA(hashes.SHA384())
MAKE_ONE = "make one by `fedspd deploy join`"
SMALLEST_GROUP = 3  # of two, each knows the other's part


@dataclass(frozen=True)
class PublicKey:
    """The public half of a site's key; `read_public_key` makes one."""

    line: str  # as OpenSSH writes it, without a comment

    @cached_property
    def _key(self) -> ec.EllipticCurvePublicKey:
        key = load_ssh_public_key(self.line.encode())
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return key

    @property
    def fingerprint(self) -> str:
        """What people compare, as `ssh-keygen -l` prints it."""
        blob = base64.b64decode(self.line.split()[1])
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")

    @property
    def raw(self) -> bytes:
        """The key as Flower keeps it."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verify(self, signature: bytes, purpose: str, *parts: bytes) -> bool:
        """Whether the key's owner has signed these parts for this purpose."""
        try:
            self._key.verify(signature, _statement(purpose, parts), SCHEME)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Identity:
    """A site's private key; `read_identity` reads one."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @cached_property
    def public(self) -> PublicKey:
        """Its public half."""
        return _public(self.key.public_key())

    def sign(self, purpose: str, *parts: bytes) -> bytes:
        """A signature of these parts for this purpose, good for no other."""
        return self.key.sign(_statement(purpose, parts), SCHEME)


def read_identity(path: Path) -> Identity:
    """A site's private key; refuses a file that others can read."""
    try:
        with path.open("rb") as file:
            mode, content = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read()
    except OSError as error:
        raise InputError(f"expected the site's private key at {path}, got: {error.strerror}; {MAKE_ONE}.") from None
    if mode & 0o077:
        raise InputError(
            f"the private key {path} must be readable by its owner alone, got mode {mode:o}; "
            "make a new one if others may have read it, else `chmod 600` it."
        )
    try:
        key: Any = load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise InputError(
            f"expected an OpenSSH private key on the curve P-384 without a passphrase at {path}, got another content; "
            f"{MAKE_ONE}."
        )
    return Identity(key)


def read_public_key(line: str) -> PublicKey:
    """A public key from its line in OpenSSH's form; a comment after it is dropped."""
    try:
        key: Any = load_ssh_public_key(line.strip().encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise InputError(
            "expected a public key that begins with 'ecdsa-sha2-nistp384', got another text; "
            "take the line that the site's operator has sent."
        )
    return _public(key)


class Members(Mapping[str, PublicKey]):
    """The sites of a federation and their public keys, in the order of its file.

    Args:
        sites: their names and keys.
        threshold: fewest sites in a masked sum; 0: none is said, and nothing is masked.
        colluders: most sites that may tell a server all they know, and no sum of fewer is learned.
        cohorts: of each site its cohort, from 1, where there are several; both numbers are then of each cohort.

    Guarantees:
        Names are short, printable and distinct; no two sites have the same key.
        Of any two sets of a cohort with as many signatures as the threshold, one honest site has signed both.
    """

    def __init__(
        self,
        sites: Iterable[tuple[str, PublicKey]],
        threshold: int = 0,
        colluders: int = 0,
        cohorts: Mapping[str, int] | None = None,
    ) -> None:
        self._sites: dict[str, PublicKey] = {}
        self.threshold, self.colluders = threshold, colluders
        owners: dict[PublicKey, str] = {}
        for name, key in sites:
            check_name(name)
            if name in self._sites:
                raise InputError(f"each site must have a name of its own, got {name!r} twice; rename one.")
            if key in owners:
                raise InputError(
                    f"each site must have a key of its own, got one key for {owners[key]!r} and {name!r}; {MAKE_ONE}."
                )
            self._sites[name] = key
            owners[key] = name
        self._cohorts = dict(cohorts or {})
        if self._cohorts and (self._cohorts.keys() != self._sites.keys() or set(self._cohorts.values()) == {1}):
            raise InputError("every site must have a cohort, of several, or none, got some; name the cohort of each.")
        if threshold or colluders:
            for size in Counter(self.cohorts).values():
                _check_threshold(size, threshold, colluders)

    @property
    def cohorts(self) -> tuple[int, ...]:
        """Of each site, in their order, its cohort; all the same where there is one."""
        return tuple(self.cohort(name) for name in self._sites)

    def cohort(self, name: str) -> int:
        """In which cohort a site is summed."""
        return self._cohorts.get(name, 1)

    def __getitem__(self, name: str) -> PublicKey:
        return self._sites[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def __repr__(self) -> str:
        return f"Members({', '.join(self._sites)})"


def check_name(name: Any, what: str = "a site's name") -> None:
    """Refuse what cannot be a site's name, nor that of anything else that stands beside them."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"{what} must be 1 to 60 letters, digits, dots, hyphens or underscores, and begin with a letter or digit, "
            f"got {name!r}; rename it."
        )


def read_members(path: Path) -> Members:
    """The federation's file: a [[site]] table for each site, with its name and key, and a threshold for masked runs."""
    values = read_toml(path, "the federation's file", "ask the server's operator for it.")
    tables, numbers = values.get("site"), [values.get(name, 0) for name in ("threshold", "colluders")]
    if any(type(number) is not int for number in numbers):
        raise InputError(f"{path}: threshold and colluders must be whole numbers, got {numbers}; mend them.")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path} must have a [[site]] table for each site, got none; add them.")
    try:
        found = {table.get("name"): table["cohort"] for table in tables if "cohort" in table}
        if any(type(number) is not int or number < 1 for number in found.values()):
            raise InputError("the cohort of a site must be a whole number from 1, got another; mend it.")
        return Members([_member(table) for table in tables], numbers[0], numbers[1], found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_threshold(members: int, threshold: int, colluders: int) -> None:
    """Refuse a threshold under which a server could show two sets of survivors to two parts of the sites."""
    if not (
        0 <= colluders < threshold <= members and threshold >= SMALLEST_GROUP and 2 * threshold > members + colluders
    ):
        fewest = max(SMALLEST_GROUP, (members + max(colluders, 0)) // 2 + 1)
        raise InputError(
            f"twice the threshold must be more than the {members} sites plus the colluders, got threshold {threshold} "
            f"and colluders {colluders}; with so many colluders it is from {fewest} to {members}."
        )


def _member(table: dict[str, Any]) -> tuple[str, PublicKey]:
    name, line = table.get("name"), table.get("key")
    check_name(name)
    if not isinstance(name, str) or not isinstance(line, str):
        raise InputError(
            f"each site must have a name and a key, got no key for {name!r}; add the line that its operator has sent."
        )
    return name, read_public_key(line)


def _public(key: ec.EllipticCurvePublicKey) -> PublicKey:
    return PublicKey(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())


def _statement(purpose: str, parts: Iterable[bytes]) -> bytes:
    """What is signed: each piece after its length, so that no two lists of pieces give the same bytes."""
    pieces = (b"fedspd", purpose.encode(), *parts)
    return b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)
