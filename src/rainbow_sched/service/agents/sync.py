"""One Sync of an agent: everything it says takes effect in one transaction; then it is told what is new, or waits.

The same (epoch, seq) sent again gets the stored answer. Everything an agent says may be
said twice without harm, so a reply that was lost before it was stored does no harm either.

One bad item never stops the others. If the transaction fails because of what the agent says, it is
done again with each item in a savepoint of its own, and the items that fail are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from rainbow_sched.model.attempt import BEFORE_CONFIRM, LIVE, Attempt, AttemptState
from rainbow_sched.model.binding import NO_NODE_RULES, may_bind
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Conflict, Corrupt, Invalid, Unavailable
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.job import Job, JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents import reports
from rainbow_sched.service.agents.host_binding import UNBOUND_OFFER
from rainbow_sched.service.agents.items import Items, Separately, Together
from rainbow_sched.service.agents.offers import ALL_OFFERS, Bindings, OfferFilter, bound_offers, lease_offers
from rainbow_sched.service.agents.recall import take_recall
from rainbow_sched.service.agents.report_reader import storable
from rainbow_sched.service.agents.sync_messages import AgentMessage, AgentReply, AttemptRef, journal_of
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.clusters.registration import set_standing
from rainbow_sched.service.clusters.reported_state import (
    apply_patch,
    dominant,
    merge_state,
    of_this_graph,
    resolve_marks,
    resolve_used,
)
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.scheduling.bids import OpenBidRequest
from rainbow_sched.service.scheduling.loop import bid_of
from rainbow_sched.service.wakeups import cluster_topic
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
MOST_OFFERS = 200
GOLDEN = 0.618034  # its multiples are spread evenly
ANSWER_TAKES = 5.0  # seconds after which an offer that the agent does not hold counts as lost on the way
Encode = Callable[[AgentReply], bytes]


@dataclass(frozen=True, slots=True)
class EncodedReply:
    """What goes back: a stored answer as it was, or a new one; and the bid requests of this moment."""

    answer: bytes
    bid_requests: list[OpenBidRequest]
    heartbeat: float


@dataclass(slots=True)
class SyncHandler:
    """The server's side of all agents."""

    core: Core
    _epochs: dict[int, str]  # who spoke last, by the cluster's id: a name that is registered again is another cluster
    _over: set[str] = field(default_factory=set)  # epochs of processes that were followed by another
    _unread: dict[str, str] = field(default_factory=dict)  # by cluster: a choice of jobs that was not understood

    async def sync(self, message: AgentMessage, encode: Encode) -> EncodedReply:
        """Take what an agent says; answer at once if there is something to say, else when there is or time is up."""
        if not message.epoch or len(message.epoch) > 64 or message.seq < 1:
            raise Invalid("a Sync carries an epoch of 1 to 64 characters and a seq from 1 up")
        name = message.cluster
        id = self.core.fleet.member(name).cluster.id
        if (
            self._epochs.get(id) != message.epoch
        ):  # it has just started, or this process has: the database knows who spoke
            kept = await self.core.store.read(lambda tx: self._spoke_last(tx, message))
            if kept is not None:
                self._epochs.setdefault(id, kept)
        self._refuse_second(message, self._epochs.get(id))
        self.core.presence.enters(name, self.core.clock.now())
        goes_on = self._epochs.get(id) == message.epoch
        before = self._epochs.get(id, message.epoch)
        if before != message.epoch:
            self._over.add(before)
        self._epochs[id] = message.epoch
        try:
            if await restore.recall_needed(self.core, name, message.mark) and message.recall is None:
                return await self._ask_recall(message, encode)
            if goes_on:  # a new process is heard of first: its first message gets no offers
                await self._take_node_rules(message)
            version = self.core.notifier.version(cluster_topic(name))  # before the look: what is stored after it rings
            stored, idle = await self.core.store.read(lambda tx: self._look(tx, message))
            if stored is None:
                stored = await self._fresh(message, encode, version, idle=idle)
            return EncodedReply(stored, self.core.bidding.open_requests(name), self.core.presence.interval())
        finally:
            self.core.presence.leaves(name, self.core.clock.now())

    async def _ask_recall(self, message: AgentMessage, encode: Encode) -> EncodedReply:
        """Take nothing of a message whose sender knows more than the database; ask it for everything."""
        if not message.recalls:
            await restore.reject_without_recall(self.core, message.cluster)

        def work(tx: Tx) -> bytes:
            accepted = [attempt for state in LIVE[2:] for attempt in tx.attempts_in(message.cluster, state)]
            expected = [AttemptRef(attempt.job, attempt.n, attempt.token) for attempt in accepted]
            return encode(AgentReply(resync=True, recall=True, expected=expected))

        answer = await self.core.store.read(work)
        return EncodedReply(answer, [], self.core.presence.interval())

    async def _take_node_rules(self, message: AgentMessage) -> None:
        """The agent can tell its manager more, or less, than before: what it is offered follows from that."""
        rules = message.node_rules or NO_NODE_RULES
        if self.core.fleet.member(message.cluster).cluster.node_rules == rules:
            return

        def work(tx: Tx, fx: Effects) -> None:
            self._refuse_old(tx, message)
            cluster = tx.cluster(message.cluster)
            if cluster is not None and cluster.node_rules != rules:
                fx.changed(tx.update_cluster(cluster.id, node_rules=rules))

        await self.core.write(work)

    def _refuse_second(self, message: AgentMessage, before: str | None) -> None:
        """Two agents of one cluster would fight over its jobs. A restarted one, known by its journal, may take over."""
        if message.epoch in self._over:  # it would undo what its successor was promised
            raise Conflict(f"this message comes from an agent of {message.cluster!r} that another has followed")
        if before is None or journal_of(before) == journal_of(message.epoch):
            return
        if not self.core.presence.missed(message.cluster, self.core.clock.now()):
            raise Conflict(
                f"another agent of cluster {message.cluster!r} is there; stop it and wait until it is missed, "
                "run this one on its state directory, or give this one its own cluster"
            )

    def _spoke_last(self, tx: Tx, message: AgentMessage) -> str | None:
        self._refuse_old(tx, message)
        return tx.agent_epoch(message.cluster)

    def _refuse_old(self, tx: Tx, message: AgentMessage) -> None:
        """A process that was followed by another would undo what its successor was promised; the database remembers."""
        if tx.epoch_is_over(message.cluster, message.epoch):
            raise Conflict(f"this message comes from an agent of {message.cluster!r} that another has followed")

    def _look(self, tx: Tx, message: AgentMessage) -> tuple[bytes | None, bool]:
        """The answer that this very message got before; and whether there is nothing to store or to say."""
        stored = tx.stored_sync(message.cluster, message.epoch, message.seq)
        if stored is not None or message.has_changes() or tx.agent_epoch(message.cluster) != message.epoch:
            return stored, False
        out = AgentReply(commands=tx.commands(message.cluster))
        suspects = reports.take_inventory(tx, out, message.cluster, [ref for ref, _ in message.held])
        waiting = message.want > 0 and any(tx.attempts_in(message.cluster, state, 1) for state in BEFORE_CONFIRM)
        return None, not (out.has_content() or suspects or waiting)

    async def _fresh(self, message: AgentMessage, encode: Encode, version: int, *, idle: bool) -> bytes:
        message, wanted = self._choice(message)
        answer = None if idle else await self._at_once(message, encode, wanted)
        self._take_bids(message)
        await self._update_circuit_breaker(message.cluster)
        if answer is not None:
            return answer
        waited = min(max(message.wait, 0.0), self.core.settings.long_poll) * _share(self.core.fleet, message.cluster)
        notified = not idle
        if not self.core.bidding.open_requests(message.cluster) and waited > 0:
            notified = await self.core.notifier.wait(cluster_topic(message.cluster), version, waited) or notified
        if not notified:
            last = await self.core.store.read(lambda tx: tx.last_seq())
            return encode(
                AgentReply(mark=self.core.history.signed_mark(last))
            )  # there is nothing to undo if it is said again

        bindings = await self._bindings(message)

        def second(tx: Tx, fx: Effects) -> bytes:
            out = AgentReply()
            self._outbox(tx, fx, message, out, wanted, bindings)
            return self._stored(tx, message, out, encode)

        return await self.core.write(second)

    async def _at_once(self, message: AgentMessage, encode: Encode, wanted: OfferFilter) -> bytes | None:
        """Store what the agent says; an answer if there is one to give."""
        marks, used = await self._looked_up(message)
        bindings = await self._bindings(message)

        def first(items: Items, tx: Tx, fx: Effects) -> bytes | None:
            out = self._apply(items, tx, fx, message, marks, used)

            def outbox() -> None:
                self._outbox(tx, fx, message, out, wanted, bindings)

            items.each(tx, fx, out, "what the agent is to do", outbox)
            return self._stored(tx, message, out, encode) if out.has_content() else None

        try:
            return await self.core.write(partial(first, Together()))
        except Unavailable:
            raise
        except Exception:  # an item's, which is then found; or the whole message's, and then it is raised again
            return await self.core.write(partial(first, Separately(message.cluster)))

    def _choice(self, message: AgentMessage) -> tuple[AgentMessage, OfferFilter]:
        """Which jobs the agent takes; no offers if that cannot be read, for nobody knows which ones it would take."""
        try:
            chosen = OfferFilter(message.accept_only, message.order_by)
        except Invalid as problem:
            if self._unread.get(message.cluster) != str(problem):
                self._unread[message.cluster] = str(problem)
                why = "its agent's --accept or --order is not understood"
                log.warning("%s gets no jobs: %s: %s", message.cluster, why, problem)
            return replace(message, want=0), ALL_OFFERS
        self._unread.pop(message.cluster, None)
        return message, chosen

    async def _bindings(self, message: AgentMessage) -> Bindings:
        """The hosts that offers to this agent carry."""
        return await bound_offers(self.core, message.cluster, message.node_rules) if message.want > 0 else Bindings()

    async def _looked_up(self, message: AgentMessage) -> tuple[Mapping[str, Mark], Mapping[str, int] | None]:
        if not message.marks and message.used is None:
            return {}, None
        try:
            graph = await dominant(self.core, message.cluster)
        except Corrupt as problem:
            log.warning("what the agent of %s says of its nodes is left out: %s", message.cluster, problem)
            return {}, None
        marks, used = of_this_graph(graph, message.marks, message.used)
        return resolve_marks(graph, marks), None if used is None else resolve_used(graph, used)

    def _apply(
        self,
        items: Items,
        tx: Tx,
        fx: Effects,
        message: AgentMessage,
        marks: Mapping[str, Mark],
        used: Mapping[str, int] | None,
    ) -> AgentReply:
        """Everything an agent says, in the order in which it can have happened."""
        now, name, out = self.core.clock.now(), message.cluster, AgentReply()
        self._refuse_old(tx, message)
        known = tx.agent_epoch(name)
        take_recall(self.core, items, tx, fx, out, message, known)
        if known != message.epoch:
            out.resync = message.recall is None  # else it has just told everything
            accepted = [attempt for state in LIVE[2:] for attempt in tx.attempts_in(name, state)]
            out.expected = [AttemptRef(attempt.job, attempt.n, attempt.token) for attempt in accepted]
            self._arrived(tx, fx, message, now)
        each = partial(items.each, tx, fx, out)
        mine = {command.id for command in tx.commands(name)} if message.command_acks else set()
        for id in mine.intersection(message.command_acks):
            each(f"acknowledgement {id}", partial(tx.ack_command, id))
        cap = self.core.settings.output_cap
        for piece in message.output:
            each(f"output of job {piece.ref.job}", partial(reports.store_output, tx, fx, out, name, piece, cap, now))
        for report in message.reports:
            done = each(f"a report of job {report.ref.job}", partial(reports.report, tx, fx, out, name, report, now))
            if not done:
                out.unknown.append(report.ref)
        for unknown in message.unknown:
            told_of = partial(reports.store_unknown_report, tx, fx, out, name, unknown, now)
            if not each(f"a report of job {unknown.ref.job}", told_of):
                out.unknown.append(unknown.ref)
        for ref, reason in message.rejects:
            each(f"job {ref.job}, handed back", partial(reports.reject, tx, fx, out, message, ref, reason, now))
        for ref in message.accepts:
            each(f"job {ref.job}, accepted", partial(self._accept, tx, fx, out, message, ref, now))
        ended = {(r.ref.job, r.ref.n) for r in message.reports} | {(ref.job, ref.n) for ref, _ in message.rejects}
        answered = set(message.accepts)
        held = [ref for ref, _ in message.held if (ref.job, ref.n) not in ended and ref not in answered]
        for attempt in reports.take_inventory(tx, out, name, held):
            back = partial(tx.update_attempt, attempt, attempt.state, now, suspect=False)
            each(f"job {attempt.job}, held", back)
        if message.state is not None:
            each("the state", partial(merge_state, tx, fx, name, message.state, now))
        if marks or used is not None:
            each("the nodes", partial(apply_patch, tx, fx, name, marks, used))
        return out

    def _accept(self, tx: Tx, fx: Effects, out: AgentReply, message: AgentMessage, ref: AttemptRef, now: float) -> None:
        """Confirm an accepted job, unless it may run elsewhere: then it is accepted again and again, or handed back."""
        if not restore.may_run_elsewhere(self.core, tx, ref.job, message.cluster):
            reports.accept(tx, fx, out, message, ref, now)

    def _arrived(self, tx: Tx, fx: Effects, message: AgentMessage, now: float) -> None:
        """A new agent speaks for the cluster: it is reachable again."""
        cluster = tx.cluster(message.cluster)
        if cluster is None:
            return
        standing = Standing.ACTIVE if cluster.standing is Standing.UNREACHABLE else cluster.standing
        manager = storable(message.manager)[:64] or cluster.manager
        rules = message.node_rules or NO_NODE_RULES
        fx.changed(tx.update_cluster(cluster.id, standing=standing, manager=manager, seen_at=now, node_rules=rules))

    def _outbox(
        self, tx: Tx, fx: Effects, message: AgentMessage, out: AgentReply, wanted: OfferFilter, bindings: Bindings
    ) -> None:
        """What the agent is to do: commands until acknowledged, and as many offers as it wants."""
        out.commands = tx.commands(message.cluster)
        member = self.core.fleet.get(message.cluster)
        if message.want > 0 and member is not None and not out.resync:
            until = self.core.clock.now() + self.core.settings.lease
            limit = min(message.want, MOST_OFFERS)
            out.offers = self._offered_again(tx, fx, message, until, bindings)
            if limit > len(out.offers):
                room = limit - len(out.offers)
                offers, more = lease_offers(
                    self.core, tx, fx, message.cluster, room, message.epoch, until, wanted, bindings
                )
                out.offers += offers
                if more:  # after other writes: the bell wakes this very call, or the agent's next
                    fx.wake.add(message.cluster)
            hosts = {attempt.token: bindings.hosts(attempt) for attempt, _ in out.offers}
            out.hosts = {token: allowed for token, allowed in hosts.items() if allowed}

    def _offered_again(
        self, tx: Tx, fx: Effects, message: AgentMessage, until: float, bindings: Bindings
    ) -> list[tuple[Attempt, Job]]:
        """What this agent was offered and does not hold: the answer that brought it was lost, or it was killed then."""
        held = {(ref.job, ref.n) for ref, _ in message.held} | {(ref.job, ref.n) for ref in message.accepts}
        now = self.core.clock.now()
        found = []
        for attempt in tx.attempts_in(message.cluster, AttemptState.LEASED):
            lapsed = attempt.lease_until is not None and attempt.lease_until <= now
            if lapsed or (attempt.job, attempt.n) in held:
                continue  # what has lapsed is leased anew with the others, for as long as any offer
            try:
                job = tx.job(attempt.job)
            except Corrupt:
                continue  # it ends when its lease has lapsed and it is leased again
            if job is None or job.state is not JobState.BOUND:
                continue
            bound = bindings.of(attempt) if may_bind(self.core.request_of(job.spec)) else UNBOUND_OFFER
            if bound is None:  # not known yet
                continue
            if bound.refusal:
                how = lifecycle.AttemptEnd(state=AttemptState.RETURNED, reason=bound.refusal)
                lifecycle.end_attempt(tx, fx, job, attempt, how, now)
                continue
            if attempt.holder == message.epoch:
                if (attempt.lease_until or 0) < until - ANSWER_TAKES:
                    found.append((attempt, job))
            elif journal_of(attempt.holder) == journal_of(
                message.epoch
            ):  # it was started again, and has no record of it
                leased = tx.update_attempt(attempt, AttemptState.LEASED, now, holder=message.epoch, lease_until=until)
                found.append((leased, job))
        return found[:MOST_OFFERS]

    def _stored(self, tx: Tx, message: AgentMessage, out: AgentReply, encode: Encode) -> bytes:
        self._refuse_old(tx, message)
        out.mark = self.core.history.signed_mark(tx.last_seq())
        answer = encode(out)
        tx.store_sync(message.cluster, message.epoch, message.seq, answer)
        return answer

    def _take_bids(self, message: AgentMessage) -> None:
        now = self.core.clock.now()
        for answer in message.bids:
            asked_at = self.core.bidding.asked_at(message.cluster, answer.id)
            if asked_at is None:
                continue
            try:
                bid = bid_of(message.cluster, asked_at, now, answer.values, answer.yes, answer.reason)
            except Invalid as error:
                bid = bid_of(message.cluster, asked_at, now, {}, False, f"its bid makes no sense: {error}")
            self.core.bidding.take_answer(message.cluster, answer.id, bid)

    async def _update_circuit_breaker(self, name: str) -> None:
        """Trip the breaker of a cluster after failures in a row; one good start closes it."""
        member = self.core.fleet.get(name)
        if member is None:
            return
        standing = member.cluster.standing
        if standing is Standing.ACTIVE and member.bad_streak >= self.core.settings.breaker:
            why = f"{member.bad_streak} failures or refusals in a row; one job at a time until one starts"
            await set_standing(self.core, name, Standing.DEGRADED, why)
        elif standing is Standing.DEGRADED and member.bad_streak == 0:
            await set_standing(self.core, name, Standing.ACTIVE, "")


def _share(fleet: Fleet, cluster: str) -> float:
    """Which part of a long wait a cluster gets, each its own: agents that came together do not all return together."""
    member = fleet.get(cluster)
    return 0.8 + 0.2 * (0 if member is None else member.cluster.id * GOLDEN % 1.0)
