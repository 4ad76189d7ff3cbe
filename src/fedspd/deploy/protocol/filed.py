"""A statement that is signed: by a site's long-term key, over the file's bytes and the head of its ledger."""

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from fedspd.deploy.protocol.identity import Identity, PublicKey, read_public_key
from fedspd.errors import InputError
from fedspd.results import STATEMENT, own_file, read_statement, to_json, write_whole
from fedspd.results.statement import SIGNATURE

PURPOSE = "statement"


def sign_statement(folder: Path, identity: Identity) -> str:
    """Sign the statement of a run's folder; the signature lies beside it. Returns the key's fingerprint."""
    signature = identity.sign(PURPOSE, *_parts(folder))
    content = {"key": identity.public.line, "signature": base64.b64encode(signature).decode()}
    write_whole(folder / SIGNATURE, (to_json(content) + "\n").encode())
    return identity.public.fingerprint


def verify_statement(folder: Path, key: PublicKey) -> None:
    """Refuse a statement that the owner of the key has not signed, or that was changed since."""
    path = own_file(folder, SIGNATURE)
    try:
        content: Any = json.loads(path.read_text("utf-8"))
        line, signature = str(content["key"]), base64.b64decode(content["signature"], validate=True)
    except FileNotFoundError:
        raise InputError(
            f"expected a signed statement in {folder}, got no {SIGNATURE}; sign it with --sign KEY."
        ) from None
    except (OSError, ValueError, TypeError, LookupError, RecursionError, binascii.Error) as error:
        raise InputError(f"{path} must be a signature as --sign writes it, got: {error}; restore it.") from error
    if not key.verify(signature, PURPOSE, *_parts(folder)):
        raise InputError(
            f"expected {folder / STATEMENT} as the owner of {key.fingerprint} signed it, got {_other(line, key)}; "
            "restore it, or ask who signed it."
        )


def public_key(text: str) -> PublicKey:
    """A public key by its line, or by the file that has it."""
    path = Path(text)
    try:
        return read_public_key(path.read_text("utf-8") if path.is_file() else text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a public key in {path}, got: {error}; name the file with the key's line.") from None


def _parts(folder: Path) -> tuple[bytes, bytes]:
    """What is signed: the file as it lies there, and the head that it names."""
    statement = read_statement(folder)
    head = "" if statement["ledger"] is None else statement["ledger"]["head"]
    return own_file(folder, STATEMENT).read_bytes(), head.encode()


def _other(line: str, key: PublicKey) -> str:
    try:
        signer = read_public_key(line)
    except InputError:
        return "a signature without a key"
    return "another text" if signer == key else f"a signature by {signer.fingerprint}"
