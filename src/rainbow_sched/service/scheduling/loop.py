"""Decide jobs that were not decided when they came: bids were wanted, nothing fitted, or an attempt came back.

One task works through the shelf whenever something has changed. Jobs of one shape that do
not fit are passed over after the first of them was tried.
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
from rainbow_sched.model.request import Request
from rainbow_sched.selection.decide import Question, clusters_to_ask, decide, wants_bids
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.host_binding import bound_offer
from rainbow_sched.service.agents.offers import RECEIVER
from rainbow_sched.service.agents.reports import BLAMES_CLUSTER
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.scheduling.batches import TOGETHER, decide_together
from rainbow_sched.service.scheduling.pending import shape_of
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
RETURNED_COUNTS = 60.0  # seconds for which a cluster that handed a job back is not asked again for it; then twice ...
DOUBLINGS = 6  # ... as long, so often at most: one that never takes it is not asked for ever
BIDS_AT_ONCE = 64
AGAIN_AFTER = 1.0  # seconds


@dataclass(slots=True)
class SchedulingLoop:
    """Works through the jobs on the shelf."""

    core: Core

    async def run(self) -> None:
        """Decide for ever; an error of one job is logged and does not stop the others."""
        while True:
            await self.core.pending.stirred()
            try:
                await self.decide_pending()
            except Unavailable as error:
                log.warning("waiting jobs could not be decided: %s", error)
                await self._try_again()
            except Exception:  # a fault of ours; without the next pass nothing would be decided until a restart
                log.exception("waiting jobs could not be decided")
                await self._try_again()

    async def decide_pending(self) -> None:
        """Decide everything that can be decided now."""
        await self._queued()
        for shape in self.core.pending.order():
            await self._pile(shape)

    async def _queued(self) -> None:
        limit = asyncio.Semaphore(BIDS_AT_ONCE)

        async def one(id: int) -> None:
            async with limit:
                try:
                    await self._try(id)
                except Unavailable as error:
                    log.warning("job %d could not be decided: %s", id, error)
                    failed.append(id)

        failed: list[int] = []
        while taken := self.core.pending.take_queued(TOGETHER):
            ids = await restore.hold_old(self.core, taken)
            try:
                alone = await decide_together(self.core, ids)
            except Unavailable as error:
                log.warning("%d jobs could not be decided: %s", len(ids), error)
                failed.extend(ids)
                continue
            except Exception:  # a fault of ours that one of them shows: it is found alone
                log.exception("%d jobs could not be decided together", len(ids))
                alone = ids
            await asyncio.gather(*(one(id) for id in alone))
        if failed:
            await self._try_again()
            self.core.pending.add_queued(failed)

    async def _try(self, id: int, needs_now: Request | None = None) -> None:
        """Decide one job; one over which that fails is tried again later, each time after a longer pause."""
        try:
            if needs_now is None or self.core.fleet.graphs.match(needs_now).now:
                await self.decide(id)
        except Unavailable:
            raise
        except RainbowError as error:
            pause = self.core.pending.put_off(id, self.core.clock.now())
            log.warning("job %d could not be decided, and is tried again in %.0f s: %s", id, pause, error)
        except Exception:  # a fault of ours, which stops no other job
            pause = self.core.pending.put_off(id, self.core.clock.now())
            log.exception("job %d could not be decided, and is tried again in %.0f s", id, pause)

    async def _try_again(self) -> None:
        """The store did not take a decision: not at once again, and no job is forgotten."""
        await asyncio.sleep(AGAIN_AFTER)
        self.core.pending.retry_all()

    async def _pile(self, shape: str) -> None:
        """Try the first job of a pile; go on while jobs leave it."""
        pile = self.core.pending.piles.get(shape)
        while pile is not None and pile.tried_at != self.core.fleet.version:
            id = self.core.pending.first(shape)
            if id is None:
                return
            pile.tried_at = self.core.fleet.version
            pile.tries += 1
            pile.tried_time = self.core.clock.now()
            await self._try(id, pile.needs_now)

    async def decide(self, id: int) -> bool:
        """Decide one job and store the outcome; True if it left the shelf."""
        job = await self.core.store.read(lambda tx: tx.job(id))
        if job is None or not _undecided(job):
            self.core.pending.remove([id])
            return True
        excluded = await self.excluded(job)
        query = PlacementQuery(
            request=self.core.request_of(job.spec),
            spec=job.spec,
            terms=job.terms,
            owner=job.owner,
            excluded=excluded,
            seed=self.core.ids.seed(),
        )
        try:
            question = await self.question_with_bids(query)
            decision = decide(question, self.core.policies)
        except Unavailable:  # graphs that cannot be asked now say nothing against the job
            raise
        except RainbowError as error:
            reason = str(error)
            await self.core.write(lambda tx, fx: self._refuse(tx, fx, id, reason))
            return True
        pile = self.core.pending.pile_of(id)
        if pile is not None:
            pile.needs_now = None if wants_bids(question, self.core.policies) else query.request
        return await self._store(job, query, decision)

    async def question_with_bids(self, query: PlacementQuery) -> Question:
        """The question, with the bids of the clusters that match when they are wanted."""
        core = self.core
        question = build_question(core, query)
        if not wants_bids(question, core.policies):
            return question
        names = clusters_to_ask(question, core.policies, core.settings.bidders)
        hosts = self._hosts(query.request, names)
        answers = await core.bidding.ask(query.spec, names, core.presence.listening(core.clock.now()), hosts)
        with_answers = query._replace(bids=answers.bids, silent=answers.silent)
        return build_question(core, with_answers)

    def _hosts(self, request: Request, names: Iterable[str]) -> dict[str, tuple[GroupHosts, ...]]:
        """By cluster, the hosts to which the request is bound there."""
        fleet = self.core.fleet
        if not fleet.may_bind(request):
            return {}
        rules = {name: fleet.member(name).cluster.node_rules for name in names}
        return {name: bound_offer(fleet, name, request, rules[name]).hosts for name in rules}

    async def excluded(self, job: Job) -> Mapping[str, str]:
        """Clusters that handed this job back, or could not run it, a moment ago."""
        if not job.attempt:
            return {}
        attempts = await self.core.store.read(lambda tx: tx.attempts(job.id))
        now = self.core.clock.now()
        times: Counter[str] = Counter()
        excluded = {}
        for a in attempts:
            if not (_refused(a) or a.failure in BLAMES_CLUSTER):
                continue
            counts = RETURNED_COUNTS * 2.0 ** min(times[a.cluster], DOUBLINGS)
            times[a.cluster] += 1
            if now - counts < (a.ended_at or 0) <= now:  # a clock that was set back excludes nobody for long
                excluded[a.cluster] = f"handed it back: {a.reason}" if a.reason else "handed it back"
        return excluded

    async def _store(self, job: Job, query: PlacementQuery, decision: Decision) -> bool:
        """Commit the decision by compare-and-set; a lost race means that somebody else moved the job."""
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
            gone = await self.core.write(work)
        except Exception as error:  # whatever it is, what was set aside is free again
            if isinstance(outcome, Chosen):
                self.core.fleet.release(outcome.cluster, fence)
            if isinstance(error, Conflict):
                return False
            raise
        if not gone and self.core.pending.pile_of(job.id) is None:
            without = ",".join(sorted(query.excluded))
            shape = shape_of(self.core.fleet, job.owner, job.spec, job.terms)
            self.core.pending.put(job.id, job.terms.priority, shape + without)
        return gone

    def _refuse(self, tx: Tx, fx: Effects, id: int, reason: str) -> None:
        job = lifecycle.require_job(tx, id)
        if _undecided(job):
            lifecycle.give_up(tx, fx, job, JobEvent.INFEASIBLE, reason, self.core.clock.now())


def _undecided(job: Job) -> bool:
    return job.state is JobState.QUEUED or (job.state is JobState.HELD and job.hold is Hold.NOTHING_FITS)


def _released(tx: Tx, job: Job, now: float) -> Job:
    return tx.update_job(job, JobEvent.RELEASED, now, detail={"reason": "a cluster fits now"}, hold=None)


def bid_of(
    cluster: str, asked_at: float, now: float, values: Mapping[str, float | None], yes: bool, reason: str
) -> Bid:
    """An agent's answer as a bid; numbers that make no sense are refused by `Bid` itself."""
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
    """True if the cluster would not have it; a receiver that took it and did not come back says nothing of that.

    Nor does a lease that lapsed before anybody was told of it.
    """
    told = bool(attempt.holder) and not attempt.holder.startswith(RECEIVER)
    return (told and attempt.state is AttemptState.LAPSED) or attempt.state is AttemptState.RETURNED
