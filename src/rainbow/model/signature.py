"""Signed jobs: an owner's own word on what may run, where and when, so that a stolen server cannot make it up.

The owner signs (Ed25519) a short statement: the digest of the canonical request, their name, the
clusters it may run on, a time window, how often, and a nonce. It travels with the job as text;
the agent of a site that asks for signatures checks it against the keys in a file of the site.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rainbow.model.errors import Denied, Invalid

LABEL = "rainbow.signature"  # the label under which a signature travels with its job
MAX_TEXT = 4_096
LONGEST = 30 * 86_400.0  # seconds for which a signature may be good
_CONTEXT = b"rainbow signed job 1\0"
_NONCE = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")

Keys = Mapping[str, Sequence[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What an owner signs."""

    spec: str  # SHA-256 of the canonical request, hexadecimal
    owner: str
    clusters: tuple[str, ...]  # patterns
    not_before: float
    not_after: float
    nonce: str  # 32 hexadecimal digits, never used twice
    runs: int = 1  # how often it may be started

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.spec) or not _NONCE.fullmatch(self.nonce):
            raise Invalid("a signed statement holds the digest of a request and a nonce")
        if not self.owner or not self.clusters or not 1 <= self.runs <= 1_000:
            raise Invalid("a signed statement names an owner, clusters, and 1 to 1000 runs")
        if not (math.isfinite(self.not_before) and 0 < self.not_after - self.not_before <= LONGEST):
            raise Invalid(f"a signature is good for at most {LONGEST / 86_400:g} days")

    def to_bytes(self) -> bytes:
        """The one form in which it is signed."""
        values = {
            "clusters": list(self.clusters),
            "not_after": self.not_after,
            "not_before": self.not_before,
            "nonce": self.nonce,
            "owner": self.owner,
            "runs": self.runs,
            "spec": self.spec,
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def digest_of(spec: str) -> str:
    """The digest of a request's canonical JSON."""
    return hashlib.sha256(spec.encode()).hexdigest()


def sign(statement: Statement, key: bytes) -> str:
    """The signed statement as text; `key` is the 32 bytes of an Ed25519 private key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # not every client signs

    body = statement.to_bytes()
    signature = Ed25519PrivateKey.from_private_bytes(key).sign(_CONTEXT + body)
    return f"{_text(body)}.{_text(signature)}"


def verify(text: str, *, spec: str, owner: str, cluster: str, now: float, keys: Keys, used: int = 0) -> Statement:
    """The statement behind a job, if the job is what its owner signed; Denied with the reason if not.

    `keys` are the public keys (32 bytes) of each owner, from the site's own file. `used` is how
    often this site has started something under the statement's nonce; keep that count for as
    long as `not_after` is ahead.
    """
    body, signature = _parts(text)
    statement = _statement(body)
    if not any(_signed(key, body, signature) for key in keys.get(owner, ())):
        raise Denied(f"the job is not signed with a key that this site knows of {owner}")
    if statement.owner != owner:
        raise Denied(f"the signature is for jobs of {statement.owner}, not of {owner}")
    if statement.spec != digest_of(spec):
        raise Denied("the job is not the one that was signed")
    if not any(fnmatchcase(cluster, pattern) for pattern in statement.clusters):
        raise Denied(f"the signature is for {', '.join(statement.clusters)}, not for {cluster}")
    if not statement.not_before <= now < statement.not_after:
        raise Denied("the signature is not good at this time")
    if used >= statement.runs:
        raise Denied(f"the signature allows {statement.runs} runs, and they were had")
    return statement


def nonce_of(text: str) -> str:
    """The nonce of a signed statement that is not checked yet, to look up how often it was used."""
    return _statement(_parts(text)[0]).nonce


def read_keys(text: str) -> dict[str, tuple[bytes, ...]]:
    """The keys in a site's file: one line `OWNER ed25519 BASE64` for each, `#` begins a comment."""
    found: dict[str, tuple[bytes, ...]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        key = _bytes(words[2]) if len(words) == 3 and words[1] == "ed25519" else b""
        if len(key) != 32:
            raise Invalid("write OWNER ed25519 BASE64 (32 bytes)", where=f"line {number}")
        found[words[0]] = (*found.get(words[0], ()), key)
    return found


def _signed(key: bytes, body: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _CONTEXT + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def _parts(text: str) -> tuple[bytes, bytes]:
    first, dot, second = text.partition(".")
    if not dot or len(text) > MAX_TEXT:
        raise Denied("the job carries no signature; this site runs signed jobs only")
    return _bytes(first), _bytes(second)


def _statement(body: bytes) -> Statement:
    try:
        values = json.loads(body)
        made = Statement(
            spec=values["spec"],
            owner=values["owner"],
            clusters=tuple(values["clusters"]),
            not_before=float(values["not_before"]),
            not_after=float(values["not_after"]),
            nonce=values["nonce"],
            runs=values["runs"],
        )
        same = made.to_bytes() == body
    except (ValueError, KeyError, TypeError, RecursionError, Invalid, OverflowError):
        raise Denied("the job's signature cannot be read") from None
    if not same:
        raise Denied("the job's signature is not in its one form")
    return made


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
