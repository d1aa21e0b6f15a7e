"""Reactor handlers for answers of the manager: submitted, refused, looked up, updated."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import attempt_record, offer_record
from rainbow_sched.agent.core.mailbox import RETRY_SECONDS
from rainbow_sched.agent.core.state import StateDraft
from rainbow_sched.agent.core.values import (
    WITH_MANAGER,
    Absent,
    AttemptStep,
    JobFound,
    LocalAttempt,
    PastAttempt,
    Phase,
    Result,
    Unknown,
    Update,
)
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.protocol.messages import Offer

OUTCOME_UNKNOWN = Result(
    state=AttemptState.FAILED,
    failure=Failure.UNKNOWN,
    reason="the manager has no record of the job, so its outcome is unknown; it was not started again",
)


def submit(d: StateDraft, attempt: LocalAttempt) -> None:
    """Submit a confirmed attempt; reject it if the server may soon declare it lost."""
    if d.out_of_contact(attempt):
        reason = "the server could not be reached for too long; it was not started"
        d.forget(attempt.ref, PastAttempt(reason=reason))
        d.rejects[attempt.ref] = reason
        return
    d.attempts[attempt.ref] = replace(attempt, busy="submit", act_at=None)
    d.do(e.Submit(attempt.offer))


def submit_answered(d: StateDraft, event: e.SubmitAnswered) -> None:
    attempt = d.attempts.get(event.ref)
    if attempt is not None and attempt.busy == "submit":
        _set_submitted(d, replace(attempt, busy=""), event.native)


def _set_submitted(d: StateDraft, attempt: LocalAttempt, native: str) -> LocalAttempt:
    """Record the manager's job id; cancel the job if a stop was requested meanwhile."""
    attempt = d.attempts[attempt.ref] = replace(attempt, native=native or attempt.native)
    moved = d.step(attempt, AttemptStep.SUBMIT)
    if moved is None:
        return attempt
    d.do(e.WriteJournal(attempt.ref, "native", attempt_record(attempt.ref, "native", native=moved.native)))
    return cancel(d, moved) if moved.stop_reason else moved


def submit_refused(d: StateDraft, event: e.SubmitRefused) -> None:
    attempt = d.attempts.get(event.ref)
    if attempt is not None and attempt.busy == "submit":
        d.end(replace(attempt, busy=""), event.result)


def submit_unclear(d: StateDraft, event: e.SubmitUnclear) -> None:
    """Look the tag up after a submission with unknown outcome."""
    attempt = d.attempts.get(event.ref)
    if attempt is not None and attempt.busy == "submit":
        look_up(d, replace(attempt, busy=""))


def look_up(d: StateDraft, attempt: LocalAttempt) -> None:
    """Look the tag up, with one lookup at a time: a late answer to an older one must not count as new."""
    if not attempt.busy:
        d.attempts[attempt.ref] = replace(
            attempt, busy="lookup", act_at=attempt.act_at if attempt.stop_reason else None
        )
        d.do(e.Lookup(attempt.ref))


def looked_up(d: StateDraft, event: e.LookedUp) -> None:
    """Handle a lookup. Submit only a job that the manager certainly never had."""
    if event.ref in d.expected:
        _expected_looked_up(d, event)
        return
    attempt = d.attempts.get(event.ref)
    if attempt is None or attempt.busy != "lookup":
        return
    attempt = d.attempts[event.ref] = replace(attempt, busy="")
    match event.answer:
        case JobFound(update):
            _update(d, attempt, update)
        case Unknown():
            d.attempts[event.ref] = replace(attempt, act_at=d.now + RETRY_SECONDS)
        case Absent(never) if attempt.phase is Phase.INTENT and never:
            if attempt.stop_reason:
                d.end(attempt, Result(state=AttemptState.CANCELLED, reason="cancelled before it was submitted"))
            elif d.answered is None and not d.out_of_contact(attempt):
                # The journal may be old: first let the server confirm that the attempt is still wanted.
                d.attempts[event.ref] = replace(attempt, act_at=d.now + RETRY_SECONDS)
            else:
                submit(d, attempt)
        case Absent() if attempt.phase in WITH_MANAGER:
            d.end(attempt, OUTCOME_UNKNOWN)


def _expected_looked_up(d: StateDraft, event: e.LookedUp) -> None:
    """Handle a lookup of an attempt that the server expects and the journal does not have."""
    ref = event.ref
    match event.answer:
        case Unknown():
            d.expected[ref] = d.now + RETRY_SECONDS
        case JobFound(update):
            del d.expected[ref]
            attempt = d.attempts[ref] = LocalAttempt(offer=Offer(ref=ref), phase=Phase.SUBMITTED, native=update.native)
            d.do(e.WriteJournal(ref, "adopt", offer_record(attempt.offer, kind="adopt", native=update.native)))
            _update(d, attempt, update)
        case Absent():
            del d.expected[ref]
            if d.fresh:  # accepted by an agent whose journal is lost: it may have run
                d.attempts[ref] = attempt = LocalAttempt(offer=Offer(ref=ref), phase=Phase.SUBMITTED)
                d.do(e.WriteJournal(ref, "adopt", offer_record(attempt.offer, kind="adopt")))
                d.end(attempt, OUTCOME_UNKNOWN)
            else:
                d.remember(ref, PastAttempt(reason="absent: this agent never took it"), "absent")


def backend_updated(d: StateDraft, event: e.BackendUpdated) -> None:
    """Apply a poll. Look up a job that is missing from it."""
    d.facts = event.facts or d.facts
    by_tag = {update.tag: update for update in event.updates}
    for ref, attempt in list(d.attempts.items()):
        update = by_tag.get(ref.tag)
        if update is not None:
            _update(d, attempt, update)
        elif attempt.phase in (Phase.SUBMITTED, Phase.RUNNING) and (attempt.stop_reason or attempt.act_at is None):
            look_up(d, attempt)


def _update(d: StateDraft, attempt: LocalAttempt, update: Update) -> None:
    """Apply the manager's state of a job. Older answers never move an attempt back."""
    sizes = (max(attempt.sizes[0], update.sizes[0]), max(attempt.sizes[1], update.sizes[1]))
    if sizes != attempt.sizes:
        attempt = d.attempts[attempt.ref] = replace(attempt, sizes=sizes)
    if attempt.phase not in WITH_MANAGER:
        return
    if update.nodes not in ("", attempt.nodes):
        attempt = d.attempts[attempt.ref] = replace(attempt, nodes=update.nodes)
    if attempt.phase is Phase.INTENT:
        attempt = _set_submitted(d, attempt, update.native)
    if update.phase is Phase.RUNNING:
        running = d.step(attempt, AttemptStep.RUN)
        if running is not None:
            d.attempts[attempt.ref] = replace(running, started_at=update.started_at)
    elif update.phase is Phase.ENDED and update.result is not None:
        d.end(replace(attempt, started_at=update.result.started_at), update.result)


def cancel(d: StateDraft, attempt: LocalAttempt) -> LocalAttempt:
    """Cancel the job in the manager; repeated until it has ended."""
    asked = d.attempts[attempt.ref] = replace(attempt, act_at=d.now + RETRY_SECONDS)
    d.do(e.Cancel(attempt.ref))
    return asked
