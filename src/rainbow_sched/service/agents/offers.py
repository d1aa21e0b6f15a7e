"""Lease offers to agents and to the prototype's receivers; receivers accept for good."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.errors import Corrupt, Invalid
from rainbow_sched.model.job import Job
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.ranges import format_ranges
from rainbow_sched.selection.expressions import ExpressionError, compile_expression
from rainbow_sched.selection.job_filter import Value, holds, variables
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.agents.host_binding import UNBOUND_OFFER, BoundOffer, bound_offer
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance.restore import check_reported, may_run_elsewhere
from rainbow_sched.store.base import Tx

DEFAULT_JOBS_RECEIVED = 100  # of one call without a limit
MAX_JOBS_RECEIVED = 1_000  # bounds the transaction and the answer of one call
MAX_REFUSALS_PER_WRITE = 200  # offers that one transaction may refuse
MAX_OFFERS_ORDERED = 500  # offers that are sorted by a cluster's own order
MAX_REPLY_BYTES = 3 * 1024 * 1024  # the prototype's clients refuse replies over 4 MiB
MAX_LEASE_SECONDS = 3_600.0  # bounds how long a receiver can hold jobs without accepting them
RECEIVER = "receiver "  # prefix of a lease's holder; the time of the call follows

_compiled = lru_cache(256)(compile_expression)  # each Sync of a cluster repeats its expressions


@dataclass(frozen=True, slots=True)
class OfferFilter:
    """A cluster's `--accept` and `--order` expressions over jobs."""

    accept: str = ""  # empty: all jobs
    order: str = ""  # highest first; empty: by priority, then by id

    def __post_init__(self) -> None:
        for text in filter(None, (self.accept, self.order)):
            _compiled(text)

    def takes(self, job: Job, request: PreparedRequest) -> bool:
        """Return True if the cluster accepts the job; False if the filter uses a variable that the job lacks."""
        try:
            return not self.accept or holds(_compiled(self.accept), _variables(job, request))
        except ExpressionError:
            return False

    def rank(self, job: Job, request: PreparedRequest) -> tuple[float, int, int]:
        """Return the sort key of a job; jobs without a number come last."""
        try:
            value = _compiled(self.order)(_variables(job, request))
        except ExpressionError:
            value = ""
        number = float(value) if isinstance(value, bool | int | float) else -math.inf
        return -number, -job.terms.priority, job.id


ALL_OFFERS = OfferFilter()


@dataclass(frozen=True, slots=True)
class Bindings:
    """Host bindings of offers, by fence."""

    known: Mapping[str, BoundOffer] = field(default_factory=dict)
    default: BoundOffer | None = None  # for unknown fences; None: not known yet

    def of(self, attempt: Attempt) -> BoundOffer | None:
        """Return what the offer of an attempt carries; None: not known yet."""
        return self.known.get(attempt.token, self.default)

    def hosts(self, attempt: Attempt) -> tuple[GroupHosts, ...]:
        known = self.known.get(attempt.token)
        return () if known is None else known.hosts


async def receive(
    core: Core, cluster: str, limit: int, *, lease: float = 0.0, choice: OfferFilter = ALL_OFFERS
) -> list[tuple[Attempt, Job]]:
    """Lease jobs of a cluster to a receiver; what is not accepted in time is offered again."""
    if limit <= 0:
        limit = DEFAULT_JOBS_RECEIVED
    if not 0 <= lease <= MAX_LEASE_SECONDS:
        raise Invalid(f"a lease lasts for at most {MAX_LEASE_SECONDS:g} seconds")
    seconds = lease or core.settings.lease
    core.fleet.member(cluster)
    check_reported(core, cluster)

    def work(tx: Tx, fx: Effects) -> tuple[list[tuple[Attempt, Job]], bool]:
        now = core.clock.now()
        return lease_offers(
            core, tx, fx, cluster, min(limit, MAX_JOBS_RECEIVED), f"{RECEIVER}{now:.6f}", now + seconds, choice
        )

    found, more = await core.write(work)
    while more and not found:
        found, more = await core.write(work)
    return found


async def bound_offers(core: Core, cluster: str, rules: NodeRules | None) -> Bindings:
    """Return the host bindings of pending offers of a cluster.

    Computed before the transaction that leases them, because only the event loop's thread uses graphs.
    """
    member = core.fleet.get(cluster)
    if member is None or member.broken:
        return Bindings(default=BoundOffer(refusal="its stored graph is damaged"))
    if not member.bindable:
        return Bindings()
    attempts = await core.store.read(lambda tx: lifecycle.unconfirmed_attempts(tx, cluster, MAX_OFFERS_ORDERED))
    found = {}
    for attempt in attempts:
        request = member.bindable.get(attempt.token)
        if request is not None:
            found[attempt.token] = bound_offer(core.fleet, cluster, request, rules, attempt.token)
    return Bindings(found)


def lease_offers(
    core: Core,
    tx: Tx,
    fx: Effects,
    cluster: str,
    limit: int,
    holder: str,
    until: float,
    choice: OfferFilter,
    bindings: Bindings | None = None,
) -> tuple[list[tuple[Attempt, Job]], bool]:
    """Lease up to `limit` offers that the cluster accepts; return the others to the queue.

    The flag is True if other writes should go first and there may be more offers. `bindings`: for an
    agent (see `bound_offers`); None: for a receiver. An offer with unknown binding is left for the next call.
    """
    now = core.clock.now()
    taken: list[tuple[Attempt, Job]] = []
    size = refused = unknown = 0
    while len(taken) < limit and refused < MAX_REFUSALS_PER_WRITE and size <= MAX_REPLY_BYTES and not unknown:
        leased = _lease_next(core, tx, cluster, limit - len(taken), holder, until, choice)
        if not leased:
            break
        for attempt, job in leased:
            request = core.request_of(job.spec)
            bound = UNBOUND_OFFER if bindings is None or not request.may_bind else bindings.of(attempt)
            if bound is None:
                unknown += 1
                _put_back(tx, attempt, now)
                continue
            size += len(job.source) + len(job.spec) + bound.size + 256
            if size > MAX_REPLY_BYTES and taken:
                _put_back(tx, attempt, now)
            elif bound.refusal or not choice.takes(job, request):
                refused += 1
                why = bound.refusal or f"it takes only jobs with {choice.accept}"
                how = lifecycle.AttemptEnd(state=AttemptState.RETURNED, reason=why)
                lifecycle.end_attempt(tx, fx, job, attempt, how, now)
            else:
                taken.append((attempt, job))
    return _record_leases(tx, fx, cluster, taken, now), refused >= MAX_REFUSALS_PER_WRITE or bool(unknown)


def _put_back(tx: Tx, attempt: Attempt, now: float) -> None:
    """Leave an offer for the next call, with a full lease."""
    tx.update_attempt(attempt, AttemptState.LEASED, now, holder="", lease_until=now)


def _lease_next(
    core: Core, tx: Tx, cluster: str, limit: int, holder: str, until: float, choice: OfferFilter
) -> list[tuple[Attempt, Job]]:
    """Lease the next offers, in the cluster's own order if it has one."""
    now = core.clock.now()
    with suppress(Corrupt):  # a damaged job: plain leasing finds and ends it
        if choice.order:
            offered = tx.attempts_in(cluster, AttemptState.OFFERED, MAX_OFFERS_ORDERED)
            offered += [a for a in tx.attempts_in(cluster, AttemptState.LEASED) if (a.lease_until or 0.0) <= now]
            jobs = {job.id: job for job in tx.jobs([attempt.job for attempt in offered])}
            offered.sort(key=lambda a: choice.rank(jobs[a.job], core.request_of(jobs[a.job].spec)))
            lease = {"holder": holder, "lease_until": until}
            return [
                (tx.update_attempt(attempt, AttemptState.LEASED, now, **lease), jobs[attempt.job])
                for attempt in offered[:limit]
            ]
    return tx.lease(cluster, limit, holder, until, now=now)


def _record_leases(
    tx: Tx, fx: Effects, cluster: str, taken: list[tuple[Attempt, Job]], now: float
) -> list[tuple[Attempt, Job]]:
    """Record the leases in the jobs, for watchers."""
    if not taken:
        return []
    fx.events = True
    updated = tx.add_update_events(
        [job for _, job in taken], now, {"attempt": AttemptState.LEASED.value, "cluster": cluster}
    )
    return [(attempt, job) for (attempt, _), job in zip(taken, updated, strict=True)]


async def accept(core: Core, cluster: str, ids: Iterable[tuple[int, int, str]]) -> list[Attempt]:
    """Hand leased jobs over for good; skip those that are no longer leased to this cluster."""
    asked = list(ids)
    by = acting()

    def work(tx: Tx, fx: Effects) -> list[Attempt]:
        now = core.clock.now()
        done = []
        for job_id, n, token in asked:
            job = lifecycle.readable_job(tx, job_id)
            attempt = tx.attempt(job_id, n or (job.attempt if job else 0))
            if job is None or attempt is None or attempt.cluster != cluster or (token and token != attempt.token):
                continue
            if may_run_elsewhere(core, tx, job_id, cluster):
                continue
            if attempt.state is AttemptState.LEASED and job.attempt == attempt.n and not job.state.terminal:
                lifecycle.hand_off(tx, fx, job, attempt, now)
                done.append(attempt)
        if done:
            by.note(tx, "job.accept", format_ranges(attempt.job for attempt in done), now, f"for {cluster}")
        return done

    return await core.write(work)


def _variables(job: Job, request: PreparedRequest) -> dict[str, Value]:
    terms = job.terms
    return variables(request.request, owner=job.owner, name=job.name, priority=terms.priority, labels=terms.labels)
