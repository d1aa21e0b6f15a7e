"""The scheduling loop: decide jobs that wait for bids or resources, or whose attempt came back.

One task decides the pending jobs whenever something has changed. Jobs of one shape are skipped
after the first of them did not fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.bid import Bid
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.decision import Chosen, Decision, Refuse, StoredDecision
from rainbow_sched.model.errors import Conflict, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job, JobEvent, JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.decide import Question, clusters_to_ask, decide, wants_bids
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.host_binding import bound_offer
from rainbow_sched.service.agents.offers import RECEIVER
from rainbow_sched.service.agents.reports import BLAMES_CLUSTER
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.scheduling.batches import MAX_JOBS_PER_WRITE, decide_batch
from rainbow_sched.service.scheduling.pending import shape_of
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
EXCLUDE_SECONDS = 60.0  # for which a cluster that returned a job is excluded; doubles each time
MAX_DOUBLINGS = 6
MAX_CONCURRENT_DECISIONS = 64
RETRY_SECONDS = 1.0


@dataclass(slots=True)
class SchedulingLoop:
    core: Core

    async def run(self) -> None:
        """Decide pending jobs until cancelled; an error of one job is logged and does not stop the others."""
        while True:
            await self.core.pending.wait_for_change()
            try:
                await self.decide_pending()
            except Unavailable as error:
                log.warning("pending jobs could not be decided: %s", error)
                await self._retry_later()
            except Exception:  # internal error; the loop must go on
                log.exception("pending jobs could not be decided")
                await self._retry_later()

    async def decide_pending(self) -> None:
        await self._decide_queued()
        for shape in self.core.pending.by_urgency():
            await self._decide_group(shape)

    async def _decide_queued(self) -> None:
        limit = asyncio.Semaphore(MAX_CONCURRENT_DECISIONS)

        async def one(id: int) -> None:
            async with limit:
                try:
                    await self._decide_or_defer(id)
                except Unavailable as error:
                    log.warning("job %d could not be decided: %s", id, error)
                    failed.append(id)

        failed: list[int] = []
        while taken := self.core.pending.take_queued(MAX_JOBS_PER_WRITE):
            ids = await restore.hold_old_jobs(self.core, taken)
            try:
                individually = await decide_batch(self.core, ids)
            except Unavailable as error:
                log.warning("%d jobs could not be decided: %s", len(ids), error)
                failed.extend(ids)
                continue
            except Exception:  # internal error: decide individually to find the job
                log.exception("%d jobs could not be decided together", len(ids))
                individually = ids
            await asyncio.gather(*(one(id) for id in individually))
        if failed:
            await self._retry_later()
            self.core.pending.add_queued(failed)

    async def _decide_or_defer(self, id: int, needs_now: PreparedRequest | None = None) -> None:
        """Decide one job; if that fails, retry later with exponential backoff."""
        try:
            if needs_now is None or self.core.fleet.graphs.match(needs_now).now:
                await self.decide(id)
        except Unavailable:
            raise
        except RainbowError as error:
            delay = self.core.pending.defer(id, self.core.clock.now())
            log.warning("job %d could not be decided; retry in %.0f s: %s", id, delay, error)
        except Exception:  # internal error; it must stop no other job
            delay = self.core.pending.defer(id, self.core.clock.now())
            log.exception("job %d could not be decided; retry in %.0f s", id, delay)

    async def _retry_later(self) -> None:
        """Wait before the next pass, because the store refused a write, and retry all pending jobs."""
        await asyncio.sleep(RETRY_SECONDS)
        self.core.pending.retry_all()

    async def _decide_group(self, shape: str) -> None:
        """Decide the first job of a shape group; go on while jobs leave the group."""
        group = self.core.pending.groups.get(shape)
        while group is not None and group.tried_at != self.core.fleet.version:
            id = self.core.pending.first_job(shape)
            if id is None:
                return
            group.tried_at = self.core.fleet.version
            group.tries += 1
            group.tried_time = self.core.clock.now()
            await self._decide_or_defer(id, group.needs_now)

    async def decide(self, id: int) -> bool:
        """Decide one job and store the outcome; return True if it is no longer pending."""
        job = await self.core.store.read(lambda tx: tx.job(id))
        if job is None or not _is_undecided(job):
            self.core.pending.remove([id])
            return True
        excluded = await self.excluded(job)
        query = PlacementQuery(
            request=self.core.request_of(job.spec),
            terms=job.terms,
            owner=job.owner,
            excluded=excluded,
            seed=self.core.ids.seed(),
        )
        try:
            question = await self.question_with_bids(query)
            decision = decide(question, self.core.policies)
        except Unavailable:  # the graph backend is away: no verdict on the job
            raise
        except RainbowError as error:
            reason = str(error)
            await self.core.write(lambda tx, fx: self._refuse(tx, fx, id, reason))
            return True
        group = self.core.pending.group_of(id)
        if group is not None:
            group.needs_now = None if wants_bids(question, self.core.policies) else query.request
        return await self._store(job, query, decision)

    async def question_with_bids(self, query: PlacementQuery) -> Question:
        """Return the question, with bids of the matching clusters if the policy wants them."""
        core = self.core
        question = build_question(core, query)
        if not wants_bids(question, core.policies):
            return question
        names = clusters_to_ask(question, core.policies, core.settings.bidders)
        hosts = self._hosts(query.request, names)
        answers = await core.bidding.ask(query.request.text, names, core.presence.reachable(core.clock.now()), hosts)
        with_bids = query._replace(bids=answers.bids, silent=answers.silent)
        return build_question(core, with_bids)

    def _hosts(self, request: PreparedRequest, names: Iterable[str]) -> dict[str, tuple[GroupHosts, ...]]:
        """Return the hosts to which the request is bound, by cluster."""
        fleet = self.core.fleet
        if not request.may_bind:
            return {}
        rules = {name: fleet.member(name).cluster.node_rules for name in names}
        return {name: bound_offer(fleet, name, request, rules[name]).hosts for name in rules}

    async def excluded(self, job: Job) -> Mapping[str, str]:
        """Return the clusters that recently returned this job or failed to run it."""
        if not job.attempt:
            return {}
        attempts = await self.core.store.read(lambda tx: tx.attempts(job.id))
        now = self.core.clock.now()
        times: Counter[str] = Counter()
        excluded = {}
        for a in attempts:
            if not (_refused(a) or a.failure in BLAMES_CLUSTER):
                continue
            counts = EXCLUDE_SECONDS * 2.0 ** min(times[a.cluster], MAX_DOUBLINGS)
            times[a.cluster] += 1
            if now - counts < (a.ended_at or 0) <= now:  # not in the future, if the clock was set back
                excluded[a.cluster] = f"handed it back: {a.reason}" if a.reason else "handed it back"
        return excluded

    async def _store(self, job: Job, query: PlacementQuery, decision: Decision) -> bool:
        """Commit the decision by compare-and-set; a lost race means that the job was changed elsewhere."""
        outcome, record, fence = decision.outcome, StoredDecision.of(decision), self.core.ids.fence()
        if isinstance(outcome, Chosen):
            self.core.fleet.place(outcome.cluster, fence, query.request, job.owner)

        def work(tx: Tx, fx: Effects) -> bool:
            now = self.core.clock.now()
            current = lifecycle.require_job(tx, job.id)
            if current.version != job.version:
                raise Conflict(f"job {job.id} has moved on")
            if isinstance(outcome, Chosen):
                ready = current if current.state is JobState.QUEUED else _released(tx, current, now)
                lifecycle.bind(tx, fx, ready, outcome.cluster, fence, record, now)
                return True
            tx.put_decision(job.id, 0, now, record)
            reason = "; ".join(outcome.reasons)
            if isinstance(outcome, Refuse):
                lifecycle.give_up(tx, fx, current, JobEvent.INFEASIBLE, reason, now)
                return True
            if current.state is JobState.QUEUED:
                lifecycle.hold(tx, fx, current, Hold.NOTHING_FITS, reason, now)
            return False

        try:
            left_pending = await self.core.write(work)
        except Exception as error:  # free the reservation
            if isinstance(outcome, Chosen):
                self.core.fleet.release(outcome.cluster, fence)
            if isinstance(error, Conflict):
                return False
            raise
        if not left_pending and self.core.pending.group_of(job.id) is None:
            excluded_names = ",".join(sorted(query.excluded))
            shape = shape_of(self.core.fleet, job.owner, job.spec, job.terms)
            self.core.pending.add(job.id, job.terms.priority, shape + excluded_names)
        return left_pending

    def _refuse(self, tx: Tx, fx: Effects, id: int, reason: str) -> None:
        job = lifecycle.require_job(tx, id)
        if _is_undecided(job):
            lifecycle.give_up(tx, fx, job, JobEvent.INFEASIBLE, reason, self.core.clock.now())


def _is_undecided(job: Job) -> bool:
    return job.state is JobState.QUEUED or (job.state is JobState.HELD and job.hold is Hold.NOTHING_FITS)


def _released(tx: Tx, job: Job, now: float) -> Job:
    return tx.update_job(job, JobEvent.RELEASED, now, detail={"reason": "a cluster fits now"}, hold=None)


def bid_of(
    cluster: str, asked_at: float, now: float, values: Mapping[str, float | None], yes: bool, reason: str
) -> Bid:
    """Return an agent's answer as a bid; `Bid` refuses invalid numbers."""
    p50, p90 = values.get("start_p50"), values.get("start_p90")
    return Bid(
        cluster=cluster,
        yes=yes,
        reason=reason[:1024],
        asked_at=asked_at,
        valid_until=now + min(max(values.get("valid_for") or 0.0, 0.0), 3600.0),
        start_p50=p50,
        start_p90=p90 if p90 is not None else p50,
        runtime_factor=values.get("runtime_factor") or 1.0,
        cost=values.get("cost"),
    )


def _refused(attempt: Attempt) -> bool:
    """Return True if the cluster refused the attempt.

    A lease that lapsed at a receiver, or before an agent had seen the offer, is no refusal.
    """
    agent_knew = bool(attempt.holder) and not attempt.holder.startswith(RECEIVER)
    return (agent_knew and attempt.state is AttemptState.LAPSED) or attempt.state is AttemptState.RETURNED
