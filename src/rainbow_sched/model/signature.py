"""Signed jobs: an owner's own word on what may run, where and when, so that a stolen server cannot make it up.

The owner signs (Ed25519) a short statement: the digest of all that decides what runs, their name,
the clusters it may run on, a time window, how often, and a nonce. It travels with the job as text;
the agent of a site that asks for signatures checks it against the keys in a file of the site.
This module knows the statement and the file; `client/signing.py` signs, `agent/core/signatures.py` checks.
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

LONGEST = 90 * 86_400.0  # seconds for which a signature may be good
SKEW = 60.0  # seconds by which the clocks of owner and site may differ
CONTEXT = b"rainbow signed job 1\0"  # signed before the statement: the key's other signatures are never taken for one
KEY_TYPE = "ssh-ed25519"
_NONCE = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOB = b"\0\0\0\x0bssh-ed25519\0\0\0\x20"  # what comes before the 32 bytes in OpenSSH's form of a public key


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedStatement:
    """What an owner signs."""

    job: str  # `digest_of` what is to run
    owner: str
    clusters: tuple[str, ...]  # patterns
    array: str = ""  # which members there are, if it is an array
    not_before: float
    not_after: float
    nonce: str  # 32 hexadecimal digits, never used twice
    runs: int = 1  # how often it may be started at one site; of an array, each member

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.job) or not _NONCE.fullmatch(self.nonce):
            raise Invalid("a signed statement holds the digest of a job and a nonce")
        if not self.owner or not self.clusters or not 1 <= self.runs <= 1_000:
            raise Invalid("a signed statement names an owner, clusters, and 1 to 1000 runs")
        if not (math.isfinite(self.not_before) and 0 < self.not_after - self.not_before <= LONGEST):
            raise Invalid(f"a signature is good for more than no time and at most {LONGEST / 86_400:g} days")

    def to_bytes(self) -> bytes:
        """The one form in which it is signed."""
        return _compact(asdict(self))


def digest_of(spec: str, *, name: str, priority: int, labels: Mapping[str, object]) -> str:
    """The digest of all that decides what runs: the canonical request, and what a site's rules may look at."""
    said = {"labels": dict(labels), "name": name, "priority": priority, "spec": spec}
    return hashlib.sha256(_compact(said)).hexdigest()


def _compact(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def format_signature(body: bytes, signature: bytes) -> str:
    """A statement and its signature as the text that travels with the job."""
    return f"{_text(body)}.{_text(signature)}"


def parse_signature(text: str) -> tuple[SignedStatement, bytes, bytes]:
    """The statement in a signature's text, the bytes that were signed, and the signature. Nothing is checked yet."""
    first, dot, second = text.partition(".")
    if not dot:
        raise Denied("the job is not signed, and this site runs signed jobs only; submit it with --sign")
    body = _bytes(first)
    try:
        values = json.loads(body)
        statement = SignedStatement(**{**values, "clusters": tuple(values["clusters"])})
        same = statement.to_bytes() == body and _text(body) == first
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, Invalid):
        raise Denied("the job's signature cannot be read") from None
    if not same:
        raise Denied("the job's signature is not in its one form")
    return statement, body, _bytes(second)


def mismatch(statement: SignedStatement, *, owner: str, job: str, cluster: str, now: float) -> str | None:
    """Why a statement, well signed by `owner`, does not speak for this job, here and now; None: it does."""
    if statement.owner != owner:
        return f"the signature is for jobs of {statement.owner}, not of {owner}"
    if statement.job != job:
        return "the job is not the one that was signed"
    if not any(fnmatchcase(cluster, pattern) for pattern in statement.clusters):
        return f"the signature is for {', '.join(statement.clusters)}, not for {cluster}"
    if now < statement.not_before - SKEW:
        return "the signature is not good yet"
    if now >= statement.not_after + SKEW:
        return "the signature is not good any more; submit the job again"
    return None


def read_signers(text: str) -> dict[str, tuple[bytes, ...]]:
    """The public keys of each owner in a site's file: lines `OWNER ssh-ed25519 BASE64 [COMMENT]`, `#` begins a comment.

    It is the format of OpenSSH's allowed_signers with one name on a line and no options.
    """
    found: dict[str, tuple[bytes, ...]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        key = _bytes(words[2]) if len(words) > 2 and words[1] == KEY_TYPE else b""
        if len(key) != len(_BLOB) + 32 or not key.startswith(_BLOB):
            raise Invalid(f"write OWNER {KEY_TYPE} BASE64, as rainbow key show prints it", where=f"line {number}")
        found[words[0]] = (*found.get(words[0], ()), key[len(_BLOB) :])
    return found


def signer_line(owner: str, key: bytes) -> str:
    """The line of a site's file that names this public key as one of `owner`."""
    return f"{owner} {KEY_TYPE} {base64.b64encode(_BLOB + key).decode()}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
