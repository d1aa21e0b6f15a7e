"""Generations of a database. Each server start and each restore begins one, so that an older copy is detected.

The server writes a `HistoryMark` (generation and event) to its data folder and sends it to its agents.
A mark that is not in the database's history proves that the database has lost events.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rainbow_sched.model.errors import Invalid

MIN_SKIPPED_IDS = 1_000_000  # ids of jobs, events, commands and clusters that a restore leaves unused
SKIPPED_ATTEMPTS = 1_000  # attempt numbers left unused per restore, of each job that is older
MAX_MARK_CHARS = 200  # bounds the work on an invalid mark, and the size of a line in the mark file


class Cause(enum.StrEnum):
    """Cause of a new generation."""

    START = "start"
    RESTORE = "restore"  # by `rainbow server restore`
    NOTICED = "noticed"  # a restore detected while the server ran: an agent had seen later events

    @property
    def restores(self) -> bool:
        """Return True for both kinds of restores."""
        return self is not Cause.START


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A part of a database's history."""

    number: int  # grows by one
    id: str  # random, so that servers on copies of one database have different generations
    at: float
    cause: Cause
    after_event: int  # the last event before it
    old_jobs: int = 0  # of a restore: jobs up to this id may have been offered to agents in the lost history


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """A position in a database's history, as last seen by an agent or the data folder."""

    generation: int
    id: str
    event: int

    def __str__(self) -> str:
        return f"{self.generation}.{self.id}.{self.event}"

    @staticmethod
    def parse(text: str) -> HistoryMark:
        """Read the result of `str`; raise `Invalid`."""
        parts = text.split(".")
        if len(text) > MAX_MARK_CHARS or len(parts) != 3 or not (_is_number(parts[0]) and _is_number(parts[2])):
            raise Invalid(f"{text[:40]!r} is not a database mark GENERATION.ID.EVENT")
        return HistoryMark(int(parts[0]), parts[1], int(parts[2]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def is_lost(mark: HistoryMark, history: Sequence[Generation], last_event: int) -> bool:
    """Return True if a database with this history has lost events up to `mark`."""
    for generation, following in pairwise((*history, None)):
        if generation is not None and (generation.number, generation.id) == (mark.generation, mark.id):
            return mark.event > (last_event if following is None else following.after_event)
    return True


def ids_to_skip(seen: Sequence[HistoryMark], last_event: int) -> int:
    """Return how many ids a restore of a database that ends at `last_event` leaves unused.

    A mark beyond that event may come from another restore of the same copy, which skipped a million ids itself. Every
    job and command has an event, so their ids grow no faster than events. Half a million events may follow a mark.
    """
    ahead = max((mark.event for mark in seen), default=0) - last_event
    return MIN_SKIPPED_IDS * (1 + (max(0, ahead) + MIN_SKIPPED_IDS // 2) // MIN_SKIPPED_IDS)


def sign_mark(mark: HistoryMark, key: bytes) -> str:
    """Return a mark with a signature by the database's key, as agents receive it."""
    text = str(mark)
    return f"{text}.{_check(text, key)}"


def verify_mark(text: str, key: bytes) -> HistoryMark | None:
    """Return the mark that `sign_mark` wrote with this key; None for any other text."""
    plain, _, check = text.rpartition(".")
    if len(text) > MAX_MARK_CHARS or not hmac.compare_digest(check.encode(), _check(plain, key).encode()):
        return None
    return HistoryMark.parse(plain)


def _check(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]
