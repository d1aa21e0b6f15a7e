"""Random ids, seeds and secrets from one source that tests can seed."""

from __future__ import annotations

import os
import threading
from random import Random

from rainbow_sched.model.credential import Credential, CredentialKind, compose, digest

FETCH_BYTES = 4096  # read from the system at once, which saves a system call for most ids
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Urandom:
    """The system's randomness, read in blocks because a system call per number is expensive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # two threads must never get the same bytes
        self._bytes = b""
        self._at = 0

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        with self._lock:
            end = self._at + size
            if end > len(self._bytes):
                self._bytes, self._at, end = os.urandom(max(FETCH_BYTES, size)), 0, size
            taken = self._bytes[self._at : end]
            self._at = end
        return int.from_bytes(taken, "big") >> (8 * size - k)

    def choice(self, seq: str) -> str:
        """Return one letter of `seq`, each with the same probability."""
        bits = len(seq).bit_length()
        while (i := self.getrandbits(bits)) >= len(seq):
            pass
        return seq[i]


class Ids:
    """Creates fencing tokens, credentials and seeds."""

    def __init__(self, source: Random | Urandom | None = None) -> None:
        self._source = source or Urandom()

    def fence(self) -> str:
        return f"{self._source.getrandbits(96):024x}"

    def seed(self) -> int:
        return self._source.getrandbits(32)

    def credential(
        self,
        kind: CredentialKind,
        owner: str,
        scopes: tuple[str, ...],
        now: float,
        *,
        expires_at: float | None = None,
        uses_left: int | None = None,
        note: str = "",
    ) -> tuple[str, Credential]:
        """Create a credential; return its text, to be shown once, and the row to store."""
        id = "".join(self._source.choice(_LETTERS) for _ in range(12))
        text = compose(kind, id, "".join(self._source.choice(_URL_SAFE) for _ in range(43)))
        stored = Credential(
            id=id,
            kind=kind,
            digest=digest(text),
            owner=owner,
            scopes=scopes,
            created_at=now,
            expires_at=expires_at,
            uses_left=uses_left,
            note=note,
        )
        return text, stored
