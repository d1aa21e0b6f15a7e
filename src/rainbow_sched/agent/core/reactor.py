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
from rainbow_sched.agent.core.mailbox import ASK_AGAIN, facts_due, send_what_is_due, take_answer
from rainbow_sched.agent.core.state import NEVER, Draft, State
from rainbow_sched.agent.core.values import STREAMS, WITH_MANAGER, Held, Past, Phase, Step, Wish


def react(state: State, event: e.Event, now: float) -> tuple[State, tuple[e.Command, ...]]:
    """Return the next state and the commands for `event`."""
    draft = Draft(state, now)
    _HANDLERS[type(event)](draft, event)
    _read_output(draft)
    _let_go(draft)
    send_what_is_due(draft)
    return draft.done(), tuple(draft.commands)


def due(state: State, now: float) -> float | None:
    """Return when the next `Tick` is needed at the latest; None if only another event can change the state."""
    times = [held.act_at for held in state.held.values() if held.act_at is not None]
    times += [at for at in state.expected.values() if at is not None]
    later = list(state.unread.values())
    later += [
        held.ended_clock + grace
        for held in state.held.values()
        if held.phase is Phase.FINISHED
        for grace in (state.limits.output_grace, state.limits.output_give_up)
    ]
    if state.contact_at is not None:
        guards = (held.offer.guard(state.limits.run_guard) for held in state.held.values())
        later += [state.contact_at + guard for guard in guards if guard is not None]
    if (telling := facts_due(state)) is not None:
        later.append(telling)
    times += [at for at in later if at > now]
    if state.flight is None:
        sending = max(state.send_at, state.quiet_until)
        times += [sending] if state.listening is None or sending > now else []
    elif state.resend_at is not None:
        times.append(state.resend_at)
    return min(times, default=None)


def idle(state: State) -> bool:
    """Return True if nothing is left to do except reports that the server does not understand."""
    held = any(not one.unknown or one.phase is not Phase.FINISHED for one in state.held.values())
    return not (held or state.judging or state.expected or state.rejects or state.acks or state.acks_waiting)


def _started(d: Draft, event: e.Started) -> None:
    d.contact_at = event.contact_at
    for ref, held in list(d.held.items()):
        held = d.held[ref] = replace(held, ended_clock=d.now)
        if held.phase is Phase.INTENT:
            manager.look_up(d, held)
        elif held.phase is Phase.ACCEPTED:
            d.held[ref] = replace(held, act_at=d.now + 2 * held.offer.lease)
        elif held.wish and held.phase in WITH_MANAGER:
            manager.cancel(d, held)
    _guard(d)  # a guard may have expired while the agent was down


def _guard(d: Draft) -> None:
    """Cancel attempts that the server may soon declare lost, because it was out of contact for too long."""
    for held in list(d.held.values()):
        if not held.wish and held.phase in WITH_MANAGER and d.contact_at is not None and d.alone(held):
            manager.cancel(d, d.wish(held, Wish.GUARD))


def _answered(d: Draft, event: e.SyncAnswered) -> None:
    take_answer(d, event.answer)


def _sync_failed(d: Draft, event: e.SyncFailed) -> None:
    if d.flight is not None and event.seq == d.flight.seq:
        d.resend_at = d.now + event.retry_in
    elif event.seq == d.listening:
        d.listening = None


def _judged(d: Draft, event: e.Judged) -> None:
    offer = d.judging.pop(event.offer.ref, None)
    if offer is None:
        return
    if event.reason is not None:
        d.rejects[offer.ref] = event.reason
    else:
        d.held[offer.ref] = Held(offer=offer)
        d.do(e.WriteJournal(offer.ref, "offer", marked(offer_record(offer), d.mark)))


def _stored(d: Draft, event: e.Stored) -> None:
    if event.kind in ("cancel", "end"):
        d.acks += tuple(id for id, ref in d.acks_waiting if ref == event.ref)
        d.acks_waiting = tuple((id, ref) for id, ref in d.acks_waiting if ref != event.ref)
    if event.kind == "absent":
        d.rejects[event.ref] = d.past[event.ref].reason if event.ref in d.past else "absent"
        return
    held = d.held.get(event.ref)
    if held is None:
        return
    if event.kind == "offer":
        accepted = d.step(held, Step.OFFER_STORED)
        if accepted is not None:
            d.held[event.ref] = replace(accepted, act_at=d.now + 2 * held.offer.lease)
    elif event.kind == "intent":
        intent = d.step(held, Step.INTENT_STORED)
        if intent is not None:
            manager.submit(d, intent)
    elif event.kind == "end":
        d.step(held, Step.END_STORED)


def _graph_replaced(d: Draft, event: e.GraphReplaced) -> None:
    d.facts_told, d.facts_at = None, NEVER


def _output(d: Draft, event: e.OutputRead) -> None:
    chunk = event.chunk
    key, held = (chunk.ref, chunk.stream), d.held.get(chunk.ref)
    d.reading.discard(key)
    if held is None:
        return
    i = STREAMS.index(chunk.stream)
    if chunk.data and chunk.offset == held.sent[i]:
        d.chunks[key] = chunk
    elif not chunk.data:  # no more output than what was sent
        sizes = tuple(held.sent[j] if j == i else size for j, size in enumerate(held.sizes))
        d.held[chunk.ref] = replace(held, sizes=(sizes[0], sizes[1]))


def _unread(d: Draft, event: e.OutputUnread) -> None:
    key = (event.ref, event.stream)
    d.reading.discard(key)
    if event.ref in d.held:
        d.unread[key] = d.now + ASK_AGAIN


def _bid(d: Draft, event: e.BidReady) -> None:
    d.bidding.discard(event.id)
    d.bids += ((event.id, event.answer),)


def _tick(d: Draft, event: e.Tick) -> None:
    for held in list(d.held.values()):
        if held.act_at is not None and d.now >= held.act_at:
            _act_again(d, held)
    _guard(d)
    for ref, at in list(d.expected.items()):
        if at is not None and d.now >= at:
            d.expected[ref] = None
            d.do(e.Lookup(ref))


def _act_again(d: Draft, held: Held) -> None:
    if held.phase is Phase.ACCEPTED:
        reason = "the server did not confirm it in time"
        d.forget(held.ref, Past(reason=reason))
        d.rejects[held.ref] = reason
    elif held.phase is Phase.INTENT:
        manager.look_up(d, held)
    elif held.wish and held.phase in WITH_MANAGER:
        manager.cancel(d, held)
    elif held.phase in WITH_MANAGER:
        manager.look_up(d, held)


def _stop(d: Draft, event: e.StopAsked) -> None:
    d.stopping = True


def _read_output(d: Draft) -> None:
    """Read the next chunks of output, a bounded number at a time."""
    for ref, held in d.held.items():
        if held.sizes == held.sent:
            continue
        for i, stream in enumerate(STREAMS):
            if len(d.reading) + len(d.chunks) >= d.limits.chunks:
                return
            key = (ref, stream)
            waits = key in d.chunks or key in d.reading or d.now < d.unread.get(key, NEVER)
            if held.sizes[i] > held.sent[i] and not waits:
                d.unread.pop(key, None)
                d.reading.add(key)
                d.do(e.ReadOutput(ref, stream, held.sent[i], d.limits.chunk))


def _let_go(d: Draft) -> None:
    """Forget attempts that have ended and are stored by the server."""
    for ref, held in list(d.held.items()):
        if held.phase is not Phase.FINISHED:
            continue
        sent = all(size <= done for size, done in zip(held.sizes, held.sent, strict=True))
        given_up = d.now >= held.ended_clock + d.limits.output_give_up
        killed = held.wish is Wish.KILL and held.told == held.state
        if killed or (held.acked and (sent or given_up)):
            d.forget(ref, Past(result=held.result))


_HANDLERS: dict[type, Callable[[Draft, Any], None]] = {
    e.Started: _started,
    e.SyncAnswered: _answered,
    e.SyncFailed: _sync_failed,
    e.Judged: _judged,
    e.Stored: _stored,
    e.SubmitAnswered: manager.submitted,
    e.SubmitRefused: manager.refused,
    e.SubmitUnclear: manager.unclear,
    e.LookedUp: manager.looked_up,
    e.BackendUpdated: manager.updated,
    e.GraphReplaced: _graph_replaced,
    e.OutputRead: _output,
    e.OutputUnread: _unread,
    e.BidReady: _bid,
    e.Tick: _tick,
    e.StopAsked: _stop,
}
