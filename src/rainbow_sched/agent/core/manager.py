"""Reactor handlers for answers of the manager: submitted, refused, looked up, updated."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import native_record, offer_record
from rainbow_sched.agent.core.mailbox import ASK_AGAIN
from rainbow_sched.agent.core.state import Draft
from rainbow_sched.agent.core.values import (
    WITH_MANAGER,
    Absent,
    Found,
    Held,
    Offer,
    Past,
    Phase,
    Result,
    Step,
    Unknown,
    Update,
)
from rainbow_sched.model.attempt import AttemptState, Failure

OUTCOME_UNKNOWN = Result(
    state=AttemptState.FAILED,
    failure=Failure.UNKNOWN,
    reason="the manager has no record of the job, so its outcome is unknown; it was not started again",
)


def submit(d: Draft, held: Held) -> None:
    """Submit a confirmed attempt; reject it if the server may soon declare it lost."""
    if d.alone(held):
        reason = "the server could not be reached for too long; it was not started"
        d.forget(held.ref, Past(reason=reason))
        d.rejects[held.ref] = reason
        return
    d.held[held.ref] = replace(held, busy="submit", act_at=None)
    d.do(e.Submit(held.offer))


def submitted(d: Draft, event: e.SubmitAnswered) -> None:
    held = d.held.get(event.ref)
    if held is not None and held.busy == "submit":
        _has_it(d, replace(held, busy=""), event.native)


def _has_it(d: Draft, held: Held, native: str) -> Held:
    """Record the manager's job id; cancel the job if a stop was requested meanwhile."""
    held = d.held[held.ref] = replace(held, native=native or held.native)
    moved = d.step(held, Step.SUBMIT)
    if moved is None:
        return held
    d.do(e.WriteJournal(held.ref, "native", native_record(held.ref, moved.native)))
    return cancel(d, moved) if moved.wish else moved


def refused(d: Draft, event: e.SubmitRefused) -> None:
    held = d.held.get(event.ref)
    if held is not None and held.busy == "submit":
        d.end(replace(held, busy=""), event.result)


def unclear(d: Draft, event: e.SubmitUnclear) -> None:
    """Look the tag up after a submission with unknown outcome."""
    held = d.held.get(event.ref)
    if held is not None and held.busy == "submit":
        look_up(d, replace(held, busy=""))


def look_up(d: Draft, held: Held) -> None:
    """Look the tag up, with one lookup at a time: a late answer to an older one must not count as new."""
    if not held.busy:
        d.held[held.ref] = replace(held, busy="lookup", act_at=held.act_at if held.wish else None)
        d.do(e.Lookup(held.ref))


def looked_up(d: Draft, event: e.LookedUp) -> None:
    """Handle a lookup. Submit only a job that the manager certainly never had."""
    if event.ref in d.expected:
        _found_expected(d, event)
        return
    held = d.held.get(event.ref)
    if held is None or held.busy != "lookup":
        return
    held = d.held[event.ref] = replace(held, busy="")
    match event.answer:
        case Found(update):
            _update(d, held, update)
        case Unknown():
            d.held[event.ref] = replace(held, act_at=d.now + ASK_AGAIN)
        case Absent(never) if held.phase is Phase.INTENT and never:
            if held.wish:
                d.end(held, Result(state=AttemptState.CANCELLED, reason="cancelled before it was submitted"))
            elif d.answered is None and not d.alone(held):
                # The journal may be old: first let the server confirm that the attempt is still wanted.
                d.held[event.ref] = replace(held, act_at=d.now + ASK_AGAIN)
            else:
                submit(d, held)
        case Absent() if held.phase in WITH_MANAGER:
            d.end(held, OUTCOME_UNKNOWN)


def _found_expected(d: Draft, event: e.LookedUp) -> None:
    """Handle a lookup of an attempt that the server expects and the journal does not have."""
    ref = event.ref
    match event.answer:
        case Unknown():
            d.expected[ref] = d.now + ASK_AGAIN
        case Found(update):
            del d.expected[ref]
            held = d.held[ref] = Held(offer=Offer(ref=ref), phase=Phase.SUBMITTED, native=update.native)
            d.do(e.WriteJournal(ref, "adopt", offer_record(held.offer, kind="adopt", native=update.native)))
            _update(d, held, update)
        case Absent():
            del d.expected[ref]
            if d.before.fresh:  # accepted by an agent whose journal is lost: it may have run
                d.held[ref] = held = Held(offer=Offer(ref=ref), phase=Phase.SUBMITTED)
                d.do(e.WriteJournal(ref, "adopt", offer_record(held.offer, kind="adopt")))
                d.end(held, OUTCOME_UNKNOWN)
            else:
                d.remember(ref, Past(reason="absent: this agent never took it"), "absent")


def updated(d: Draft, event: e.BackendUpdated) -> None:
    """Apply a poll. Look up a job that is missing from it."""
    d.facts = event.facts or d.facts
    by_tag = {update.tag: update for update in event.updates}
    for ref, held in list(d.held.items()):
        update = by_tag.get(ref.tag)
        if update is not None:
            _update(d, held, update)
        elif held.phase in (Phase.SUBMITTED, Phase.RUNNING) and (held.wish or held.act_at is None):
            look_up(d, held)


def _update(d: Draft, held: Held, update: Update) -> None:
    """Apply the manager's state of a job. Older answers never move an attempt back."""
    sizes = (max(held.sizes[0], update.sizes[0]), max(held.sizes[1], update.sizes[1]))
    if sizes != held.sizes:
        held = d.held[held.ref] = replace(held, sizes=sizes)
    if held.phase not in WITH_MANAGER:
        return
    if update.nodes not in ("", held.nodes):
        held = d.held[held.ref] = replace(held, nodes=update.nodes)
    if held.phase is Phase.INTENT:
        held = _has_it(d, held, update.native)
    if update.phase is Phase.RUNNING:
        running = d.step(held, Step.RUN)
        if running is not None:
            d.held[held.ref] = replace(running, started_at=update.started_at)
    elif update.phase is Phase.ENDED and update.result is not None:
        d.end(replace(held, started_at=update.result.started_at), update.result)


def cancel(d: Draft, held: Held) -> Held:
    """Cancel the job in the manager; repeated until it has ended."""
    asked = d.held[held.ref] = replace(held, act_at=d.now + ASK_AGAIN)
    d.do(e.Cancel(held.ref))
    return asked
