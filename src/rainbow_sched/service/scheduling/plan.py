"""Plan what becomes of pending jobs, and apply the plans.

A plan is an assignment, a wait with its reasons, a refusal, or bids first. It stores nothing, but reserves what it
assigns, so that the jobs planned next see it as taken. The same functions plan submissions, long batches and the
retries of the scheduling loop.

Applying stores a plan in one transaction, then keeps what it reserved, or releases all of it. The store may refuse
because the world has changed since the plan was made. The caller then plans again with the fleet as it is; it never
applies the same plan twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.decision import Chosen, Refuse, StoredDecision
from rainbow_sched.model.errors import AlreadyExists, Conflict, NotFound, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.decisions import Question, clusters_to_ask, decide, wants_bids
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.host_binding import bound_offer
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.pending_jobs import shape_of
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question
from rainbow_sched.store.base import DecidedJob, Tx, WaitingJob
from rainbow_sched.store.claim import Replaced

log = logging.getLogger(__name__)
MAX_PLANS = 3  # of a job in a row that are refused; then it is decided later
DECISIONS_PER_YIELD = 8  # then other tasks run
TIME_SLICE_SECONDS = 0.01
PAUSE_SECONDS = 0.01  # a batch being stored has priority over the decisions of the scheduling loop
# Access to enum members is slow, and this is a hot path: look them up once.
_QUEUED, _BOUND, _HELD, _INFEASIBLE = JobState.QUEUED, JobState.BOUND, JobState.HELD, JobState.INFEASIBLE
T = TypeVar("T")


class PlannedJob(NamedTuple):
    """What becomes of one pending job."""

    state: JobState  # BOUND: assigned; HELD: nothing fits now; INFEASIBLE: refused; QUEUED: to be decided alone
    reason: str
    cluster: str = ""
    fence: str = ""
    record: StoredDecision | None = None
    error: RainbowError | None = None  # why it could not be decided


DECIDE_ALONE = PlannedJob(_QUEUED, "waits for its decision")


class Reservations:
    """What the jobs of one plan reserve in the fleet in memory before they are stored.

    The fleet changes nowhere else before a commit. When the block ends, everything is released that was not
    kept, also if the caller is cancelled.
    """

    __slots__ = ("_core", "_held", "clusters")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._held: dict[str, str] = {}  # cluster by fence
        self.clusters: dict[str, Cluster] = {}  # as they were planned for

    def __enter__(self) -> Reservations:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._release(list(self._held))

    def reserve(self, cluster: str, request: PreparedRequest, owner: str) -> str:
        """Reserve for one job; return the fencing token of its attempt."""
        fence, fleet = self._core.ids.fence(), self._core.fleet
        fleet.place(cluster, fence, request, owner)
        self._held[fence] = cluster
        if cluster not in self.clusters:
            self.clusters[cluster] = fleet.member(cluster).cluster
        return fence

    def keep(self) -> None:
        """Leave everything reserved: the attempts are durable, and their end releases it."""
        self._held.clear()

    def release(self, planned: Iterable[PlannedJob]) -> None:
        """Release what these jobs reserved."""
        self._release([one.fence for one in planned if one.fence in self._held])

    def _release(self, fences: Sequence[str]) -> None:
        for fence in fences:
            self._core.fleet.release(self._held.pop(fence), fence)
        if fences:
            self._core.pending.changed()  # others may have found no room because of it


class TimeSlice:
    """Lets other tasks run between decisions; some policies are slow."""

    def __init__(self, core: Core, *, urgent: bool) -> None:
        self._core, self._urgent = core, urgent
        self._begun, self._made = core.clock.now(), 0

    async def after_decision(self) -> None:
        """Yield after some decisions, or when the slice is over."""
        self._made += 1
        if self._made % DECISIONS_PER_YIELD == 0 or self._core.clock.now() - self._begun >= TIME_SLICE_SECONDS:
            await asyncio.sleep(PAUSE_SECONDS if self._core.jobs_arriving and not self._urgent else 0)
            self._begun = self._core.clock.now()


async def plan(
    core: Core, reserved: Reservations, queries: Iterable[PlacementQuery], time_slice: TimeSlice
) -> list[PlannedJob]:
    """Plan jobs in turn, each with what the earlier ones reserved; ask for no bids.

    Equal jobs share the decision on the first of them that does not fit.
    """
    planned: list[PlannedJob] = []
    waits: dict[str, PlannedJob] = {}  # by shape
    try:
        for query in queries:
            shape = shape_of(core.fleet, query.owner, query.request.text, query.terms) if waits else ""
            one = waits.get(shape) or _plan_job(core, reserved, query)
            planned.append(one)
            if one.state is _HELD:
                waits[shape or shape_of(core.fleet, query.owner, query.request.text, query.terms)] = one
            await time_slice.after_decision()
    except BaseException:  # an internal error, or the caller is cancelled
        reserved.release(planned)
        raise
    return planned


def _plan_job(core: Core, reserved: Reservations, query: PlacementQuery) -> PlannedJob:
    try:
        question = build_question(core, query)
        if wants_bids(question, core.policies):
            return DECIDE_ALONE
        return plan_decision(core, reserved, query, question)
    except RainbowError as error:
        return DECIDE_ALONE._replace(error=error)


def plan_decision(core: Core, reserved: Reservations, query: PlacementQuery, question: Question) -> PlannedJob:
    """Decide one question as it is; raise what the policy raises."""
    decision = decide(question, core.policies)
    record, outcome = StoredDecision.of(decision), decision.outcome
    if isinstance(outcome, Chosen):
        cluster = outcome.cluster
        fence = reserved.reserve(cluster, query.request, query.owner)
        return PlannedJob(_BOUND, f"given to {cluster}", cluster, fence, record)
    state = _INFEASIBLE if isinstance(outcome, Refuse) else _HELD
    return PlannedJob(state, "; ".join(outcome.reasons), record=record)


async def question_with_bids(core: Core, query: PlacementQuery) -> Question:
    """Return the question, with bids of the matching clusters if the policy wants them."""
    question = build_question(core, query)
    if not wants_bids(question, core.policies):
        return question
    names = clusters_to_ask(question, core.policies, core.settings.bidders)
    hosts = _hosts(core, query.request, names)
    bids, silent = await core.bidding.ask(query.request.text, names, core.presence.reachable(core.clock.now()), hosts)
    return build_question(core, query._replace(bids=bids, silent=silent))


def _hosts(core: Core, request: PreparedRequest, names: Iterable[str]) -> dict[str, tuple[GroupHosts, ...]]:
    """Return the hosts to which the request is bound, by cluster."""
    fleet = core.fleet
    if not request.may_bind:
        return {}
    rules = {name: fleet.member(name).cluster.node_rules for name in names}
    return {name: bound_offer(fleet, name, request, rules[name]).hosts for name in rules}


@dataclass(frozen=True, slots=True)
class ApplyRefused:
    """Why the store took nothing of a plan: a job moved on, a cluster left or changed its rules, another
    writer was faster, or this server no longer leads."""

    error: RainbowError

    @property
    def is_final(self) -> bool:
        """Return True if this server cannot apply any plan: another one leads."""
        return isinstance(self.error, Unavailable)


async def apply(
    core: Core, reserved: Reservations, work: Callable[[Tx, Effects], T], *, brief: bool = False
) -> T | ApplyRefused:
    """Store a plan by `work`, and keep what it reserved once that is durable.

    Call it inside the block of `reserved`, which releases everything otherwise, and in a task that nobody
    cancels (see `core.uncancelled`).
    """

    def checked(tx: Tx, fx: Effects) -> T:
        tx.check_clusters(reserved.clusters)
        return work(tx, fx)

    try:
        return await core.transact(checked, brief=brief, durable=reserved.keep)
    except (Conflict, NotFound, AlreadyExists, Replaced) as error:
        log.info("a plan was refused: %s", error)
        return ApplyRefused(error)


async def apply_together(
    core: Core, reserved: Reservations, planned: Sequence[tuple[Job, PlannedJob]]
) -> ApplyRefused | None:
    """Assign or hold many queued jobs in a few statements."""
    decided = [
        DecidedJob(
            job=job,
            decision=one.record,
            reason=one.reason,
            cluster=one.cluster,
            token=one.fence,
            hold=None if one.cluster else Hold.NOTHING_FITS,
        )
        for job, one in planned
        if one.record is not None
    ]

    def work(tx: Tx, fx: Effects) -> None:
        lifecycle.place_all(tx, fx, decided, core.clock.now())

    return await apply(core, reserved, work) if decided else None


async def apply_alone(
    core: Core, reserved: Reservations, job: Job, one: PlannedJob, excluded: str = ""
) -> ApplyRefused | None:
    """Assign, hold or refuse one stored job; `excluded`: the clusters that it may not use for a while."""

    def work(tx: Tx, fx: Effects) -> None:
        now = core.clock.now()
        current = lifecycle.require_job(tx, job.id)
        if current.version != job.version:
            raise Conflict(f"job {job.id} has moved on")
        if one.cluster and one.record is not None:
            lifecycle.bind(tx, fx, current, one.cluster, one.fence, one.record, now)
            return
        if one.record is not None:
            tx.put_decision(job.id, 0, now, one.record)
        if one.state is JobState.INFEASIBLE:
            lifecycle.give_up(tx, fx, current, JobEvent.INFEASIBLE, one.reason, now)
            return
        if current.state is JobState.QUEUED:
            lifecycle.hold(tx, fx, current, Hold.NOTHING_FITS, one.reason, now)
        waiting = WaitingJob(job.id, job.terms.priority, job.spec, job.terms, job.owner)
        fx.waiting.append((waiting, excluded))

    return await apply(core, reserved, work)
