"""Handle one Sync of an agent: store its message in one transaction, then answer with news or wait for some.

A message with the same (epoch, seq) gets the stored answer. All parts of a message are idempotent,
so a lost reply does no harm. If the transaction fails because of an item, it is repeated with a
savepoint per item, and the items that fail are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.binding import NO_NODE_RULES
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Conflict, Corrupt, Invalid, Unavailable
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, answer_to_proto
from rainbow_sched.protocol.messages import (
    AllowedHosts,
    BidRequest,
    Report,
    SyncAnswer,
    SyncRequest,
    UnknownReport,
    journal_of,
)
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents import reports
from rainbow_sched.service.agents.answer_draft import AnswerDraft, SyncTransaction, commands_of, offer_of, ref_of
from rainbow_sched.service.agents.host_binding import UNBOUND_OFFER
from rainbow_sched.service.agents.offers import ALL_OFFERS, Bindings, OfferFilter, bound_offers, lease_offers
from rainbow_sched.service.agents.recall import take_recall
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.clusters.registration import set_standing
from rainbow_sched.service.clusters.reported_state import (
    apply_patch,
    dominant,
    merge_state,
    resolve_marks,
    resolve_used,
)
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.wakeups import cluster_topic
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
MAX_OFFERS_PER_SYNC = 200  # bounds the transaction and the answer of one Sync
GOLDEN_RATIO = 0.618034  # its multiples spread evenly
ANSWER_SECONDS = 5.0  # after which an offer that the agent does not hold counts as lost


@dataclass(slots=True)
class SyncHandler:
    """The server's side of all agents."""

    core: Core
    _current_epochs: dict[int, str]  # by cluster id
    _superseded_epochs: set[str] = field(default_factory=set)  # of earlier agent processes
    _logged_filter_errors: dict[str, str] = field(default_factory=dict)  # by cluster

    async def sync(self, request: SyncRequest, server: str) -> SyncAnswer:
        """Store the message; answer at once if there is news for the agent, else when there is or the wait ends.

        `server`: the id of this process, which a stored answer keeps.
        """
        if not request.epoch or len(request.epoch) > 64 or request.message.seq < 1:
            raise Invalid("a Sync carries an epoch of 1 to 64 characters and a seq from 1 up")
        name = request.cluster
        id = self.core.fleet.member(name).cluster.id
        if self._current_epochs.get(id) != request.epoch:  # after a restart of either side
            last_epoch = await self.core.store.read(lambda tx: self._last_epoch(tx, request))
            if last_epoch is not None:
                self._current_epochs.setdefault(id, last_epoch)
        self._refuse_second_agent(request, self._current_epochs.get(id))
        self.core.presence.sync_started(name, self.core.clock.now())
        before = self._current_epochs.get(id)
        if before is not None and before != request.epoch:
            self._superseded_epochs.add(before)
        self._current_epochs[id] = request.epoch
        try:
            if await restore.recall_needed(self.core, name, request.message.mark) and request.message.recall is None:
                return await self._request_recall(request, server)
            if before == request.epoch:  # the first message of a process gets no offers
                await self._take_node_rules(request)
            version = self.core.notifier.version(cluster_topic(name))  # read first, so that no notification is missed
            stored, idle = await self.core.store.read(lambda tx: self._stored_answer(tx, request))
            if stored is None:
                answer = await self._new_answer(request, server, version, idle=idle)
            else:
                answer = answer_from_proto(agents_pb2.SyncResponse.FromString(stored))
            return replace(answer, bid_requests=self._bid_requests(name), heartbeat=self.core.presence.interval())
        finally:
            self.core.presence.sync_ended(name, self.core.clock.now())

    async def _request_recall(self, request: SyncRequest, server: str) -> SyncAnswer:
        """Store nothing from an agent that knows more than the database; request its full recall."""
        if not request.recalls:
            await restore.reject_without_recall(self.core, request.cluster)
        attempts = await self.core.store.read(lambda tx: lifecycle.accepted_attempts(tx, request.cluster))
        return SyncAnswer(
            ack=request.message.seq,
            resync=True,
            recall=True,
            expected=tuple(map(ref_of, attempts)),
            server=server,
            heartbeat=self.core.presence.interval(),
        )

    async def _take_node_rules(self, request: SyncRequest) -> None:
        """Update what the agent's manager supports, before offers are made."""
        rules = request.node_rules or NO_NODE_RULES
        if self.core.fleet.member(request.cluster).cluster.node_rules == rules:
            return

        def work(tx: Tx, fx: Effects) -> None:
            self._refuse_superseded(tx, request)
            cluster = tx.cluster(request.cluster)
            if cluster is not None and cluster.node_rules != rules:
                fx.changed(tx.update_cluster(cluster.id, node_rules=rules))

        await self.core.write(work)

    def _refuse_second_agent(self, request: SyncRequest, before: str | None) -> None:
        """Raise Conflict for a second agent of a cluster; a restarted one, known by its journal, may take over."""
        if request.epoch in self._superseded_epochs:
            raise Conflict(f"this message comes from an agent of {request.cluster!r} that was superseded by another")
        if before is None or journal_of(before) == journal_of(request.epoch):
            return
        if not self.core.presence.is_gone(request.cluster, self.core.clock.now()):
            raise Conflict(
                f"another agent of cluster {request.cluster!r} is connected; stop it and wait until it counts as gone, "
                "run this one on its state directory, or give this one its own cluster"
            )

    def _last_epoch(self, tx: Tx, request: SyncRequest) -> str | None:
        self._refuse_superseded(tx, request)
        return tx.agent_epoch(request.cluster)

    def _refuse_superseded(self, tx: Tx, request: SyncRequest) -> None:
        """Raise Conflict for a process that another has superseded, as stored in the database."""
        if tx.epoch_is_over(request.cluster, request.epoch):
            raise Conflict(f"this message comes from an agent of {request.cluster!r} that was superseded by another")

    def _stored_answer(self, tx: Tx, request: SyncRequest) -> tuple[bytes | None, bool]:
        """Return the stored answer to this message, if any, and whether there is nothing to store or to answer."""
        stored = tx.stored_sync(request.cluster, request.epoch, request.message.seq)
        if stored is not None or request.message.must_be_stored or tx.agent_epoch(request.cluster) != request.epoch:
            return stored, False
        out = AnswerDraft(commands=commands_of(tx.commands(request.cluster)))
        suspects = reports.take_inventory(tx, out, request.cluster, [ref for ref, _ in request.message.held])
        waiting = request.message.want > 0 and bool(lifecycle.unconfirmed_attempts(tx, request.cluster, 1))
        return None, not (out.has_content() or suspects or waiting)

    async def _new_answer(self, request: SyncRequest, server: str, version: int, *, idle: bool) -> SyncAnswer:
        request, offer_filter = self._offer_filter(request)
        message, cluster = request.message, request.cluster
        answer = None if idle else await self._apply_message(request, server, offer_filter)
        for id, bid in message.bids:
            self.core.bidding.take_answer(cluster, id, bid)
        await self._update_circuit_breaker(cluster)
        if answer is not None:
            return answer
        wait = min(max(message.wait, 0.0), self.core.settings.long_poll) * _wait_factor(self.core.fleet, cluster)
        notified = not idle
        if not self.core.bidding.open_requests(cluster) and wait > 0:
            notified = await self.core.notifier.wait(cluster_topic(cluster), version, wait) or notified
        if not notified:
            last = await self.core.store.read(lambda tx: tx.last_seq())
            return AnswerDraft().answer(message.seq, server, self.core.history.signed_mark(last))

        bindings = await self._bindings(request)

        def second(tx: Tx, fx: Effects) -> SyncAnswer:
            sync = SyncTransaction(self.core, request, tx, fx, self.core.clock.now())
            self._add_work(sync, offer_filter, bindings)
            return self._store_answer(sync, server)

        return await self.core.write(second)

    async def _apply_message(self, request: SyncRequest, server: str, offer_filter: OfferFilter) -> SyncAnswer | None:
        """Store the message; return an answer if there is one to give."""
        marks, used = await self._resolve_vertices(request)
        bindings = await self._bindings(request)

        def first(isolated: bool, tx: Tx, fx: Effects) -> SyncAnswer | None:
            sync = SyncTransaction(self.core, request, tx, fx, self.core.clock.now(), isolated=isolated)
            self._apply(sync, marks, used)
            sync.run("what the agent is to do", partial(self._add_work, sync, offer_filter, bindings))
            return self._store_answer(sync, server) if sync.out.has_content() else None

        try:
            return await self.core.write(partial(first, False))
        except Unavailable:
            raise
        except Exception:  # find the failing item; if there is none, the error is raised again
            return await self.core.write(partial(first, True))

    def _offer_filter(self, request: SyncRequest) -> tuple[SyncRequest, OfferFilter]:
        """Return which jobs the agent accepts; no offers at all if its filter is invalid."""
        try:
            offer_filter = OfferFilter(request.accept_only, request.order_by)
        except Invalid as error:
            if self._logged_filter_errors.get(request.cluster) != str(error):
                self._logged_filter_errors[request.cluster] = str(error)
                why = "its agent's --accept or --order is not understood"
                log.warning("%s gets no jobs: %s: %s", request.cluster, why, error)
            return replace(request, message=replace(request.message, want=0)), ALL_OFFERS
        self._logged_filter_errors.pop(request.cluster, None)
        return request, offer_filter

    async def _bindings(self, request: SyncRequest) -> Bindings:
        """Return the hosts that offers to this agent carry."""
        if request.message.want <= 0:
            return Bindings()
        return await bound_offers(self.core, request.cluster, request.node_rules)

    async def _resolve_vertices(self, request: SyncRequest) -> tuple[Mapping[str, Mark], Mapping[str, int] | None]:
        facts = request.message.facts
        if facts is None or (not facts.marks and facts.used is None):
            return {}, None
        try:
            graph = await dominant(self.core, request.cluster)
        except Corrupt as error:
            log.warning("node states from the agent of %s are ignored: %s", request.cluster, error)
            return {}, None
        marks = resolve_marks(graph, facts.marks, lenient=True)
        return marks, None if facts.used is None else resolve_used(graph, facts.used, lenient=True)

    def _apply(self, sync: SyncTransaction, marks: Mapping[str, Mark], used: Mapping[str, int] | None) -> None:
        """Apply everything in the message, in the order in which it can have happened."""
        tx, fx, now, out, request = sync.tx, sync.fx, sync.now, sync.out, sync.request
        name, message = request.cluster, request.message
        self._refuse_superseded(tx, request)
        known = tx.agent_epoch(name)
        take_recall(sync, known)
        if known != request.epoch:
            out.resync = message.recall is None  # a recall already has everything
            out.expected = list(map(ref_of, lifecycle.accepted_attempts(tx, name)))
            self._agent_started(tx, fx, request, now)
        open_ids = {command.id for command in tx.commands(name)} if message.acks else set()
        for id in open_ids.intersection(message.acks):
            sync.run(f"acknowledgement {id}", partial(tx.ack_command, id))
        for piece in message.output:
            sync.run(f"output of job {piece.ref.job}", partial(reports.store_output, sync, piece))
        received: list[Report | UnknownReport] = [*message.reports, *message.unknown]
        for report in received:
            if not sync.run(f"a report of job {report.ref.job}", partial(reports.take, sync, report)):
                out.unknown.append(report.ref)
        for ref, reason in message.rejects:
            sync.run(f"job {ref.job}, handed back", partial(reports.reject, sync, ref, reason))
        for ref in message.accepts:
            sync.run(f"job {ref.job}, accepted", partial(reports.accept, sync, ref))
        ended = {(r.ref.job, r.ref.n) for r in message.reports} | {(ref.job, ref.n) for ref, _ in message.rejects}
        answered = set(message.accepts)
        held = [ref for ref, _ in message.held if (ref.job, ref.n) not in ended and ref not in answered]
        for attempt in reports.take_inventory(tx, out, name, held):
            back = partial(tx.update_attempt, attempt, attempt.state, now, suspect=False)
            sync.run(f"job {attempt.job}, held", back)
        if message.facts is not None and message.facts.state is not None:
            sync.run("the state", partial(merge_state, tx, fx, name, message.facts.state, now))
        if marks or used is not None:
            sync.run("the nodes", partial(apply_patch, tx, fx, name, marks, used))

    def _agent_started(self, tx: Tx, fx: Effects, request: SyncRequest, now: float) -> None:
        """Record a new agent process: the cluster is reachable again."""
        cluster = tx.cluster(request.cluster)
        if cluster is None:
            return
        standing = Standing.ACTIVE if cluster.standing is Standing.UNREACHABLE else cluster.standing
        manager = request.manager[:64] or cluster.manager
        rules = request.node_rules or NO_NODE_RULES
        fx.changed(tx.update_cluster(cluster.id, standing=standing, manager=manager, seen_at=now, node_rules=rules))

    def _add_work(self, sync: SyncTransaction, offer_filter: OfferFilter, bindings: Bindings) -> None:
        """Add commands until acknowledged, and as many offers as the agent wants."""
        tx, fx, out, request = sync.tx, sync.fx, sync.out, sync.request
        out.commands = commands_of(tx.commands(request.cluster))
        member, want = self.core.fleet.get(request.cluster), min(request.message.want, MAX_OFFERS_PER_SYNC)
        if want <= 0 or member is None or out.resync:
            return
        until = sync.now + self.core.settings.lease
        offered = self._lost_offers(sync, until, bindings)
        if want > len(offered):
            room = want - len(offered)
            leased, more = lease_offers(
                self.core, tx, fx, request.cluster, room, request.epoch, until, offer_filter, bindings
            )
            offered += leased
            if more:  # after other writes: the notification wakes this call, or the agent's next
                fx.wake.add(request.cluster)
        out.offers = [offer_of(attempt, job, attempt.created_at, bindings.hosts(attempt)) for attempt, job in offered]

    def _lost_offers(self, sync: SyncTransaction, until: float, bindings: Bindings) -> list[tuple[Attempt, Job]]:
        """Return offers that were sent to this agent and that it does not hold, because an answer was lost."""
        tx, fx, now, request = sync.tx, sync.fx, sync.now, sync.request
        message = request.message
        held = {(ref.job, ref.n) for ref in (*(ref for ref, _ in message.held), *message.accepts)}
        lost = []
        for attempt in tx.attempts_in(request.cluster, AttemptState.LEASED):
            lapsed = attempt.lease_until is not None and attempt.lease_until <= now
            if lapsed or (attempt.job, attempt.n) in held:
                continue  # lapsed offers are leased again with the others
            job = lifecycle.readable_job(tx, attempt.job)  # a damaged one is ended when it is leased again
            if job is None or job.state is not JobState.BOUND:
                continue
            bound = bindings.of(attempt) if self.core.request_of(job.spec).may_bind else UNBOUND_OFFER
            if bound is None:  # not known yet
                continue
            if bound.refusal:
                how = lifecycle.AttemptEnd(state=AttemptState.RETURNED, reason=bound.refusal)
                lifecycle.end_attempt(tx, fx, job, attempt, how, now)
                continue
            if attempt.holder == request.epoch:
                if (attempt.lease_until or 0) < until - ANSWER_SECONDS:
                    lost.append((attempt, job))
            elif journal_of(attempt.holder) == journal_of(request.epoch):  # restarted without a record of it
                leased = tx.update_attempt(attempt, AttemptState.LEASED, now, holder=request.epoch, lease_until=until)
                lost.append((leased, job))
        return lost[:MAX_OFFERS_PER_SYNC]

    def _store_answer(self, sync: SyncTransaction, server: str) -> SyncAnswer:
        tx, request = sync.tx, sync.request
        self._refuse_superseded(tx, request)
        answer = sync.out.answer(request.message.seq, server, self.core.history.signed_mark(tx.last_seq()))
        encoded = answer_to_proto(answer).SerializeToString()
        tx.store_sync(request.cluster, request.epoch, request.message.seq, encoded)
        return answer

    def _bid_requests(self, cluster: str) -> tuple[BidRequest, ...]:
        """Return the open bid requests as they are sent now."""
        now = self.core.clock.now()
        return tuple(
            BidRequest(each.id, each.spec, max(0.0, each.until - now), AllowedHosts(each.hosts, checked=True))
            for each in self.core.bidding.open_requests(cluster)
        )

    async def _update_circuit_breaker(self, name: str) -> None:
        """Open the circuit breaker of a cluster after failures in a row; one good start closes it."""
        member = self.core.fleet.get(name)
        if member is None:
            return
        standing = member.cluster.standing
        if standing is Standing.ACTIVE and member.failures_in_row >= self.core.settings.breaker:
            why = f"{member.failures_in_row} failures or refusals in a row; one job at a time until one starts"
            await set_standing(self.core, name, Standing.DEGRADED, why)
        elif standing is Standing.DEGRADED and member.failures_in_row == 0:
            await set_standing(self.core, name, Standing.ACTIVE, "")


def _wait_factor(fleet: Fleet, cluster: str) -> float:
    """Return a cluster's own factor for long waits, so that agents do not all return at the same moment."""
    member = fleet.get(cluster)
    return 0.8 + 0.2 * (0 if member is None else member.cluster.id * GOLDEN_RATIO % 1.0)
