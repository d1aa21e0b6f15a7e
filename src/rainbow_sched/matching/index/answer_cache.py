"""Cache of requests with their answers, and the log of changes that invalidates the answers."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import numpy as np

from rainbow_sched.matching.fit.quick_placement import Placer
from rainbow_sched.matching.index.index import FleetAnswer
from rainbow_sched.matching.index.request_form import read_forms
from rainbow_sched.matching.index.tables import Floats, Mask
from rainbow_sched.model.match import Matches
from rainbow_sched.model.prepared_request import PreparedRequest

MAX_CACHED_ANSWERS = 4_096  # bounds the memory of the cache
MAX_REPAIRED_CLUSTERS = 48  # changed clusters up to which a cached answer is repaired instead of recomputed
LOG_LENGTH = 512  # changes; an answer that is older than the log is computed anew
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


class CachedRequest:
    """What is kept of one request: its forms for the index, how to place it, and its last answer."""

    __slots__ = ("answer", "forms", "placer", "requires_inside")

    def __init__(self, request: PreparedRequest) -> None:
        self.forms = read_forms(request.request)
        self.placer = Placer(request.request, request.summary)
        self.requires_inside = request.summary.requires_inside
        self.answer: CachedAnswer | None = None


class AnswerCache:
    """Requests with their answers, by match key; the least recently used ones are dropped."""

    def __init__(self) -> None:
        self.changes = ChangeLog()
        self._requests: OrderedDict[str, CachedRequest] = OrderedDict()

    def of(self, request: PreparedRequest) -> CachedRequest:
        """Return the entry of a request."""
        key = request.match_key
        cached = self._requests.get(key)
        if cached is None:
            cached = self._requests[key] = CachedRequest(request)
            if len(self._requests) > MAX_CACHED_ANSWERS:
                self._requests.popitem(last=False)
        else:
            self._requests.move_to_end(key)
        return cached

    def stale(self, answer: CachedAnswer) -> Stale | None:
        """Return the clusters to match again before the answer can be used; None if it must be computed anew."""
        changes = self.changes
        if answer.version == changes.version:
            return NONE
        if answer.room is not None:
            if not answer.room.holds(changes):
                return None
            answer.version = changes.version
            return NONE
        stale = changes.since(answer.version)
        if stale is None or len(stale) > MAX_REPAIRED_CLUSTERS or max(stale) >= len(answer.ever):
            return None
        return stale
