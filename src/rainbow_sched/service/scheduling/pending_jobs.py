"""Pending jobs in memory, ordered and grouped by shape, so that a change of the fleet needs no scan.

Jobs of one shape (equal requests under equal terms) share a group: if its first job does not fit,
the others do not either.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rainbow_sched.model.job import Terms
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.store.records import WaitingJob

FIRST_DELAY_SECONDS = 1.0  # before a failed decision is retried; doubles each time
MAX_DOUBLINGS = 9  # of FIRST_DELAY_SECONDS: a job is retried after 512 seconds at most


@dataclass(slots=True)
class ShapeGroup:
    heap: list[tuple[int, int]] = field(default_factory=list)  # (-priority, job id)
    tried_at: int = -1  # the fleet's version when its first job was last tried
    tries: int = 0
    tried_time: float | None = None
    needs_now: PreparedRequest | None = None  # skip the group unless this fits now; None: always decide


class PendingJobs:
    """Jobs to decide: queued ones, groups that wait for resources, and deferred ones."""

    def __init__(self) -> None:
        self.groups: dict[str, ShapeGroup] = {}
        self.queued: deque[int] = deque()  # to be decided next
        self._shapes: dict[int, str] = {}
        self._tries_before: dict[int, int] = {}  # tries of its group when a job joined
        self._failures: dict[int, int] = {}  # failed decisions of deferred jobs
        self._deferred: list[tuple[float, int]] = []  # heap of (when, job id)
        self._change = asyncio.Event()

    def __len__(self) -> int:
        return len(self._shapes)

    def add(self, fleet: Fleet, waiting: WaitingJob, excluded: str = "") -> None:
        """Add a job to the group of its shape; `excluded`: the clusters that it may not use for a while."""
        self._join(shape_of(fleet, waiting.owner, waiting.spec, waiting.terms) + excluded, waiting)

    def add_all(self, fleet: Fleet, waiting: Iterable[WaitingJob]) -> None:
        """Add many jobs; jobs that share their terms share the computation of their shape."""
        shapes: dict[tuple[str, str], tuple[Terms, str]] = {}  # the last terms by owner and request
        for one in waiting:
            terms, shape = shapes.get((one.owner, one.spec), (None, ""))
            if terms is not one.terms:
                shape = shape_of(fleet, one.owner, one.spec, one.terms)
                shapes[one.owner, one.spec] = one.terms, shape
            self._join(shape, one)

    def _join(self, shape: str, waiting: WaitingJob) -> None:
        group = self.groups.setdefault(shape, ShapeGroup())
        self._shapes[waiting.job] = shape
        self._tries_before[waiting.job] = group.tries
        self._failures.pop(waiting.job, None)
        heapq.heappush(group.heap, (-waiting.priority, waiting.job))

    def add_queued(self, jobs: Iterable[int]) -> None:
        """Queue jobs to be decided as soon as possible."""
        for job in jobs:
            if self._shapes:
                self._leave_group(job)
            self.queued.append(job)
            self._change.set()

    def take_queued(self, most: int) -> list[int]:
        """Remove and return the first queued jobs."""
        return [self.queued.popleft() for _ in range(min(most, len(self.queued)))]

    def remove(self, jobs: Iterable[int]) -> None:
        """Remove jobs; their heap entries are skipped later."""
        for job in jobs:
            self._leave_group(job)
            self._failures.pop(job, None)

    def _leave_group(self, job: int) -> None:
        self._shapes.pop(job, None)
        self._tries_before.pop(job, None)

    def defer(self, job: int, now: float) -> float:
        """Retry a job later, with exponential backoff; return the delay in seconds."""
        failures = self._failures.get(job, 0)
        delay = FIRST_DELAY_SECONDS * (1 << min(failures, MAX_DOUBLINGS))
        self.remove([job])
        self._failures[job] = failures + 1
        heapq.heappush(self._deferred, (now + delay, job))
        return delay

    def requeue_deferred(self, now: float) -> None:
        """Queue the deferred jobs whose delay is over."""
        due = []
        while self._deferred and self._deferred[0][0] <= now:
            due.append(heapq.heappop(self._deferred)[1])
        self.add_queued(job for job in due if job in self._failures)

    def tries(self, job: int) -> tuple[int, float | None]:
        """Return how often the group of a job was tried since the job joined it, and when last."""
        group = self.group_of(job)
        since = 0 if group is None else group.tries - self._tries_before[job]
        return since, group.tried_time if group is not None and since else None

    def first_job(self, shape: str) -> int | None:
        """Return the next job of a group, or None if the group is empty (it is then removed)."""
        group = self.groups.get(shape)
        while group is not None and group.heap:
            job = group.heap[0][1]
            if self._shapes.get(job) == shape:
                return job
            heapq.heappop(group.heap)
        self.groups.pop(shape, None)
        return None

    def group_of(self, job: int) -> ShapeGroup | None:
        shape = self._shapes.get(job)
        return None if shape is None else self.groups.get(shape)

    def by_urgency(self) -> list[str]:
        """Return the shapes that have jobs, the one with the most urgent job first."""
        alive = [
            (self.groups[shape].heap[0], shape) for shape in list(self.groups) if self.first_job(shape) is not None
        ]
        return [shape for _, shape in sorted(alive)]

    def changed(self) -> None:
        """Wake the scheduling loop after a change of the fleet."""
        if self._shapes or self.queued:
            self._change.set()

    def retry_all(self) -> None:
        """Try every group again, even if the fleet has not changed: a reason for exclusion may have passed."""
        for group in self.groups.values():
            group.tried_at = -1
        self.changed()

    async def wait_for_change(self) -> None:
        """Return when there is something to decide."""
        await self._change.wait()
        self._change.clear()


def shape_of(fleet: Fleet, owner: str, spec: str, terms: Terms) -> str:
    """Return the digest of everything a decision depends on: jobs of equal shape get equal decisions."""
    parts = (
        owner if fleet.rules else "",  # only rules depend on the owner
        bool(terms.signature),
        spec,
        terms.policy,
        sorted(terms.policy_options.items()),
        terms.only_clusters,
        terms.not_clusters,
        terms.max_cost,
        terms.prefer,
        terms.opened,
        terms.deadline,
        terms.later,
        terms.fail_fast,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()
