"""Answers that the memory backend keeps, and the log of changes that tells which clusters to ask again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias

from rainbow.graphs.memory_tables import Mask
from rainbow.model.match import Matches
from rainbow.model.request import Request
from rainbow.scheduler.fold_facts import kinds

MOST_KEPT = 4096
MOST_REPAIRED = 48  # an older answer is repaired if at most so many clusters changed since; else it is made anew
LOG_LENGTH = 512
GREW = -1  # a change that only gave room back
ANYTHING = 0  # a change of any kind
Stale: TypeAlias = set[int]  # numbers of clusters to ask again


class Kept:
    """One request's answer as masks over cluster numbers.

    `room`: in each cluster where it fits now, how many hosts have room for a slot, at the least.
    Each host that a job is placed on takes one of them, so most answers stay true without
    looking at the cluster again. None where hosts cannot be counted so.
    """

    __slots__ = ("doubtful", "ever", "matches", "needed", "now", "room", "undecided", "unknown", "version")

    def __init__(self, now: Mask, ever: Mask) -> None:
        self.now = now
        self.ever = ever
        self.unknown = ever
        self.undecided = 0
        self.doubtful = False  # the tables alone could not say it: the exact matcher was asked, which is dearer
        self.room: list[float] | None = None
        self.needed = 0  # hosts with room for a slot that the request asks for
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

    def after(self, changes: Iterable[tuple[int, int]]) -> Stale:
        """Follow changes, each a cluster and how it changed; the clusters for which the answer may be another now."""
        if self.room is None:
            return {cluster for cluster, _ in changes}
        room, needed, size = self.room, self.needed, len(self.room)
        stale: Stale = set()
        for cluster, hosts in changes:
            if cluster >= size or hosts == ANYTHING:
                stale.add(cluster)
            elif (left := room[cluster]) <= 0:  # it did not fit before, and a job placed leaves less room
                if hosts == GREW:
                    stale.add(cluster)
            elif hosts != GREW:
                room[cluster] = left = left - hosts
                if left < needed:
                    stale.add(cluster)
        return stale


class Answers:
    """Kept answers by request, the least recently used of them forgotten first."""

    def __init__(self) -> None:
        self.version = 0
        self._kept: OrderedDict[object, Kept] = OrderedDict()
        self._log: list[tuple[int, int]] = []  # the cluster changed at version `_first + i`, and how
        self._first = 1

    def note(self, cluster: int, hosts: int = ANYTHING) -> int:
        """A cluster has changed, by a job placed on so many hosts, GREW or ANYTHING; the new version."""
        self.version += 1
        self._log.append((cluster, hosts))
        if len(self._log) > 2 * LOG_LENGTH:
            del self._log[:LOG_LENGTH]
            self._first += LOG_LENGTH
        return self.version

    def get(self, key: object) -> tuple[Kept | None, Stale]:
        """A kept answer and the clusters to ask again; None if there is none or too much changed since."""
        kept = self._kept.get(key)
        if kept is None or kept.version == self.version:
            return kept, set()
        since = kept.version + 1 - self._first
        if since < 0 or len(self._log) - since > LOG_LENGTH:
            del self._kept[key]
            return None, set()
        size = len(kept.ever)
        stale = kept.after(self._log[since:])
        if stale and (len(stale) > MOST_REPAIRED or max(stale) >= size):
            del self._kept[key]
            return None, set()
        kept.version = self.version - bool(stale)
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
