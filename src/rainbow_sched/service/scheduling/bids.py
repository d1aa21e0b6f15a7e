"""Collect bids from agents through their Sync, and compare winning bids with what happened."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.bid import MAX_REASON_CHARS, Bid, TrackRecord
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import Job
from rainbow_sched.protocol.messages import BidAnswer
from rainbow_sched.selection.bid_scores import after_end, after_start
from rainbow_sched.selection.record import bid_from_json
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.wakeups import Notifier, cluster_topic
from rainbow_sched.store.base import Tx

MAX_CACHED_BIDS = 10_000  # bounds the memory of the cache
MAX_BID_SECONDS = 3_600.0  # for which a bid is valid
Hosts: TypeAlias = tuple[GroupHosts, ...]
NO_HOSTS: Mapping[str, Hosts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OpenBidRequest:
    """A bid request that an agent has not answered."""

    id: str
    cluster: str
    spec: str
    asked_at: float
    until: float
    hosts: tuple[GroupHosts, ...] = ()  # hosts on which the job may run; empty: any


class BidCollector:
    """Open bid requests, and a cache of bids that are still valid."""

    def __init__(self, notifier: Notifier, clock: Clock, deadline: float, max_clusters: int) -> None:
        self._notifier, self._clock = notifier, clock
        self._deadline, self._max_clusters = deadline, max_clusters
        self._ids = itertools.count(1)
        self._open: dict[str, dict[str, OpenBidRequest]] = defaultdict(dict)  # cluster -> id -> question
        self._waiters: dict[str, asyncio.Future[Bid]] = {}
        self._cache: dict[tuple[str, str], Bid] = {}

    async def ask(
        self, spec: str, clusters: Iterable[str], reachable: Iterable[str], hosts: Mapping[str, Hosts] = NO_HOSTS
    ) -> tuple[dict[str, Bid], dict[str, str]]:
        """Return the bids for `spec` that arrive in time, by cluster, and why others are missing.

        At most the configured number of `clusters` is asked.
        Only `reachable` clusters have an agent. `hosts`: the hosts to which the job is bound, by cluster.
        """
        now, spec_digest = self._clock.now(), _digest(spec)
        has_agent = set(reachable)
        bids: dict[str, Bid] = {}
        silent: dict[str, str] = {}
        pending: dict[str, asyncio.Future[Bid]] = {}
        for name in clusters:
            cached = self._cache.get((name, spec_digest))
            if cached is not None and cached.valid_until > now:
                bids[name] = cached
            elif name not in has_agent:
                silent[name] = "no agent is connected"
            elif len(pending) >= self._max_clusters:
                silent[name] = f"not asked: {self._max_clusters} others were"
            else:
                pending[name] = self._send(name, spec, now, hosts.get(name, ()))
        if pending:
            await asyncio.wait(pending.values(), timeout=self._deadline)
        for name, future in pending.items():
            if future.done() and not future.cancelled():
                bids[name] = future.result()
            else:
                silent[name] = f"silent for {self._deadline:g} s"
        return bids, silent

    def _send(self, cluster: str, spec: str, now: float, hosts: Hosts) -> asyncio.Future[Bid]:
        request = OpenBidRequest(f"b{next(self._ids)}", cluster, spec, now, now + 10 * self._deadline, hosts)
        self._open[cluster][request.id] = request
        future: asyncio.Future[Bid] = asyncio.get_running_loop().create_future()
        self._waiters[request.id] = future
        self._notifier.notify(cluster_topic(cluster))
        return future

    def open_requests(self, cluster: str) -> list[OpenBidRequest]:
        """Return the open requests for an agent; they are sent with each Sync until answered or expired."""
        now = self._clock.now()
        mine = self._open.get(cluster)
        if not mine:
            return []
        for id in [id for id, request in mine.items() if request.until <= now]:
            del mine[id]
            self._waiters.pop(id, None)
        return list(mine.values())

    def take_answer(self, cluster: str, id: str, answer: BidAnswer) -> None:
        """Store an agent's answer, if it answers an open request."""
        request = self._open.get(cluster, {}).pop(id, None)
        if request is None:
            return
        now = self._clock.now()
        bid = _bid_of(request, now, answer)
        if len(self._cache) >= MAX_CACHED_BIDS:
            self._cache.clear()
        if now - request.asked_at > self._deadline:
            bid = replace(bid, late=True)  # too late for this decision; used by the next one
        self._cache[cluster, _digest(request.spec)] = bid
        waiter = self._waiters.pop(id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(bid)

    def forget(self, cluster: str) -> None:
        """Drop the requests and bids of a removed cluster."""
        for id in self._open.pop(cluster, {}):
            self._waiters.pop(id, None)
        for key in [key for key in self._cache if key[0] == cluster]:
            del self._cache[key]


def _digest(spec: str) -> str:
    return hashlib.sha256(spec.encode()).hexdigest()


def _bid_of(request: OpenBidRequest, now: float, answer: BidAnswer) -> Bid:
    """Return an agent's answer as a bid; a bid with invalid numbers counts as a refusal."""
    cluster, asked_at = request.cluster, request.asked_at
    try:
        return Bid(
            cluster=cluster,
            yes=answer.yes,
            reason=answer.reason[:MAX_REASON_CHARS],
            asked_at=asked_at,
            valid_until=now + min(max(answer.valid_for, 0.0), MAX_BID_SECONDS),
            start_p50=answer.start_p50,
            start_p90=answer.start_p50 if answer.start_p90 is None else answer.start_p90,
            runtime_factor=answer.runtime_factor or 1.0,
            cost=answer.cost,
        )
    except Invalid as error:
        refusal = f"its bid is invalid: {error}"[:MAX_REASON_CHARS]
        return Bid(cluster=cluster, yes=False, reason=refusal, asked_at=asked_at, valid_until=now)


def score_start(tx: Tx, fx: Effects, attempt: Attempt, started: float) -> None:
    """Record the actual wait of a job that has started."""
    bid = _winning_bid(tx, attempt)
    asked_at = attempt.created_at if bid is None else bid.asked_at
    _update_record(tx, fx, attempt, lambda record: after_start(record, bid, started - asked_at))


def score_end(tx: Tx, fx: Effects, job: Job, attempt: Attempt, started: float | None, ended: float) -> None:
    """Record the actual cost of a job that succeeded: the bid's cost for the part of the duration that it ran."""
    bid = _winning_bid(tx, attempt)
    if bid is None or bid.cost is None or started is None:
        return
    promised = (from_json(job.spec).duration or 0.0) * bid.runtime_factor
    if promised > 0:
        cost = bid.cost * max(0.0, ended - started) / promised
        _update_record(tx, fx, attempt, lambda record: after_end(record, bid, cost))


def _winning_bid(tx: Tx, attempt: Attempt) -> Bid | None:
    record = tx.decision(attempt.job, attempt.n)
    stored = None if record is None else record.decision().own["bids"].get(attempt.cluster)
    return None if stored is None else bid_from_json(attempt.cluster, stored)


def _update_record(tx: Tx, fx: Effects, attempt: Attempt, after: Callable[[TrackRecord], TrackRecord]) -> None:
    cluster = tx.cluster(attempt.cluster)
    if cluster is not None:
        record = after(TrackRecord.from_mapping(cluster.record))
        fx.changed(tx.update_cluster(cluster.id, record=record.to_mapping()))
