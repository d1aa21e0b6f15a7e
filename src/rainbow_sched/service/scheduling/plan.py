"""Plan what becomes of pending jobs: an assignment, a wait with its reasons, a refusal, or bids first.

A plan stores nothing. It reserves what it assigns, so that the jobs planned next see it as taken, and
`apply.py` stores it. The same functions plan submissions, long batches and the retries of the scheduling loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.decision import Chosen, Refuse, StoredDecision
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.decisions import Question, clusters_to_ask, decide, wants_bids
from rainbow_sched.service.agents.host_binding import bound_offer
from rainbow_sched.service.core import Core
from rainbow_sched.service.scheduling.pending_jobs import shape_of
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question

DECISIONS_PER_YIELD = 8  # then other tasks run
TIME_SLICE_SECONDS = 0.01
PAUSE_SECONDS = 0.01  # a batch being stored has priority over the decisions of the scheduling loop
UNDECIDED = "waits for its decision"
# Access to enum members is slow, and this is a hot path: look them up once.
_QUEUED, _BOUND, _HELD, _INFEASIBLE = JobState.QUEUED, JobState.BOUND, JobState.HELD, JobState.INFEASIBLE


class PlannedJob(NamedTuple):
    """What becomes of one pending job."""

    state: JobState  # BOUND: assigned; HELD: nothing fits now; INFEASIBLE: refused; QUEUED: to be decided alone
    reason: str
    cluster: str = ""
    fence: str = ""
    record: StoredDecision | None = None
    error: RainbowError | None = None  # why it could not be decided


DECIDE_ALONE = PlannedJob(_QUEUED, UNDECIDED)


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
    answers = await core.bidding.ask(query.request.text, names, core.presence.reachable(core.clock.now()), hosts)
    return build_question(core, query._replace(bids=answers.bids, silent=answers.silent))


def _hosts(core: Core, request: PreparedRequest, names: Iterable[str]) -> dict[str, tuple[GroupHosts, ...]]:
    """Return the hosts to which the request is bound, by cluster."""
    fleet = core.fleet
    if not request.may_bind:
        return {}
    rules = {name: fleet.member(name).cluster.node_rules for name in names}
    return {name: bound_offer(fleet, name, request, rules[name]).hosts for name in rules}
