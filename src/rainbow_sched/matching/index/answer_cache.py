"""Cache of answers by request, and the log of changes that invalidates them."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import numpy as np

from rainbow_sched.matching.index.index import FleetAnswer
from rainbow_sched.matching.index.tables import Floats, Mask
from rainbow_sched.matching.structure.facts import value_types
from rainbow_sched.model.match import Matches
from rainbow_sched.model.request import Request

MAX_CACHED_ANSWERS = 4096
MAX_REPAIRED_CLUSTERS = 48  # changed clusters up to which a cached answer is repaired instead of recomputed
LOG_LENGTH = 512
FREED = -1  # a change that only freed resources
ANY_CHANGE = 0  # a change of another kind
Stale: TypeAlias = AbstractSet[int]  # numbers of the clusters to match again
NONE: Stale = frozenset()


class ChangeCounter:
    """A counter for each cluster, and their total."""

    __slots__ = ("_sums", "by_cluster", "total")

    def __init__(self) -> None:
        self.total = 0
        self._sums = array("d")
        self.by_cluster: Floats = np.frombuffer(self._sums)  # a view of the same memory

    def add(self, cluster: int, more: int) -> None:
        """Add to a cluster's counter."""
        if cluster >= len(self._sums):
            self.grow(cluster + 1)
        self._sums[cluster] += more
        self.total += more

    def grow(self, size: int) -> None:
        """Make room for cluster numbers below `size`."""
        if size > len(self._sums):
            self._sums = array("d", [*self._sums, *[0.0] * (max(size, 2 * len(self._sums)) - len(self._sums))])
            self.by_cluster = np.frombuffer(self._sums)


class ChangeLog:
    """The changes of the fleet that cached answers need to check their validity."""

    __slots__ = ("anything", "first", "grew", "hosts", "log", "units", "version")

    def __init__(self) -> None:
        self.version = 0
        self.anything = 0  # number of changes other than by jobs
        self.hosts = ChangeCounter()  # hosts on which jobs were placed
        self.units = ChangeCounter()  # units that jobs took
        self.grew = ChangeCounter()  # how often resources were freed
        self.log: list[int] = []  # the cluster changed at version `first + i`
        self.first = 1

    def note(self, cluster: int, hosts: int, units: int = 0) -> int:
        """Record a change and return the new version. `hosts`: hosts that a job uses, FREED or ANY_CHANGE."""
        self.version += 1
        self.log.append(cluster)
        if len(self.log) > 2 * LOG_LENGTH:
            del self.log[:LOG_LENGTH]
            self.first += LOG_LENGTH
        if hosts > 0:
            self.hosts.add(cluster, hosts)
            self.units.add(cluster, units)
        elif hosts == FREED:
            self.grew.add(cluster, 1)
        else:
            self.anything += 1
        return self.version

    def since(self, version: int) -> Stale | None:
        """Return the clusters that changed since `version`; None if the log no longer reaches back that far."""
        start = version + 1 - self.first
        return None if start < 0 or len(self.log) - start > LOG_LENGTH else set(self.log[start:])


class ValidityBound:
    """The validity of a cached answer that counts hosts or slots.

    In each cluster that the request fits, a number of hosts have room for a slot. Each host that a job is
    placed on uses at most one of them, so the answer stays valid until too many hosts are used. The same
    holds for slots and the units that jobs take. Where the request does not fit, the answer is valid until
    resources are freed.
    """

    __slots__ = ("_anything", "_enough_until", "_full", "_grew", "_grew_of_full", "_limit", "_taken")

    def __init__(self, changes: ChangeLog, answer: FleetAnswer, room: Floats) -> None:
        now = answer.now
        self._taken = changes.units if answer.by_units else changes.hosts
        for tally in (self._taken, changes.grew):
            tally.grow(len(now))
        self._anything = changes.anything
        most = self._taken.by_cluster[: len(now)] + room - answer.needed
        self._limit: Floats = np.where(now, most, np.inf)  # of taken hosts or units, by cluster
        self._enough_until = -1.0  # total taken below which no cluster can have reached its limit
        self._full = np.flatnonzero(answer.ever & ~now)
        self._grew = changes.grew.total
        self._grew_of_full: Floats = changes.grew.by_cluster[self._full]

    def holds(self, changes: ChangeLog) -> bool:
        """Return True if the answer is still valid for every cluster."""
        if changes.anything != self._anything:
            return False
        if self._taken.total > self._enough_until:
            spare = float(np.minimum.reduce(self._limit - self._taken.by_cluster[: len(self._limit)]))
            if spare < 0:
                return False
            self._enough_until = self._taken.total + spare
        if changes.grew.total != self._grew:
            if len(self._full) and (changes.grew.by_cluster[self._full] != self._grew_of_full).any():
                return False
            self._grew = changes.grew.total
        return True


class CachedAnswer:
    """The answer to one request as masks over cluster numbers."""

    __slots__ = ("doubtful", "ever", "matches", "now", "room", "undecided", "unknown", "version")

    def __init__(self, now: Mask, ever: Mask) -> None:
        self.now = now
        self.ever = ever
        self.unknown = ever
        self.undecided = 0
        self.doubtful = False  # the tables were not exact, and the slower exact matcher was used
        self.room: ValidityBound | None = None  # None if hosts cannot be counted
        self.matches: Matches | None = None  # the last result for the whole fleet
        self.version = 0

    def set(self, number: int, *, now: bool | None, ever: bool | None) -> None:
        """Set one cluster's answer; None means unknown."""
        self.matches = None
        if self.now is self.ever:  # both share one mask while nothing is in use
            self.now = self.ever.copy()
        unknown = ever is None or (ever and now is None)
        if unknown and not self.undecided:
            self.unknown = self.ever & False
        if self.undecided or unknown:
            self.undecided += int(unknown) - int(self.unknown[number])
            self.unknown[number] = unknown
        self.ever[number] = bool(ever)
        self.now[number] = bool(now)


class AnswerCache:
    """LRU cache of answers by request id."""

    def __init__(self) -> None:
        self.changes = ChangeLog()
        self._kept: OrderedDict[int, CachedAnswer] = OrderedDict()

    def get(self, key: int) -> tuple[CachedAnswer | None, Stale]:
        """Return the cached answer and the clusters to match again; None if there is no valid answer."""
        kept, changes = self._kept.get(key), self.changes
        if kept is None or kept.version == changes.version:
            return kept, NONE
        if kept.room is not None:
            if kept.room.holds(changes):
                kept.version = changes.version
                return kept, NONE
            del self._kept[key]
            return None, NONE
        stale = changes.since(kept.version)
        if stale is None or len(stale) > MAX_REPAIRED_CLUSTERS or max(stale) >= len(kept.ever):
            del self._kept[key]
            return None, NONE
        return kept, stale

    def keep(self, key: int, kept: CachedAnswer) -> None:
        """Store an answer for the current version."""
        kept.version = self.changes.version
        self._kept[key] = kept
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_CACHED_ANSWERS:
            self._kept.popitem(last=False)


class RequestIds:
    """Give requests that matching cannot tell apart the same number."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._next = 0

    def number(self, request: Request) -> int:
        """Return the number of a request."""
        if len(self._known) >= MAX_CACHED_ANSWERS:
            self._known.clear()  # numbers are never reused
        found = self._known.setdefault(_asked(request), self._next)
        self._next += found == self._next
        return found


def _asked(request: Request) -> object:
    """Return everything that matching depends on, as a key."""
    types = value_types(request.requires)
    for level in request.walk():
        if level.requires:
            types += value_types(level.requires)
    return (request.groups, request.requires, request.hosts, request.not_hosts, request.properties, types)
