"""Ask clusters for bids over their agents' Sync: few, with a deadline; late answers serve the next decision."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from rainbow_sched.model.bid import Bid
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.wakeups import Notifier, cluster_topic

MAX_KEPT = 10_000
Hosts: TypeAlias = tuple[GroupHosts, ...]
NO_HOSTS: Mapping[str, Hosts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Question:
    """One bid request on its way to one agent."""

    id: str
    cluster: str
    spec: str
    asked_at: float
    until: float
    hosts: tuple[GroupHosts, ...] = ()  # where the job may run there; empty: on any host


@dataclass(frozen=True, slots=True)
class Answers:
    """What came in time: bids by cluster, and why the others gave none."""

    bids: Mapping[str, Bid]
    silent: Mapping[str, str]


class Bidding:
    """Questions that are open, and answers that still hold."""

    def __init__(self, notifier: Notifier, clock: Clock, deadline: float, most: int) -> None:
        self._notifier, self._clock = notifier, clock
        self._deadline, self._most = deadline, most
        self._ids = itertools.count(1)
        self._open: dict[str, dict[str, Question]] = defaultdict(dict)  # cluster -> id -> question
        self._waiters: dict[str, asyncio.Future[Bid]] = {}
        self._kept: dict[tuple[str, str], Bid] = {}

    async def ask(
        self, spec: str, clusters: Iterable[str], reachable: Iterable[str], hosts: Mapping[str, Hosts] = NO_HOSTS
    ) -> Answers:
        """Bids for `spec` from at most the configured number of `clusters`; only `reachable` ones have an agent.

        `hosts`: by cluster, those to which the job is bound there.
        """
        now, shape = self._clock.now(), _shape(spec)
        listening = set(reachable)
        bids: dict[str, Bid] = {}
        silent: dict[str, str] = {}
        pending: dict[str, asyncio.Future[Bid]] = {}
        for name in clusters:
            kept = self._kept.get((name, shape))
            if kept is not None and kept.valid_until > now:
                bids[name] = kept
            elif name not in listening:
                silent[name] = "no agent is connected"
            elif len(pending) >= self._most:
                silent[name] = f"not asked: {self._most} others were"
            else:
                pending[name] = self._put(name, spec, now, hosts.get(name, ()))
        if pending:
            await asyncio.wait(pending.values(), timeout=self._deadline)
        for name, future in pending.items():
            if future.done() and not future.cancelled():
                bids[name] = future.result()
            else:
                silent[name] = f"silent for {self._deadline:g} s"
        return Answers(bids, silent)

    def _put(self, cluster: str, spec: str, now: float, hosts: Hosts) -> asyncio.Future[Bid]:
        question = Question(f"b{next(self._ids)}", cluster, spec, now, now + 10 * self._deadline, hosts)
        self._open[cluster][question.id] = question
        future: asyncio.Future[Bid] = asyncio.get_running_loop().create_future()
        self._waiters[question.id] = future
        self._notifier.ring(cluster_topic(cluster))
        return future

    def questions(self, cluster: str) -> list[Question]:
        """What an agent is to answer; given again with each Sync until answered or too old."""
        now = self._clock.now()
        mine = self._open.get(cluster)
        if not mine:
            return []
        for id in [id for id, question in mine.items() if question.until <= now]:
            del mine[id]
            self._waiters.pop(id, None)
        return list(mine.values())

    def answer(self, cluster: str, id: str, bid: Bid) -> bool:
        """Take an agent's answer; False if nobody asked this cluster that."""
        question = self._open.get(cluster, {}).pop(id, None)
        if question is None:
            return False
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        if self._clock.now() - question.asked_at > self._deadline:
            bid = replace(bid, late=True)  # for the next decision; the one that asked went on without it
        self._kept[cluster, _shape(question.spec)] = bid
        waiter = self._waiters.pop(id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(bid)
        return True

    def asked_at(self, cluster: str, id: str) -> float | None:
        """When a question that is still open was put."""
        question = self._open.get(cluster, {}).get(id)
        return None if question is None else question.asked_at

    def forget(self, cluster: str) -> None:
        """What a cluster was asked and said holds no longer: it is gone."""
        for id in self._open.pop(cluster, {}):
            self._waiters.pop(id, None)
        for key in [key for key in self._kept if key[0] == cluster]:
            del self._kept[key]


def _shape(spec: str) -> str:
    return hashlib.sha256(spec.encode()).hexdigest()
