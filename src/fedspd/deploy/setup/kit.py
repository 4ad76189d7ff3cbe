"""The archive that a site takes home: exactly the files named here, and nothing of any other site."""

import io
import os
import tarfile
import time
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fedspd.deploy.protocol.identity import Members
from fedspd.deploy.setup.keys import new_key
from fedspd.errors import InputError

FILES = (
    "site.toml",
    "schema.toml",
    "members.toml",
    "ca.pem",
    "site.key",
    "records.csv",
    "HOWTO.md",
    "fedspd-site.service",
)
"""All that may be in an archive; a site that makes its own key has none, and records are there for Adult only."""
SECRET = ("site.key", "records.csv")


@dataclass
class Kit:
    """What all sites' archives share, and the keys that were made for them."""

    address: str
    authority: bytes
    schema: str
    epsilon: float
    delta: float
    clip_norm: float
    row_norm: float
    own_key: bool
    records: bytes | None = None
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)

    def new_key(self, name: str) -> str:
        """A key for a site: its private half goes into the archive and nowhere else; the line of its public half."""
        key = new_key()
        self.keys[name] = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def write_kit(folder: Path, kit: Kit, name: str, members: str | None) -> Path:
    """Write a site's archive, readable by its owner alone."""
    values = {
        "name": name, "address": kit.address, "epsilon": kit.epsilon, "delta": kit.delta, "clip_norm": kit.clip_norm,
        "row_norm": kit.row_norm,
    }  # fmt: skip
    contents = {
        "site.toml": template("site.toml", **values).encode(),
        "schema.toml": kit.schema.encode(),
        "members.toml": None if members is None else members.encode(),
        "ca.pem": kit.authority,
        "site.key": kit.keys.get(name),
        "records.csv": kit.records,
        "HOWTO.md": template("HOWTO.md", **values).encode(),
        "fedspd-site.service": template("fedspd-site.service", **values).encode(),
    }
    target = folder / f"{name}.tar.gz"
    try:
        with open(target, "xb", opener=_owner_only) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for each in FILES:
                content = contents[each]
                if content is not None:
                    archive.addfile(_entry(f"{name}/{each}", len(content), each in SECRET), io.BytesIO(content))
    except OSError as error:
        raise InputError(f"expected a place for {target}, got: {error.strerror}; name another folder.") from None
    return target


def members_text(members: Members) -> str:
    """The public keys of all sites, as every site has them, and the threshold where there are enough of them."""
    head = "# The sites of this federation and their public keys. Compare all of it by phone, not by mail.\n"
    if members.threshold:
        head += (
            f"\nthreshold = {members.threshold}  # of masked runs: fewer sites are never summed\n"
            f"colluders = {members.colluders}  # so many sites may tell the server all they know, and no more\n"
        )
    several = len(set(members.cohorts)) > 1
    for name, key in members.items():
        head += f'\n[[site]]\nname = "{name}"\nkey = "{key.line}"\n'
        if several:
            head += f"cohort = {members.cohort(name)}  # whose members are summed together, and with nobody else\n"
    return head


def template(file: str, /, **values: object) -> str:
    """A file of this package's `files` folder, with its blanks filled in."""
    text = (files("fedspd.deploy.setup") / "files" / file).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def _entry(name: str, size: int, secret: bool) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600 if secret else 0o644, int(time.time())
    return entry


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
