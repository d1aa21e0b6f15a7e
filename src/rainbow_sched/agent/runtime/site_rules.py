"""Rules of a site for the jobs that its agent accepts: users, the `--accept` filter, and signatures of the users.

Each use of a signature is written to disk before the job starts. A signature that is used up is refused until it
expires.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rainbow_sched.agent.runtime.journal import append, line, parse
from rainbow_sched.client.private_files import write_whole
from rainbow_sched.jobspecs.reading.counts import ARRAY_LABEL, array_indices
from rainbow_sched.model.errors import Denied, Invalid, RainbowError
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request
from rainbow_sched.model.signature import CONTEXT, SignedStatement, digest_of, mismatch, parse_signature, read_signers
from rainbow_sched.protocol.messages import Offer, parsed_terms
from rainbow_sched.selection.expressions import EvaluationError, Expression, MissingVariable, compile_expression
from rainbow_sched.selection.job_filter import holds, variables

JOB_VARIABLES = ("nodes", "cores", "gpus", "duration", "owner", "name", "priority")
USED_FILE = "signatures"
KEEP_SECONDS = 86_400.0  # seconds beyond its expiry for which a used signature is kept, in case a clock is set back
MAX_SIGNERS_BYTES = 1 << 20  # bounds the memory for the file of signers
Use = tuple[str, int | None]  # nonce and array index


def job_expression(option: str, text: str) -> Expression:
    """Compile `--accept` or `--order`; raise Invalid for an unknown job variable."""
    found = compile_expression(text)
    for name in sorted(found.names):
        if name not in JOB_VARIABLES and not name.startswith("labels."):
            hint = did_you_mean(name, (*JOB_VARIABLES, "labels.KEY"))
            raise Invalid(f"{option}: jobs have no variable {name!r}{hint}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules:
    """Rules for offers, checked on the cluster whatever the server sends."""

    accept: Expression | None = None
    allow: frozenset[str] | None = None  # None: all users
    signatures: SignatureChecker | None = None  # None: not checked

    def refuses(self, offer: Offer, request: Request) -> str | None:
        """Return why the offer is rejected, or None."""
        reason = self._refuses_job(offer, request)
        return self.signatures.refuses(offer) if reason is None and self.signatures is not None else reason

    def _refuses_job(self, offer: Offer, request: Request) -> str | None:
        if self.allow is not None and self.allow.isdisjoint((offer.owner, offer.owner.removeprefix("user:"))):
            return f"this site runs no jobs of {offer.owner or 'an unknown user'}"
        if self.accept is None:
            return None
        only = f"this site takes only jobs with {self.accept.text}"
        labels = _labels(parsed_terms(offer.terms))
        try:
            job = variables(request, owner=offer.owner, name=offer.name, priority=offer.priority, labels=labels)
            return None if holds(self.accept, job) else only
        except MissingVariable as missing:
            return f"{only}; the job does not give it ({missing})"
        except EvaluationError as problem:
            return f"{only}, which cannot be evaluated for this one: {problem}"


def _labels(terms: Mapping[str, object]) -> Mapping[str, object]:
    labels = terms.get("labels")
    return labels if isinstance(labels, dict) else {}


class UsedSignatures:
    """Used signatures, in a journal file."""

    def __init__(self, path: Path, now: float) -> None:
        """Read the file and drop expired entries. An incomplete last line is from a crash and has had no effect."""
        records = parse(path.read_bytes(), str(path))[0] if path.exists() else []
        current = [one for one in records if float(str(one["until"])) + KEEP_SECONDS > now]
        write_whole(path, b"".join(map(line, current)))
        self._path = path
        self._attempts: dict[Use, set[str]] = {}
        for one in current:
            index = one["index"]
            use = (str(one["nonce"]), index if isinstance(index, int) else None)
            self._attempts.setdefault(use, set()).add(str(one["attempt"]))

    def by(self, use: Use) -> frozenset[str]:
        """Return the attempts started with a signature."""
        return frozenset(self._attempts.get(use, ()))

    def note(self, use: Use, attempt: str, until: float) -> None:
        """Record a use; return when it is on disk."""
        record = {"nonce": use[0], "index": use[1], "attempt": attempt, "until": until}
        with self._path.open("ab", buffering=0) as file:
            append(file, line(record))
        self._attempts.setdefault(use, set()).add(attempt)


@dataclass(slots=True)
class SignatureChecker:
    """Check signatures of offers and count their uses."""

    cluster: str
    signers: Path  # public keys; read again after a change
    spent: UsedSignatures
    required: bool = True  # False: unsigned jobs are accepted, signatures are still checked
    clock: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)  # jobs start in several threads
    _read: tuple[tuple[int, int], Mapping[str, tuple[bytes, ...]]] = field(default=((0, 0), {}))

    def refuses(self, offer: Offer) -> str | None:
        """Return why an offer is rejected, or None."""
        try:
            statement = self._checked(offer)
        except RainbowError as problem:
            return str(problem)
        if statement is not None and len(self.spent.by((statement.nonce, offer.array_index))) >= statement.runs:
            return _used_up(statement)
        return None

    def take(self, offer: Offer) -> None:
        """Record the use of the signature right before the job starts; raise Denied if it is not valid or used up.

        An attempt that was recorded before a crash may continue: the journal shows that it belongs to this agent.
        """
        statement = self._checked(offer)
        if statement is None:
            return
        use, attempt = (statement.nonce, offer.array_index), f"{offer.ref.tag}-{offer.ref.token}"
        with self._lock:
            before = self.spent.by(use)
            if attempt in before:
                return
            if len(before) >= statement.runs:
                raise Denied(_used_up(statement))
            self.spent.note(use, attempt, statement.not_after)

    def _checked(self, offer: Offer) -> SignedStatement | None:
        """Return the verified statement about this job; None if it is unsigned and need not be signed."""
        terms = parsed_terms(offer.terms)
        text = str(terms.get("signature") or "")
        if not text and not self.required:
            return None
        statement, body, signature = parse_signature(text)
        if not any(_verifies(key, body, signature) for key in self._keys().get(offer.owner, ())):
            raise Denied(f"the job is not signed with a key that this site has for {offer.owner}")
        user_labels = {key: value for key, value in _labels(terms).items() if key != ARRAY_LABEL}
        job = digest_of(offer.spec, name=offer.name, priority=offer.priority, labels=user_labels)
        reason = mismatch(statement, owner=offer.owner, job=job, cluster=self.cluster, now=self.clock())
        members: list[int | None] = [*array_indices(statement.array)] if statement.array else [None]
        if reason is None and offer.array_index not in members:
            reason = "the signature is not for this member of an array"
        if reason is not None:
            raise Denied(reason)
        return statement

    def _keys(self) -> Mapping[str, tuple[bytes, ...]]:
        try:
            found = self.signers.stat()
        except OSError as problem:
            raise Denied(f"this site cannot read its signers: {problem.strerror}") from None
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp != self._read[0]:
            self._read = (stamp, read_signers(_trusted_text(self.signers)))
        return self._read[1]


def signature_checker(
    cluster: str, state_dir: Path, signers: str, required: bool, now: float
) -> SignatureChecker | None:
    """Return the checker that the options ask for, or None; raise Invalid if the file of signers cannot be used."""
    if not signers:
        if required:
            raise Invalid("require_signature needs the file of your users' keys: --allowed-signers FILE")
        return None
    path = Path(signers).expanduser().resolve()
    asked = SignatureChecker(cluster, path, UsedSignatures(state_dir / USED_FILE, now), required)
    read_signers(_trusted_text(path))
    return asked


def _trusted_text(path: Path) -> str:
    """Return the text of a file that only its owner or root can write."""
    try:
        with path.open("rb") as file:
            found, data = os.fstat(file.fileno()), file.read(MAX_SIGNERS_BYTES + 1)
    except OSError as problem:
        raise Invalid(f"cannot read the signers in {path}: {problem.strerror}") from None
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.geteuid()):
        raise Invalid(f"{path} must not be writable by other users; run: chmod go-w {path}")
    if len(data) > MAX_SIGNERS_BYTES:
        raise Invalid(f"{path} has more than {MAX_SIGNERS_BYTES} bytes")
    return data.decode("utf-8", "replace")


def _verifies(key: bytes, body: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, CONTEXT + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def _used_up(statement: SignedStatement) -> str:
    times = "once" if statement.runs == 1 else f"{statement.runs} times"
    return f"the signature allows starting the job {times} and is used up; submit the job again"
