"""Compose the agent's next message and apply the server's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from rainbow_sched.agent.core.events import AskBid, Cancel, CheckOffer, Lookup, SendSync, WriteJournal
from rainbow_sched.agent.core.journal_records import attempt_record, marked
from rainbow_sched.agent.core.state import MAX_PAST_ATTEMPTS, NEVER, AgentState, StateDraft, active
from rainbow_sched.agent.core.values import (
    UNCONFIRMED,
    WITH_MANAGER,
    AttemptStep,
    LocalAttempt,
    Phase,
    Result,
    StopReason,
)
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.messages import (
    MAX_ENTRIES,
    STREAMS,
    AttemptRef,
    KnownAttempt,
    Offer,
    Recall,
    RecalledOffer,
    Report,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
)

IMMEDIATE_SECONDS = 0.05  # an answer faster than this did not wait
RETRY_SECONDS = 5.0  # seconds until a failed lookup or an unanswered cancel is repeated
REPEAT_SECONDS = 1.0  # seconds between messages without news
FIRST_PAUSE_SECONDS = 0.005  # first pause after an immediate empty answer; doubled each time
COMMANDS = ("cancel", "kill")
MAX_ITEMS_PER_KIND = 5_000  # per message: reports, accepts, rejects
_NEWS_FIELDS = ("reports", "accepts", "rejects", "acks", "bids", "output")
T = TypeVar("T")


def facts_due(state: AgentState) -> float | None:
    """Return when changed facts are to be sent; None if the server has them."""
    return state.facts_at + REPEAT_SECONDS if state.facts != state.facts_reported else None


def compose(d: StateDraft) -> SyncMessage:
    """Return the next message. What exceeds its limits is sent with the following one."""
    taken = sum(active(attempt) for attempt in d.attempts.values()) + len(d.checking)
    news = pending_news(d)
    reported = [
        (ref, attempt.state.value)
        for ref, attempt in d.attempts.items()
        if attempt.phase is not Phase.OFFERED and not attempt.acked
    ]
    room = MAX_ENTRIES - len(news.reports) - len(news.accepts) - len(news.rejects)
    return replace(
        news,
        held=_rotate(reported, room, news.seq),
        want=0 if d.stopping else max(0, d.limits.max_jobs - taken),
        mark=d.mark,
        recall=_recall(d) if d.recalling else None,
    )


def _rotate(items: Sequence[T], room: int, turn: int) -> tuple[T, ...]:
    """Return all items, or `room` of them, rotating with each turn."""
    if len(items) <= room:
        return tuple(items)
    start = turn * room % len(items)
    return (*items[start : start + room], *items[: max(0, start + room - len(items))])


def _recall(d: StateDraft) -> Recall:
    """Return all known attempts, for a server whose database was restored."""
    known = [_known(attempt) for attempt in d.attempts.values()]
    for ref, past in d.past.items():
        result = past.result
        report = None if result is None else report_of_end(ref, result)
        known.append(KnownAttempt(ref=ref, phase="never" if report is None else "ended", report=report))
    return Recall(attempts=tuple(known), complete=len(d.past) < MAX_PAST_ATTEMPTS)


def _known(attempt: LocalAttempt) -> KnownAttempt:
    if attempt.result is not None:
        return KnownAttempt(ref=attempt.ref, phase="ended", report=last_report(attempt))
    offer = attempt.offer
    return KnownAttempt(
        ref=attempt.ref,
        phase="accepted" if attempt.phase in UNCONFIRMED else "confirmed",
        offer=RecalledOffer(name=offer.name, owner=offer.owner, spec=offer.spec, terms=offer.terms)
        if offer.spec
        else None,
    )


def pending_news(d: StateDraft) -> SyncMessage:
    """Return the urgent part of the next message: everything but the held attempts."""
    reports = (report for attempt in d.attempts.values() if (report := _report(d, attempt)) is not None)
    accepts = (ref for ref, attempt in d.attempts.items() if attempt.phase is Phase.ACCEPTED)
    return SyncMessage(
        seq=d.seq + 1,
        reports=tuple(islice(reports, MAX_ITEMS_PER_KIND)),
        accepts=tuple(islice(accepts, MAX_ITEMS_PER_KIND)),
        rejects=tuple(islice(d.rejects.items(), MAX_ITEMS_PER_KIND)),
        acks=d.acks,
        bids=d.bids,
        output=tuple(d.chunks.values()),
        facts=d.facts if d.facts != d.facts_reported and d.now >= d.facts_at + REPEAT_SECONDS else None,
    )


def _report(d: StateDraft, attempt: LocalAttempt) -> Report | None:
    if attempt.unknown == attempt.state:
        return None  # this server has the report and does not know the state
    if attempt.state is AttemptState.RETURNED and not d.server:
        return None  # an older server rejects the whole message for this state; newer ones send their process id
    if attempt.phase is Phase.FINISHED:
        if attempt.acked or not _output_complete(d, attempt):
            return None
    elif attempt.phase not in (Phase.SUBMITTED, Phase.RUNNING) or attempt.reported == attempt.state:
        return None
    return last_report(attempt)


def last_report(attempt: LocalAttempt) -> Report:
    """Return the report of an attempt's state, or of its end."""
    report = report_of_end(attempt.ref, attempt.result or Result(state=attempt.state))
    started = attempt.started_at if report.started_at is None else report.started_at
    return replace(report, native_id=attempt.native, started_at=started, nodes=attempt.nodes)


def report_of_end(ref: AttemptRef, result: Result) -> Report:
    """Return the report of a result, without what only the attempt knows."""
    return Report(
        ref=ref,
        state=result.state,
        exit_code=result.exit_code,
        failure=result.failure,
        reason=result.reason,
        started_at=result.started_at,
        ended_at=result.ended_at,
        code=result.code,
    )


def _output_complete(d: StateDraft, attempt: LocalAttempt) -> bool:
    """Return True if all output is stored or in this message, or the grace period is over."""
    if d.now >= attempt.ended_clock + d.limits.output_grace:
        return True
    for size, sent, stream in zip(attempt.sizes, attempt.sent, STREAMS, strict=True):
        chunk = d.chunks.get((attempt.ref, stream))
        if sent + (len(chunk.data) if chunk else 0) < size:
            return False
    return True


def has_news_beyond(message: SyncMessage, earlier: SyncMessage | None) -> bool:
    """Return True if `message` has news that `earlier` did not have."""
    if earlier is None:
        return message.news
    if message.facts not in (None, earlier.facts):
        return True
    return any(not set(getattr(earlier, part)).issuperset(getattr(message, part)) for part in _NEWS_FIELDS)


def send_due(d: StateDraft) -> None:
    """Send a message if there is news; otherwise keep one call waiting at the server.

    News during a waiting call goes out in a second call: the first stays open because its answer may carry an offer.
    """
    if d.in_flight is not None:
        if d.resend_at is not None:
            if d.now >= d.resend_at:
                d.in_flight, d.resend_at = replace(d.in_flight, wait=0.0), None
                d.do(SendSync(d.in_flight))
            return
        if not (
            d.in_flight.wait > 0
            and d.listening is None
            and (d.stopping or has_news_beyond(pending_news(d), d.in_flight))
        ):
            return
        d.listening, d.listening_at, d.in_flight = d.in_flight.seq, d.sent_at, None
    if d.now < d.send_at:
        return
    news = pending_news(d)
    new = has_news_beyond(news, d.answered) or (d.stopping and d.answered is not None and d.answered.want > 0)
    if not new and (d.now < d.quiet_until or (d.listening is not None and not news.news)):
        return
    message = compose(d)
    first = d.answered is None  # the first answer lists the attempts that the server expects: do not wait for it
    at_once = first or new or message.news or d.stopping or d.listening is not None
    d.seq = message.seq
    d.facts_at = d.now if message.facts is not None else d.facts_at
    d.in_flight, d.sent_at = replace(message, wait=0.0 if at_once else min(d.limits.max_wait, d.heartbeat)), d.now
    d.do(SendSync(d.in_flight))


def apply_answer(d: StateDraft, answer: SyncAnswer) -> None:
    """Apply the answer to an open message; ignore answers to older ones."""
    answer = _without_repeats(d, answer)
    sent_message: SyncMessage | None = None
    if d.listening is not None and answer.ack == d.listening:
        d.listening = None
        d.contact_at = max(d.contact_at or 0.0, d.listening_at)
    elif d.in_flight is not None and answer.ack == d.in_flight.seq:
        sent_message, d.in_flight, d.resend_at = d.in_flight, None, None
        d.contact_at = max(d.contact_at or 0.0, d.sent_at)
        d.send_at, d.quiet_until = d.now, d.now
        if not answer.resync:
            _apply_receipt(d, sent_message)
    else:
        return
    if answer.resync:
        _resync(d, answer)
    d.resynced = answer.resync
    d.recalling = answer.recall
    d.mark = answer.mark or d.mark
    d.heartbeat = answer.heartbeat
    if answer.server != d.server:
        d.server = answer.server
        _report_unknown_again(d)
    _apply_content(d, answer)
    if sent_message is not None and not answer.resync:
        _slow_down(d, sent_message, answer)  # last, because the answer may acknowledge what would be sent again


def _report_unknown_again(d: StateDraft) -> None:
    """Repeat reports that the previous server process did not understand: this one may be newer."""
    for ref, attempt in d.attempts.items():
        if attempt.unknown:
            d.attempts[ref] = replace(attempt, unknown="", reported="")


def _without_repeats(d: StateDraft, answer: SyncAnswer) -> SyncAnswer:
    """Return the answer without repeated requests and without unknown commands.

    Open bid requests, kills and unacknowledged commands are repeated in every answer. An unknown command is neither
    carried out nor acknowledged.
    """
    answered = d.in_flight.bids if d.in_flight is not None else ()
    asked = {*d.open_bids, *(id for id, _ in d.bids), *(id for id, _ in answered)}
    dying = {ref for ref, attempt in d.attempts.items() if attempt.stop_reason is StopReason.KILL}
    return replace(
        answer,
        bid_requests=tuple(one for one in answer.bid_requests if one.id not in asked),
        commands=tuple(one for one in answer.commands if one.kind in COMMANDS and (one.id or one.ref not in dying)),
    )


def _slow_down(d: StateDraft, sent_message: SyncMessage, answer: SyncAnswer) -> None:
    """Slow down if the server answers immediately without content, or has not stored the last message."""
    d.empty_answers = (
        d.empty_answers + 1 if answer.empty and d.now - d.sent_at < IMMEDIATE_SECONDS and not sent_message.news else 0
    )
    if _repeats(d, sent_message):
        d.quiet_until = d.now + REPEAT_SECONDS
    elif d.empty_answers:
        d.quiet_until = d.now + min(REPEAT_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(d.empty_answers, 10))


def _apply_content(d: StateDraft, answer: SyncAnswer) -> None:
    for ref in answer.acked:
        attempt = d.attempts.get(ref)
        if attempt is not None and attempt.phase is Phase.FINISHED:
            d.attempts[ref] = replace(attempt, acked=True)
    for ref in answer.unknown:
        attempt = d.attempts.get(ref)
        if attempt is not None:
            d.attempts[ref] = replace(attempt, unknown=attempt.reported)
        elif ref in d.past:  # a restored server did not understand the result: keep it until one does
            _account_for(d, ref)
    for ref, stream, offset in answer.output_acks:
        _output_stored(d, ref, stream, offset)
    for ref in answer.confirms:
        _confirm(d, ref)
    for command in answer.commands:
        _apply_command(d, command)
    for offer in answer.offers:
        _consider_offer(d, offer)
    for request in answer.bid_requests:
        d.open_bids.add(request.id)
        d.do(AskBid(request))


def _repeats(d: StateDraft, sent_message: SyncMessage) -> bool:
    """Return True if the next message would only repeat this one: the server has not stored it."""
    message = pending_news(d)
    return message.news and not has_news_beyond(message, sent_message)


def _resync(d: StateDraft, answer: SyncAnswer) -> None:
    if d.resynced:
        d.send_at = d.now + REPEAT_SECONDS
    d.answered, d.facts_reported, d.facts_at = None, None, NEVER
    for ref, attempt in d.attempts.items():
        d.attempts[ref] = replace(attempt, reported="", unknown="", sent=(0, 0) if answer.recall else attempt.sent)
    if answer.recall:
        d.chunks.clear()
    for ref in answer.expected:
        _account_for(d, ref)


def _account_for(d: StateDraft, ref: AttemptRef) -> None:
    """Handle an attempt that the server believes to be here."""
    if ref in d.attempts or ref in d.checking or ref in d.rejects or ref in d.expected:
        return
    past = d.past.get(ref)
    if past is None:
        d.expected[ref] = None
        d.do(Lookup(ref))
    elif past.result is None:
        d.rejects[ref] = past.reason
    else:
        d.attempts[ref] = LocalAttempt(
            offer=Offer(ref=ref), phase=Phase.FINISHED, result=past.result, ended_clock=d.now
        )


def _apply_receipt(d: StateDraft, sent_message: SyncMessage) -> None:
    """Drop what the answered message has delivered and what needs no further acknowledgement."""
    if d.answered is None:  # submissions from the journal have waited for this answer
        for ref, intent in d.attempts.items():
            if intent.phase is Phase.INTENT and not intent.busy:
                d.attempts[ref] = replace(intent, act_at=d.now)
    d.answered = sent_message
    for report in sent_message.reports:
        attempt = d.attempts.get(report.ref)
        if attempt is not None:
            d.attempts[report.ref] = replace(attempt, reported=report.state)
    for ref, _ in sent_message.rejects:
        d.rejects.pop(ref, None)
    d.acks = tuple(id for id in d.acks if id not in sent_message.acks)
    d.bids = tuple(bid for bid in d.bids if bid not in sent_message.bids)
    if sent_message.facts is not None:
        d.facts_reported = sent_message.facts


def _output_stored(d: StateDraft, ref: AttemptRef, stream: str, offset: int) -> None:
    attempt = d.attempts.get(ref)
    if attempt is None or stream not in STREAMS or offset < 0:
        return
    i = STREAMS.index(stream)
    sent = tuple(offset if j == i else old for j, old in enumerate(attempt.sent))
    d.attempts[ref] = replace(attempt, sent=(sent[0], sent[1]))
    d.chunks.pop((ref, stream), None)


def _confirm(d: StateDraft, ref: AttemptRef) -> None:
    """Confirm an accepted attempt; a late or repeated confirm has no effect."""
    attempt = d.attempts.get(ref)
    if attempt is not None and d.step(attempt, AttemptStep.CONFIRM) is not None:
        d.do(WriteJournal(ref, "intent", marked(attempt_record(ref, "intent"), d.mark)))


def _apply_command(d: StateDraft, command: ServerCommand) -> None:
    """Cancel or kill an attempt. Each command leads to a report of an end, so the server never waits in vain."""
    ref, attempt = command.ref, d.attempts.get(command.ref)
    stop_reason = StopReason.KILL if command.kind == "kill" else StopReason.CANCEL
    if attempt is None and ref in d.expected and stop_reason is StopReason.CANCEL:
        return  # a lookup is open; the server repeats the command
    if attempt is None:
        _acknowledge(d, command)
        if d.checking.pop(ref, None) is not None:
            d.rejects[ref] = command.reason or "cancelled before it was accepted"
        elif stop_reason is StopReason.KILL:
            d.do(Cancel(ref))  # it may run if a journal was lost
    elif attempt.phase in WITH_MANAGER:
        if attempt.stop_reason not in (stop_reason, StopReason.KILL):
            attempt = d.request_stop(attempt, stop_reason)
            d.acks_pending += ((command.id, ref),) if command.id else ()
            if attempt.phase is not Phase.INTENT:
                d.attempts[ref] = replace(attempt, act_at=d.now + RETRY_SECONDS)
                d.do(Cancel(ref))
        elif all(ref != waiting for _, waiting in d.acks_pending):
            _acknowledge(d, command)
    else:
        if attempt.phase is Phase.FINISHED:
            _acknowledge(d, command)
            if (
                stop_reason is StopReason.KILL and attempt.unknown
            ):  # the server has dropped the attempt: the report is no longer needed
                d.attempts[ref] = replace(attempt, acked=True)
        elif command.id:  # acknowledge only when the end is on disk
            d.acks_pending = (*(one for one in d.acks_pending if one[0] != command.id), (command.id, ref))
        if attempt.phase in UNCONFIRMED or attempt.phase is Phase.CONFIRMED:
            attempt = d.attempts[ref] = replace(attempt, stop_reason=stop_reason)
            reason = command.reason or "cancelled before it was submitted"
            d.end(attempt, Result(state=AttemptState.CANCELLED, reason=reason))


def _acknowledge(d: StateDraft, command: ServerCommand) -> None:
    """Acknowledge a command; commands without an id are not repeated and need none."""
    if command.id and command.id not in d.acks:
        d.acks += (command.id,)


def _consider_offer(d: StateDraft, offer: Offer) -> None:
    ref = offer.ref
    if ref in d.attempts or ref in d.checking or ref in d.expected:
        return
    past = d.past.get(ref)
    if past is not None:
        d.rejects[ref] = past.reason or "the attempt was here before and has ended"
    elif any(other.tag == ref.tag for other in d.attempts):
        d.rejects[ref] = f"{ref.tag} is already here with another token"
    elif d.stopping:
        d.rejects[ref] = "the agent is stopping"
    else:
        d.rejects.pop(ref, None)
        d.checking[ref] = offer
        d.do(CheckOffer(offer))
