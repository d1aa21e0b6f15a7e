"""Answers that the memory backend keeps, and the account of changes that tells which of them to make again."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import numpy as np

from rainbow_sched.matching.index.index import Answer
from rainbow_sched.matching.index.tables import Floats, Mask
from rainbow_sched.matching.structure.facts import kinds
from rainbow_sched.model.match import Matches
from rainbow_sched.model.request import Request

MOST_KEPT = 4096
MOST_REPAIRED = 48  # an older answer is repaired if at most so many clusters changed since; else it is made anew
LOG_LENGTH = 512
GREW = -1  # a change that only gave room back
ANYTHING = 0  # a change of any kind
Stale: TypeAlias = AbstractSet[int]  # numbers of clusters to ask again
NONE: Stale = frozenset()


class Tally:
    """A sum for each cluster, and one for all of them."""

    __slots__ = ("_sums", "by_cluster", "total")

    def __init__(self) -> None:
        self.total = 0
        self._sums = array("d")
        self.by_cluster: Floats = np.frombuffer(self._sums)  # the same numbers, as numpy sees them

    def add(self, cluster: int, more: int) -> None:
        """Add to a cluster's sum."""
        if cluster >= len(self._sums):
            self.grow(cluster + 1)
        self._sums[cluster] += more
        self.total += more

    def grow(self, size: int) -> None:
        """Make room for cluster numbers below `size`."""
        if size > len(self._sums):
            self._sums = array("d", [*self._sums, *[0.0] * (max(size, 2 * len(self._sums)) - len(self._sums))])
            self.by_cluster = np.frombuffer(self._sums)


class Changes:
    """What happened to the fleet, as far as an answer must know it to tell whether it still holds."""

    __slots__ = ("anything", "first", "grew", "hosts", "log", "units", "version")

    def __init__(self) -> None:
        self.version = 0
        self.anything = 0  # how often a cluster changed in another way than by jobs
        self.hosts = Tally()  # on which a job was placed
        self.units = Tally()  # that a job took
        self.grew = Tally()  # how often room came back
        self.log: list[int] = []  # the cluster changed at version `first + i`
        self.first = 1

    def note(self, cluster: int, hosts: int, units: int = 0) -> int:
        """A cluster has changed, by a job that took units on so many hosts, GREW or ANYTHING; the new version."""
        self.version += 1
        self.log.append(cluster)
        if len(self.log) > 2 * LOG_LENGTH:
            del self.log[:LOG_LENGTH]
            self.first += LOG_LENGTH
        if hosts > 0:
            self.hosts.add(cluster, hosts)
            self.units.add(cluster, units)
        elif hosts == GREW:
            self.grew.add(cluster, 1)
        else:
            self.anything += 1
        return self.version

    def since(self, version: int) -> Stale | None:
        """The clusters that changed since; None if that is too long ago."""
        start = version + 1 - self.first
        return None if start < 0 or len(self.log) - start > LOG_LENGTH else set(self.log[start:])


class Room:
    """How long an answer holds that counts hosts or slots.

    In each cluster where the request fits, so many hosts have room for a slot, at the least. Each
    host that a job is placed on takes one of them, so most answers stay true without looking at the
    clusters again; so it is with slots, and the units that a job takes. Where it does not fit, that
    stays true until something is given back.
    """

    __slots__ = ("_anything", "_enough_until", "_full", "_grew", "_grew_of_full", "_limit", "_taken")

    def __init__(self, changes: Changes, answer: Answer, room: Floats) -> None:
        now = answer.now
        self._taken = changes.units if answer.by_units else changes.hosts
        for tally in (self._taken, changes.grew):
            tally.grow(len(now))
        self._anything = changes.anything
        most = self._taken.by_cluster[: len(now)] + room - answer.needed
        self._limit: Floats = np.where(now, most, np.inf)  # of what may be taken of each cluster
        self._enough_until = -1.0  # in all: while no more is taken, no cluster can have reached its limit
        self._full = np.flatnonzero(answer.ever & ~now)
        self._grew = changes.grew.total
        self._grew_of_full: Floats = changes.grew.by_cluster[self._full]

    def holds(self, changes: Changes) -> bool:
        """Is the answer still true for each cluster?"""
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


class Kept:
    """One request's answer as masks over cluster numbers."""

    __slots__ = ("doubtful", "ever", "matches", "now", "room", "undecided", "unknown", "version")

    def __init__(self, now: Mask, ever: Mask) -> None:
        self.now = now
        self.ever = ever
        self.unknown = ever
        self.undecided = 0
        self.doubtful = False  # the tables alone could not say it: the exact matcher was asked, which is dearer
        self.room: Room | None = None  # None where hosts cannot be counted
        self.matches: Matches | None = None  # as it was last given for the whole fleet
        self.version = 0

    def set(self, number: int, *, now: bool | None, ever: bool | None) -> None:
        """One cluster's answer; None: unknown."""
        self.matches = None
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
        self.changes = Changes()
        self._kept: OrderedDict[int, Kept] = OrderedDict()

    def get(self, key: int) -> tuple[Kept | None, Stale]:
        """A kept answer and the clusters to ask again; None if there is none or too much changed since."""
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
        if stale is None or len(stale) > MOST_REPAIRED or max(stale) >= len(kept.ever):
            del self._kept[key]
            return None, NONE
        return kept, stale

    def keep(self, key: int, kept: Kept) -> None:
        """Remember an answer for the version of now."""
        kept.version = self.changes.version
        self._kept[key] = kept
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


class Keys:
    """Requests that ask the same have the same number, so that it is found out once what a request asks."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._next = 0

    def number(self, request: Request) -> int:
        """The number of what a request asks for."""
        if len(self._known) >= MOST_KEPT:
            self._known.clear()  # numbers are never given twice
        found = self._known.setdefault(_asked(request), self._next)
        self._next += found == self._next
        return found


def _asked(request: Request) -> object:
    """What matching looks at; requests of which this is equal have equal answers."""
    types = kinds(request.requires)
    for level in request.walk():
        if level.requires:
            types += kinds(level.requires)
    return (request.groups, request.requires, request.hosts, request.not_hosts, request.properties, types)
