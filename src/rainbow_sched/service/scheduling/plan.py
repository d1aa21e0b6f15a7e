"""The way of every decision: snapshot, plan, apply; for submissions, long batches and the scheduling loop alike.

1. A Question holds everything that one decision depends on: the fleet is matched, nothing is changed.
2. A plan is an assignment, a wait with its reasons, a refusal, or bids first. It stores nothing, but reserves what it
   assigns, so that the jobs planned next see it as taken.
3. Applying stores a plan in one transaction, then keeps what it reserved, or releases all of it. The store may refuse
   because the world has changed. The caller then plans again with the fleet as it is, never the same plan twice.
"""

from __future__ import annotations

import asyncio
import fnmatch
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from rainbow_sched.model.bid import Bid
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.candidate import Candidate
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.decision import Chosen, Refuse, StoredDecision
from rainbow_sched.model.errors import AlreadyExists, Conflict, NotFound, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.model.match import Fit, Matches
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.decisions import MAX_REASONS, clusters_to_ask, decide, wants_bids
from rainbow_sched.selection.question import NO_MISFITS, Question
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.host_binding import (
    bound_offer,
    clusters_limited_to_one_group,
    clusters_without_binding,
    clusters_without_placement,
    mixed_reason,
)
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.clusters.rules import ClusterRefusals, apply_rules
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.pending_jobs import shape_of
from rainbow_sched.store.base import DecidedJob, Tx, WaitingJob
from rainbow_sched.store.claim import Replaced

log = logging.getLogger(__name__)
MAX_PLANS = 3  # of a job in a row that are refused; then it is decided later
DECISIONS_PER_YIELD = 8  # then other tasks run
TIME_SLICE_SECONDS = 0.01  # of decisions in a row; then other tasks run
PAUSE_SECONDS = 0.01  # a batch being stored has priority over the decisions of the scheduling loop
# Access to enum members is slow, and this is a hot path: look them up once.
_QUEUED, _BOUND, _HELD, _INFEASIBLE = JobState.QUEUED, JobState.BOUND, JobState.HELD, JobState.INFEASIBLE
T = TypeVar("T")
NONE: Mapping[str, str] = MappingProxyType({})
NO_BIDS: Mapping[str, Bid] = MappingProxyType({})


class PlacementQuery(NamedTuple):
    """A request with its terms, to be placed on the fleet."""

    request: PreparedRequest
    terms: Terms
    owner: str = ""  # of the job
    seed: int = 0
    excluded: Mapping[str, str] = NONE  # clusters with the reason
    bids: Mapping[str, Bid] = NO_BIDS
    silent: Mapping[str, str] = NONE  # why a cluster that was asked gave no bid
    show_slots: bool = False  # count how many slots would fit


def exclusions(core: Core, query: PlacementQuery) -> tuple[frozenset[str], ClusterRefusals, Mapping[str, str]]:
    """Return the clusters that a job cannot get, whatever they have free.

    They are hidden from its owner, refuse it, or take no work now; hidden ones are not among the others.
    """
    fleet, request = core.fleet, query.request
    hidden = frozenset[str]()
    if query.terms.opened:
        hidden = frozenset(name for name in fleet.names() if not opens(fleet, query.terms, name))
    refused: ClusterRefusals = {}
    if fleet.rules:
        hidden_by_rules, refused = apply_rules(core, query.owner, request, signed=bool(query.terms.signature))
        hidden |= hidden_by_rules
    if fleet.without_binding:
        refused = {**clusters_without_binding(fleet, request), **refused}
    if len(request.request.groups) > 1:
        refused = {**clusters_limited_to_one_group(fleet, request), **refused}
    closed = fleet.closed()
    if query.excluded:
        closed = {**closed, **{name: why for name, why in query.excluded.items() if fleet.get(name) is not None}}
    if hidden:
        closed = {name: why for name, why in closed.items() if name not in hidden}
        refused = {name: why for name, why in refused.items() if name not in hidden}
    return hidden, refused, closed


def build_question(core: Core, query: PlacementQuery) -> Question:
    """Return everything that one decision depends on, at this moment."""
    fleet, now = core.fleet, core.clock.now()
    hidden, refused, closed = exclusions(core, query)
    out = hidden | closed.keys() | refused.keys() if hidden or closed or refused else hidden
    matches = _matches(fleet, query.request, out)
    if unplaceable := clusters_without_placement(fleet, query.request, matches.ever):
        refused = {**unplaceable, **refused}
        matches = _matches(fleet, query.request, out | unplaceable.keys())
    criteria = core.criteria.of(query.request, query.terms, core.settings)
    count = query.show_slots or core.policies.wants_slots(criteria.policy, criteria.options)
    ever, names = matches.ever, matches.names
    if count or query.bids or query.silent:
        candidates = CandidateSet([_candidate(name, matches, fleet, query) for name in ever], fleet.fleet_parts)
    else:
        candidates = fleet.candidates(matches)
    misfits = NO_MISFITS
    if refused or closed or len(ever) < len(names):
        misfits = {**refused, **{name: (Fit.UNKNOWN, why) for name, why in closed.items()}}
        fitting = set(ever)
        misfits.update((name, (matches.fit(name), "")) for name in names if name not in fitting)
        if query.request.may_bind:
            misfits.update(
                _mixed_reasons(fleet, query.request, [name for name in names if matches.fit(name) is Fit.NEVER])
            )
    return Question(criteria, candidates, misfits, query.seed, fleet.version, now)


def _mixed_reasons(fleet: Fleet, request: PreparedRequest, names: Collection[str]) -> ClusterRefusals:
    """Return the clusters that could run the request if their manager could be given more constraints."""
    found: ClusterRefusals = {}
    for name in names:
        if len(found) < MAX_REASONS and (why := mixed_reason(fleet, name, request)):
            found[name] = (Fit.NEVER, why)
    return found


def opens(fleet: Fleet, terms: Terms, name: str) -> bool:
    """Return True if the credential behind these terms covers the cluster that has this name now."""
    if not terms.opened or any(fnmatch.fnmatchcase(name, pattern) for pattern in terms.opened):
        return True
    member = fleet.get(name)
    return member is not None and f"{name}@{member.cluster.id}" in terms.opened


def pinned(fleet: Fleet, terms: Terms) -> Terms:
    """Return the terms with `NAME@ID` for each covered cluster, so that a later cluster of that name is not covered."""
    if not terms.opened:
        return terms
    members = {name: fleet.get(name) for name in terms.opened}
    return replace(
        terms, opened=tuple(f"{name}@{member.cluster.id}" if member else name for name, member in members.items())
    )


def unpinned(name: str) -> str:
    """Return the name of a cluster that `pinned` may have bound to an id."""
    return name.partition("@")[0]


def _matches(fleet: Fleet, request: PreparedRequest, closed: Collection[str]) -> Matches:
    if not closed:
        return fleet.graphs.match(request)
    return fleet.graphs.match(request, [name for name in fleet.names() if name not in closed])


def _candidate(name: str, matches: Matches, fleet: Fleet, query: PlacementQuery) -> Candidate:
    """Return one cluster with its slots counted and its bid, if it was asked."""
    verdict = matches.verdict(name)
    return fleet.candidate(
        name,
        verdict.fit,
        slots_now=verdict.slots_now,
        slots_ever=verdict.slots_ever,
        bid=query.bids.get(name),
        no_bid=query.silent.get(name, ""),
    )


class PlannedJob(NamedTuple):
    """What becomes of one pending job."""

    state: JobState  # BOUND: assigned; HELD: nothing fits now; INFEASIBLE: refused; QUEUED: to be decided alone
    reason: str
    cluster: str = ""
    fence: str = ""
    record: StoredDecision | None = None
    error: RainbowError | None = None  # why it could not be decided


UNDECIDED_JOB = PlannedJob(_QUEUED, "waits for its decision")


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
            return UNDECIDED_JOB
        return plan_decision(core, reserved, query, question)
    except RainbowError as error:
        return UNDECIDED_JOB._replace(error=error)


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
