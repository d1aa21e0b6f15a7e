"""Random names and secrets, from one source that a test can seed."""

from __future__ import annotations

import os
import threading
from typing import Protocol

from rainbow_sched.model.credential import Credential, CredentialKind, compose, digest

FETCHED = 4096  # bytes
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Source(Protocol):
    """What is needed of a source of random numbers; `random.Random` is one."""

    def choice(self, seq: str, /) -> str:
        """One letter of `seq`."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """A number of `k` bits."""
        ...


class Urandom:
    """The system's randomness, fetched some hundred numbers at a time: asking for each would be most of its cost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # two threads must never get the same bytes
        self._bytes = b""
        self._at = 0

    def getrandbits(self, k: int) -> int:
        """A number of `k` bits."""
        size = (k + 7) // 8
        with self._lock:
            end = self._at + size
            if end > len(self._bytes):
                self._bytes, self._at, end = os.urandom(max(FETCHED, size)), 0, size
            taken = self._bytes[self._at : end]
            self._at = end
        return int.from_bytes(taken, "big") >> (8 * size - k)

    def choice(self, seq: str) -> str:
        """One letter of `seq`, each as likely as the others."""
        bits = len(seq).bit_length()
        while (i := self.getrandbits(bits)) >= len(seq):
            pass
        return seq[i]


class Ids:
    """Makes fencing tokens, credentials and seeds."""

    def __init__(self, source: Source | None = None) -> None:
        self._source: Source = source or Urandom()

    def fence(self) -> str:
        """A fencing token for one attempt."""
        return f"{self._source.getrandbits(96):024x}"

    def seed(self) -> int:
        """A seed for one decision."""
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
        """A new credential: its text, to be shown once, and what is stored of it."""
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
