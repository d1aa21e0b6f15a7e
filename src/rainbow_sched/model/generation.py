"""Generations of a database: each start of a server and each restore begins one, so that an older copy is recognised.

A server tells its data folder and its agents how far its history has come: a `HistoryMark`
names a generation and an event.
Whoever shows a mark that is not in the database's own history has seen something that this database has lost.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rainbow_sched.model.errors import Invalid

MIN_SKIPPED_IDS = 1_000_000  # numbers of jobs, events, commands and clusters that a restore passes over, at least
SKIPPED_ATTEMPTS = 1_000  # of each job that is older than the restore, for each generation that it passes over
MAX_MARK = 200  # characters


class Cause(enum.StrEnum):
    """What began a generation."""

    START = "start"
    RESTORE = "restore"  # by `rainbow server restore`
    NOTICED = "noticed"  # a restore that began while the server served: an agent had seen more

    @property
    def restores(self) -> bool:
        """True for both kinds of restores."""
        return self is not Cause.START


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A part of a database's history."""

    number: int  # grows by one
    id: str  # random: two servers that go on from copies of one database begin different generations
    at: float
    cause: Cause
    after_event: int  # the newest event when it began
    old_jobs: int = 0  # of a restore: jobs up to this id may have been handed out in a history that is lost


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """How far a database's history had come when somebody last heard of it."""

    generation: int
    id: str
    event: int

    def __str__(self) -> str:
        return f"{self.generation}.{self.id}.{self.event}"

    @staticmethod
    def parse(text: str) -> HistoryMark:
        """Read what `str` wrote; raise Invalid for anything else."""
        parts = text.split(".")
        if len(text) > MAX_MARK or len(parts) != 3 or not (_is_number(parts[0]) and _is_number(parts[2])):
            raise Invalid(f"{text[:40]!r} is not a mark of a database: GENERATION.ID.EVENT")
        return HistoryMark(int(parts[0]), parts[1], int(parts[2]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def is_lost(mark: HistoryMark, history: Sequence[Generation], last_event: int) -> bool:
    """Return whether a database with this history, in order, has lost something that `mark` has seen."""
    for generation, following in pairwise((*history, None)):
        if generation is not None and (generation.number, generation.id) == (mark.generation, mark.id):
            return mark.event > (last_event if following is None else following.after_event)
    return True


def ids_to_skip(seen: Sequence[HistoryMark], last_event: int) -> int:
    """Return how many numbers a restore of a database that ends at this event passes over: some millions.

    Whoever has seen further may have seen a restore of the same copy, which passed over a million itself. Every job
    and command has an event, so their numbers grew no faster than those of events. Half a million events may have
    come after a mark.
    """
    ahead = max((mark.event for mark in seen), default=0) - last_event
    return MIN_SKIPPED_IDS * (1 + (max(0, ahead) + MIN_SKIPPED_IDS // 2) // MIN_SKIPPED_IDS)


def sign_mark(mark: HistoryMark, key: bytes) -> str:
    """Return a mark as agents get it: nobody without the database's key can make one."""
    text = str(mark)
    return f"{text}.{_check(text, key)}"


def verify_mark(text: str, key: bytes) -> HistoryMark | None:
    """Return the mark that `seal` wrote with this key; None for any other text."""
    plain, _, check = text.rpartition(".")
    if len(text) > MAX_MARK or not hmac.compare_digest(check.encode(), _check(plain, key).encode()):
        return None
    return HistoryMark.parse(plain)


def _check(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]
