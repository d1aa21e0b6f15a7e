"""Sign jobs with the user's Ed25519 key, and store the key in a private file."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rainbow_sched.client.config import user_path
from rainbow_sched.client.private_files import check_private, write_whole
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.model.errors import AlreadyExists, Invalid, NotFound
from rainbow_sched.model.signature import CONTEXT, MAX_VALIDITY_SECONDS, SignedStatement, digest_of, format_signature

if TYPE_CHECKING:  # not every client signs
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VALIDITY_SECONDS = 7 * 86_400.0  # seven days, from the start time, for a job without a deadline
MAX_KEY_BYTES = 16 * 1024  # more than a key needs; bounds the memory for a wrong file


def key_path(named: str | None, environment: Mapping[str, str]) -> Path:
    """Return the path of the signing key: `named`, else beside the user's config file."""
    return Path(named).expanduser() if named else user_path(environment).parent / "signing-key"


def create_key(path: Path) -> None:
    """Write a new key to `path`; raise AlreadyExists if there is one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if path.exists():
        raise AlreadyExists(f"{path} already exists; show it with: rainbow key show, or name another file")
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    write_whole(path, text)


def load_key(path: Path) -> Ed25519PrivateKey:
    """Return the key in a file in OpenSSH's format, without a passphrase."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    if not path.exists():
        raise NotFound(f"there is no signing key {path}; create one with: rainbow key create")
    check_private(path)
    with path.open("rb") as file:
        data = file.read(MAX_KEY_BYTES)
    try:
        key = load_ssh_private_key(data, password=None)
    except (ValueError, TypeError, OSError):
        raise Invalid(f"{path} is not a key in OpenSSH's format, or it has a passphrase") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Invalid(f"{path} is not an Ed25519 key; jobs are signed with Ed25519")
    return key


def signed(submission: JobSubmission, key: Ed25519PrivateKey, owner: str, now: float) -> JobSubmission:
    """Return the submission with its owner's signature over what runs, where, when and how often."""
    if not submission.canonical:
        raise Invalid("only a canonical request can be signed; the server interprets a text")
    terms = submission.terms
    begin = max(now, terms.start_after or now)
    end = begin + VALIDITY_SECONDS if terms.deadline is None else min(terms.deadline, begin + MAX_VALIDITY_SECONDS)
    statement = SignedStatement(
        job=digest_of(submission.canonical, name=submission.name, priority=terms.priority, labels=terms.labels),
        owner=owner,
        clusters=terms.only_clusters or ("*",),
        array=submission.array,
        not_before=begin,
        not_after=end,
        nonce=secrets.token_hex(16),
        runs=terms.runs,
    )
    body = statement.to_bytes()
    return replace(submission, terms=replace(terms, signature=format_signature(body, key.sign(CONTEXT + body))))
