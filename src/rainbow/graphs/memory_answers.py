"""Answers that the memory backend keeps, and the log of changes that tells which clusters to ask again."""

from __future__ import annotations

from collections import OrderedDict

from rainbow.graphs.memory_tables import Mask
from rainbow.model.request import Request
from rainbow.scheduler.fold_facts import kinds

MOST_KEPT = 4096
MOST_REPAIRED = 48  # an older answer is repaired if at most so many clusters changed since; else it is made anew
LOG_LENGTH = 10_000


class Kept:
    """One request's answer as masks over cluster numbers."""

    __slots__ = ("doubtful", "ever", "now", "undecided", "unknown", "version")

    def __init__(self, now: Mask, ever: Mask) -> None:
        self.now = now
        self.ever = ever
        self.unknown = ever
        self.undecided = 0
        self.doubtful = False  # the tables alone could not say it: the exact matcher was asked, which is dearer
        self.version = 0

    def set(self, number: int, *, now: bool | None, ever: bool | None) -> None:
        """One cluster's answer; None: unknown."""
        if self.now is self.ever:  # while nothing was busy, one mask said both
            self.now = self.ever.copy()
        unknown = ever is None or (ever and now is None)
        if unknown and not self.undecided:
            self.unknown = self.ever & False
        if self.undecided or unknown:
            self.undecided += int(unknown) - int(self.unknown[number])
            self.unknown[number] = unknown
        self.ever[number] = bool(ever)
        self.now[number] = bool(now)


class Answers:
    """Kept answers by request, the least recently used of them forgotten first."""

    def __init__(self) -> None:
        self.version = 0
        self._kept: OrderedDict[object, Kept] = OrderedDict()
        self._log: list[int] = []  # the cluster changed at version `_first + i`
        self._first = 1

    def note(self, cluster: int) -> int:
        """A cluster has changed; the new version."""
        self.version += 1
        self._log.append(cluster)
        if len(self._log) > 2 * LOG_LENGTH:
            del self._log[:LOG_LENGTH]
            self._first += LOG_LENGTH
        return self.version

    def get(self, key: object) -> tuple[Kept | None, frozenset[int]]:
        """A kept answer and the clusters to ask again; None if there is none or too much changed since."""
        kept = self._kept.get(key)
        if kept is None:
            return None, frozenset()
        if kept.version == self.version:
            return kept, frozenset()
        since = kept.version + 1 - self._first
        stale = frozenset(self._log[since:]) if since >= 0 and len(self._log) - since <= LOG_LENGTH else None
        if stale is None or len(stale) > MOST_REPAIRED or max(stale) >= len(kept.ever):
            del self._kept[key]
            return None, frozenset()
        return kept, stale

    def keep(self, key: object, kept: Kept) -> None:
        """Remember an answer for the version of now."""
        kept.version = self.version
        self._kept[key] = kept
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def key_of(request: Request) -> object:
    """What matching looks at; two requests with equal keys have equal answers."""
    types = kinds(request.requires)
    for level in request.walk():
        if level.requires:
            types += kinds(level.requires)
    return (request.groups, request.requires, request.hosts, request.not_hosts, request.properties, types)
