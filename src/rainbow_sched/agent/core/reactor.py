"""The agent's state machine: `react(state, event, now)` returns the next state and a list of commands.

It reads no clock, draws no random numbers and does no I/O, so the same code runs beside a cluster and in the
simulation. The phases of an attempt and their transitions are the table `STEPS` in `values.py`.

Invariants: nothing is submitted before the server has confirmed it and the intent is on disk; nothing is submitted
twice; a failed query is repeated and decides nothing; a result is written to disk, then reported until the server has
stored it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core import manager
from rainbow_sched.agent.core.journal_records import marked, offer_record
from rainbow_sched.agent.core.mailbox import RETRY_SECONDS, apply_answer, facts_due, send_due
from rainbow_sched.agent.core.state import NEVER, AgentState, StateDraft
from rainbow_sched.agent.core.values import WITH_MANAGER, AttemptStep, LocalAttempt, PastAttempt, Phase, StopReason
from rainbow_sched.protocol.messages import STREAMS


def react(state: AgentState, event: e.AgentEvent, now: float) -> tuple[AgentState, tuple[e.Command, ...]]:
    """Return the next state and the commands for `event`."""
    draft = StateDraft(state, now)
    _HANDLERS[type(event)](draft, event)
    _read_output(draft)
    _forget_finished(draft)
    send_due(draft)
    return draft.done(), tuple(draft.commands)


def due(state: AgentState, now: float) -> float | None:
    """Return when the next `Tick` is needed at the latest; None if only another event can change the state."""
    times = [attempt.act_at for attempt in state.attempts.values() if attempt.act_at is not None]
    times += [at for at in state.expected.values() if at is not None]
    later = list(state.failed_reads.values())
    later += [
        attempt.ended_clock + grace
        for attempt in state.attempts.values()
        if attempt.phase is Phase.FINISHED
        for grace in (state.limits.output_grace, state.limits.output_give_up)
    ]
    if state.contact_at is not None:
        guards = (attempt.offer.guard(state.limits.run_guard) for attempt in state.attempts.values())
        later += [state.contact_at + guard for guard in guards if guard is not None]
    if (telling := facts_due(state)) is not None:
        later.append(telling)
    times += [at for at in later if at > now]
    if state.in_flight is None:
        sending = max(state.send_at, state.quiet_until)
        times += [sending] if state.listening is None or sending > now else []
    elif state.resend_at is not None:
        times.append(state.resend_at)
    return min(times, default=None)


def idle(state: AgentState) -> bool:
    """Return True if nothing is left to do except reports that the server does not understand."""
    unfinished = any(not one.unknown or one.phase is not Phase.FINISHED for one in state.attempts.values())
    return not (unfinished or state.checking or state.expected or state.rejects or state.acks or state.acks_pending)


def _started(d: StateDraft, event: e.Started) -> None:
    d.contact_at = event.contact_at
    for ref, attempt in list(d.attempts.items()):
        attempt = d.attempts[ref] = replace(attempt, ended_clock=d.now)
        if attempt.phase is Phase.INTENT:
            manager.look_up(d, attempt)
        elif attempt.phase is Phase.ACCEPTED:
            d.attempts[ref] = replace(attempt, act_at=d.now + 2 * attempt.offer.lease)
        elif attempt.stop_reason and attempt.phase in WITH_MANAGER:
            manager.cancel(d, attempt)
    _cancel_out_of_contact(d)  # a guard may have expired while the agent was down


def _cancel_out_of_contact(d: StateDraft) -> None:
    """Cancel attempts that the server may soon declare lost, because it was out of contact for too long."""
    for attempt in list(d.attempts.values()):
        if (
            not attempt.stop_reason
            and attempt.phase in WITH_MANAGER
            and d.contact_at is not None
            and d.out_of_contact(attempt)
        ):
            manager.cancel(d, d.request_stop(attempt, StopReason.GUARD))


def _sync_answered(d: StateDraft, event: e.SyncAnswered) -> None:
    apply_answer(d, event.answer)


def _sync_failed(d: StateDraft, event: e.SyncFailed) -> None:
    if d.in_flight is not None and event.seq == d.in_flight.seq:
        d.resend_at = d.now + event.retry_in
    elif event.seq == d.listening:
        d.listening = None


def _offer_checked(d: StateDraft, event: e.OfferChecked) -> None:
    offer = d.checking.pop(event.offer.ref, None)
    if offer is None:
        return
    if event.reason is not None:
        d.rejects[offer.ref] = event.reason
    else:
        d.attempts[offer.ref] = LocalAttempt(offer=offer)
        d.do(e.WriteJournal(offer.ref, "offer", marked(offer_record(offer), d.mark)))


def _record_stored(d: StateDraft, event: e.RecordStored) -> None:
    if event.kind in ("cancel", "end"):
        d.acks += tuple(id for id, ref in d.acks_pending if ref == event.ref)
        d.acks_pending = tuple((id, ref) for id, ref in d.acks_pending if ref != event.ref)
    if event.kind == "absent":
        d.rejects[event.ref] = d.past[event.ref].reason if event.ref in d.past else "absent"
        return
    attempt = d.attempts.get(event.ref)
    if attempt is None:
        return
    if event.kind == "offer":
        accepted = d.step(attempt, AttemptStep.OFFER_STORED)
        if accepted is not None:
            d.attempts[event.ref] = replace(accepted, act_at=d.now + 2 * attempt.offer.lease)
    elif event.kind == "intent":
        intent = d.step(attempt, AttemptStep.INTENT_STORED)
        if intent is not None:
            manager.submit(d, intent)
    elif event.kind == "end":
        d.step(attempt, AttemptStep.END_STORED)


def _graph_replaced(d: StateDraft, event: e.GraphReplaced) -> None:
    d.facts_reported, d.facts_at = None, NEVER


def _output_read(d: StateDraft, event: e.OutputRead) -> None:
    chunk = event.chunk
    key, attempt = (chunk.ref, chunk.stream), d.attempts.get(chunk.ref)
    d.open_reads.discard(key)
    if attempt is None:
        return
    i = STREAMS.index(chunk.stream)
    if chunk.data and chunk.offset == attempt.sent[i]:
        d.chunks[key] = chunk
    elif not chunk.data:  # no more output than what was sent
        sizes = tuple(attempt.sent[j] if j == i else size for j, size in enumerate(attempt.sizes))
        d.attempts[chunk.ref] = replace(attempt, sizes=(sizes[0], sizes[1]))


def _read_failed(d: StateDraft, event: e.OutputUnread) -> None:
    key = (event.ref, event.stream)
    d.open_reads.discard(key)
    if event.ref in d.attempts:
        d.failed_reads[key] = d.now + RETRY_SECONDS


def _bid_ready(d: StateDraft, event: e.BidReady) -> None:
    d.open_bids.discard(event.id)
    d.bids += ((event.id, event.answer),)


def _tick(d: StateDraft, event: e.Tick) -> None:
    for attempt in list(d.attempts.values()):
        if attempt.act_at is not None and d.now >= attempt.act_at:
            _retry(d, attempt)
    _cancel_out_of_contact(d)
    for ref, at in list(d.expected.items()):
        if at is not None and d.now >= at:
            d.expected[ref] = None
            d.do(e.Lookup(ref))


def _retry(d: StateDraft, attempt: LocalAttempt) -> None:
    if attempt.phase is Phase.ACCEPTED:
        reason = "the server did not confirm it in time"
        d.forget(attempt.ref, PastAttempt(reason=reason))
        d.rejects[attempt.ref] = reason
    elif attempt.phase is Phase.INTENT:
        manager.look_up(d, attempt)
    elif attempt.stop_reason and attempt.phase in WITH_MANAGER:
        manager.cancel(d, attempt)
    elif attempt.phase in WITH_MANAGER:
        manager.look_up(d, attempt)


def _stop(d: StateDraft, event: e.StopAsked) -> None:
    d.stopping = True


def _read_output(d: StateDraft) -> None:
    """Read the next chunks of output, a bounded number at a time."""
    for ref, attempt in d.attempts.items():
        if attempt.sizes == attempt.sent:
            continue
        for i, stream in enumerate(STREAMS):
            if len(d.open_reads) + len(d.chunks) >= d.limits.chunks:
                return
            key = (ref, stream)
            waits = key in d.chunks or key in d.open_reads or d.now < d.failed_reads.get(key, NEVER)
            if attempt.sizes[i] > attempt.sent[i] and not waits:
                d.failed_reads.pop(key, None)
                d.open_reads.add(key)
                d.do(e.ReadOutput(ref, stream, attempt.sent[i], d.limits.chunk))


def _forget_finished(d: StateDraft) -> None:
    """Forget attempts that have ended and are stored by the server."""
    for ref, attempt in list(d.attempts.items()):
        if attempt.phase is not Phase.FINISHED:
            continue
        sent = all(size <= done for size, done in zip(attempt.sizes, attempt.sent, strict=True))
        given_up = d.now >= attempt.ended_clock + d.limits.output_give_up
        killed = attempt.stop_reason is StopReason.KILL and attempt.reported == attempt.state
        if killed or (attempt.acked and (sent or given_up)):
            d.forget(ref, PastAttempt(result=attempt.result))


_HANDLERS: dict[type[e.AgentEvent], Callable[[StateDraft, Any], None]] = {
    e.Started: _started,
    e.SyncAnswered: _sync_answered,
    e.SyncFailed: _sync_failed,
    e.OfferChecked: _offer_checked,
    e.RecordStored: _record_stored,
    e.SubmitAnswered: manager.submit_answered,
    e.SubmitRefused: manager.submit_refused,
    e.SubmitUnclear: manager.submit_unclear,
    e.LookedUp: manager.looked_up,
    e.BackendUpdated: manager.backend_updated,
    e.GraphReplaced: _graph_replaced,
    e.OutputRead: _output_read,
    e.OutputUnread: _read_failed,
    e.BidReady: _bid_ready,
    e.Tick: _tick,
    e.StopAsked: _stop,
}
