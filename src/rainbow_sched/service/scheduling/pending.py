"""Jobs that wait for a decision, kept in order, so that a change of the fleet finds them without a poll of every job.

Waiting jobs of one shape (equal requests under equal terms) share one pile: if the first
of a pile does not fit, the others do not either, and none of them is looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from rainbow_sched.model.job import Terms
from rainbow_sched.model.request import Request
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.store.records import WaitingJob

FIRST_PAUSE = 1.0  # seconds until a job over which deciding failed is tried again; each time twice as many
DOUBLINGS = 9  # at most so often


@dataclass(slots=True)
class Pile:
    """Jobs of one shape, highest priority first, then oldest."""

    heap: list[tuple[int, int]] = field(default_factory=list)  # (-priority, job id)
    tried_at: int = -1  # the fleet's version when its first job was last tried
    tries: int = 0
    tried_time: float | None = None
    needs_now: Request | None = None  # its jobs go only where this fits now; None: not known, or bids may say more


class PendingJobs:
    """Which jobs wait, and whether anything has changed that they should be tried again for."""

    def __init__(self) -> None:
        self.piles: dict[str, Pile] = {}
        self.queued: deque[int] = deque()  # to be decided at once
        self._where: dict[int, str] = {}
        self._came: dict[int, int] = {}  # how often its pile had been tried when a job came
        self._faults: dict[int, int] = {}  # how often deciding failed, of jobs that are tried again later
        self._later: list[tuple[float, int]] = []  # a heap of those: (when, job id)
        self._stirred = asyncio.Event()

    def __len__(self) -> int:
        return len(self._where)

    def put(self, job: int, priority: int, shape: str) -> None:
        """Let a job wait on the pile of its shape."""
        pile = self.piles.setdefault(shape, Pile())
        self._where[job] = shape
        self._came[job] = pile.tries
        self._faults.pop(job, None)
        heapq.heappush(pile.heap, (-priority, job))

    def put_all(self, fleet: Fleet, waiting: Iterable[WaitingJob]) -> None:
        """What `put` does, for many jobs in a fraction of the time: those that share their terms go together."""
        shapes: dict[tuple[str, str, int], tuple[str, Terms]] = {}  # the terms, too, so that their `id` stays theirs
        alike: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        ruled = bool(fleet.rules)
        for job, priority, spec, terms, owner in waiting:
            key = (owner if ruled else "", spec, id(terms))
            known = shapes.get(key)
            if known is None:
                known = shapes[key] = shape_of(fleet, owner, spec, terms), terms
            alike[known[0]].append((-priority, job))
        for shape, jobs in alike.items():
            pile = self.piles.setdefault(shape, Pile())
            ids = [job for _, job in jobs]
            self._where.update(dict.fromkeys(ids, shape))
            self._came.update(dict.fromkeys(ids, pile.tries))
            pile.heap += jobs
            heapq.heapify(pile.heap)

    def add_queued(self, jobs: Iterable[int]) -> None:
        """Jobs to be decided as soon as possible."""
        before = len(self.queued)
        self.queued.extend(jobs)
        if len(self.queued) > before:
            self._stirred.set()

    def take_queued(self, most: int) -> list[int]:
        """The first of the jobs to be decided at once; they are no longer on the list."""
        return [self.queued.popleft() for _ in range(min(most, len(self.queued)))]

    def remove(self, jobs: Iterable[int]) -> None:
        """Jobs that wait no more; their places on the piles are skipped when they come up."""
        for job in jobs:
            self._where.pop(job, None)
            self._came.pop(job, None)
            self._faults.pop(job, None)

    def put_off(self, job: int, now: float) -> float:
        """Deciding failed over a job, and may again: it is tried after a while; after how many seconds."""
        faults = self._faults.get(job, 0)
        pause = FIRST_PAUSE * (1 << min(faults, DOUBLINGS))
        self.remove([job])
        self._faults[job] = faults + 1
        heapq.heappush(self._later, (now + pause, job))
        return pause

    def wake(self, now: float) -> None:
        """Let those be tried again whose pause is over."""
        due = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[1])
        self.add_queued(job for job in due if job in self._faults)

    def tries(self, job: int) -> tuple[int, float | None]:
        """How often the pile of a job was tried since it came, and when last."""
        pile = self.pile_of(job)
        since = 0 if pile is None else pile.tries - self._came[job]
        return since, pile.tried_time if pile is not None and since else None

    def first(self, shape: str) -> int | None:
        """The job of a pile that is next, or None if the pile is empty (and gone)."""
        pile = self.piles.get(shape)
        while pile is not None and pile.heap:
            job = pile.heap[0][1]
            if self._where.get(job) == shape:
                return job
            heapq.heappop(pile.heap)
        self.piles.pop(shape, None)
        return None

    def pile_of(self, job: int) -> Pile | None:
        """The pile on which a job waits."""
        shape = self._where.get(job)
        return None if shape is None else self.piles.get(shape)

    def order(self) -> list[str]:
        """The shapes that have jobs, the one with the most urgent job first."""
        alive = [(self.piles[shape].heap[0], shape) for shape in list(self.piles) if self.first(shape) is not None]
        return [shape for _, shape in sorted(alive)]

    def changed(self) -> None:
        """Something in the fleet changed: whoever waits for it should be tried again."""
        if self._where or self.queued:
            self._stirred.set()

    def retry_all(self) -> None:
        """Try every pile again, even if the fleet has not changed: what excluded a cluster may have passed."""
        for pile in self.piles.values():
            pile.tried_at = -1
        self.changed()

    async def stirred(self) -> None:
        """Return when there is something to decide."""
        await self._stirred.wait()
        self._stirred.clear()


def shape_of(fleet: Fleet, owner: str, spec: str, terms: Terms) -> str:
    """Jobs with equal shapes get equal decisions: what one cannot have, the others cannot have either."""
    parts = (
        owner if fleet.rules else "",  # only clusters with rules care
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
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()
