"""Signed jobs: the owner signs what may run, where and when, so that a compromised server cannot forge jobs.

The owner signs (Ed25519) a short statement: the digest of the job, the owner's name, the allowed
clusters, a time window, the number of runs, and a nonce. It is sent with the job as text; the agent of
a site that requires signatures checks it against the site's file of public keys.
This module defines the statement and the file; `client/signatures.py` signs, `agent/runtime/site_rules.py` checks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from rainbow_sched.model.errors import Denied, Invalid

MAX_VALIDITY_SECONDS = 90 * 86_400.0  # 90 days; bounds how long a signed statement can be used
MAX_SKEW_SECONDS = 60.0  # difference between the clocks of owner and site
CONTEXT = b"rainbow signed job 1\0"  # signed before the statement, so that no other signature is accepted
KEY_TYPE = "ssh-ed25519"
_NONCE = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOB = b"\0\0\0\x0bssh-ed25519\0\0\0\x20"  # prefix of the 32 bytes in OpenSSH's encoding of a public key


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedStatement:
    """The statement that an owner signs."""

    job: str  # result of `digest_of`
    owner: str
    clusters: tuple[str, ...]  # patterns
    array: str = ""  # the members of an array
    not_before: float
    not_after: float
    nonce: str  # 32 hexadecimal digits, never used twice
    runs: int = 1  # maximum number of starts at one site, per array member

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.job) or not _NONCE.fullmatch(self.nonce):
            raise Invalid("a signed statement must hold the digest of a job and a nonce")
        if not self.owner or not self.clusters or not 1 <= self.runs <= 1_000:
            raise Invalid("a signed statement must name an owner, clusters, and 1 to 1000 runs")
        if not (math.isfinite(self.not_before) and 0 < self.not_after - self.not_before <= MAX_VALIDITY_SECONDS):
            days = MAX_VALIDITY_SECONDS / 86_400
            raise Invalid(f"a signature must be valid for more than 0 and at most {days:g} days")

    def to_bytes(self) -> bytes:
        """Return the canonical encoding, which is signed."""
        return _compact(asdict(self))


def digest_of(spec: str, *, name: str, priority: int, labels: Mapping[str, object]) -> str:
    """Return the digest of the canonical request and of the fields that a site's rules may use."""
    values = {"labels": dict(labels), "name": name, "priority": priority, "spec": spec}
    return hashlib.sha256(_compact(values)).hexdigest()


def _compact(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def format_signature(body: bytes, signature: bytes) -> str:
    """Return a statement and its signature as the text that is sent with the job."""
    return f"{_text(body)}.{_text(signature)}"


def parse_signature(text: str) -> tuple[SignedStatement, bytes, bytes]:
    """Return the statement, the signed bytes and the signature, not verified; raise `Denied` if unreadable."""
    first, dot, second = text.partition(".")
    if not dot:
        raise Denied("the job is not signed, and this site runs only signed jobs; submit it with --sign")
    body = _bytes(first)
    try:
        values = json.loads(body)
        statement = SignedStatement(**{**values, "clusters": tuple(values["clusters"])})
        same = statement.to_bytes() == body and _text(body) == first
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, Invalid):
        raise Denied("the job's signature cannot be read") from None
    if not same:
        raise Denied("the job's signature is not in canonical form")
    return statement, body, _bytes(second)


def mismatch(statement: SignedStatement, *, owner: str, job: str, cluster: str, now: float) -> str | None:
    """Return why a statement with a valid signature by `owner` does not cover this job now; None if it does."""
    if statement.owner != owner:
        return f"the signature is for jobs of {statement.owner}, not of {owner}"
    if statement.job != job:
        return "the job is not the one that was signed"
    if not any(fnmatchcase(cluster, pattern) for pattern in statement.clusters):
        return f"the signature is for {', '.join(statement.clusters)}, not for {cluster}"
    if now < statement.not_before - MAX_SKEW_SECONDS:
        return "the signature is not valid yet"
    if now >= statement.not_after + MAX_SKEW_SECONDS:
        return "the signature has expired; submit the job again"
    return None


def read_signers(text: str) -> dict[str, tuple[bytes, ...]]:
    """Return the public keys of each owner in a site's file: lines `OWNER ssh-ed25519 BASE64 [COMMENT]`.

    This is OpenSSH's allowed_signers format with one name per line and no options; `#` begins a comment.
    """
    signers: dict[str, tuple[bytes, ...]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        key = _bytes(words[2]) if len(words) > 2 and words[1] == KEY_TYPE else b""
        if len(key) != len(_BLOB) + 32 or not key.startswith(_BLOB):
            raise Invalid(f"write OWNER {KEY_TYPE} BASE64, as rainbow key show prints it", where=f"line {number}")
        signers[words[0]] = (*signers.get(words[0], ()), key[len(_BLOB) :])
    return signers


def signer_line(owner: str, key: bytes) -> str:
    """Return the line of a site's file that lists this public key for `owner`."""
    return f"{owner} {KEY_TYPE} {base64.b64encode(_BLOB + key).decode()}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
