"""Compose the agent's next message and apply the server's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from rainbow_sched.agent.core.events import (
    AskBid,
    Cancel,
    Judge,
    KnownAttempt,
    Lookup,
    Recall,
    Report,
    SendSync,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
    WriteJournal,
)
from rainbow_sched.agent.core.journal_records import intent_record, marked
from rainbow_sched.agent.core.state import MAX_PAST, NEVER, Draft, State, active
from rainbow_sched.agent.core.values import (
    STREAMS,
    UNCONFIRMED,
    WITH_MANAGER,
    Held,
    Offer,
    Phase,
    Ref,
    Result,
    Step,
    Wish,
)
from rainbow_sched.model.attempt import AttemptState

QUICK = 0.05  # an answer faster than this did not wait
ASK_AGAIN = 5.0  # seconds until a failed lookup or an unanswered cancel is repeated
PACE = 1.0  # seconds between messages without news
HASTE = 0.005  # first pause after an immediate empty answer; doubled each time
COMMANDS = ("cancel", "kill")
MAX_ENTRIES = 20_000  # attempts in one message; the server refuses more
MAX_SAID = 5_000  # per message: reports, accepts, rejects
_SAID = ("reports", "accepts", "rejects", "acks", "bids", "output")
T = TypeVar("T")


def facts_due(state: State) -> float | None:
    """Return when changed facts are to be sent; None if the server has them."""
    return state.facts_at + PACE if state.facts != state.facts_told else None


def compose(d: Draft) -> SyncMessage:
    """Return the next message. What exceeds its limits is sent with the following one."""
    taken = sum(active(held) for held in d.held.values()) + len(d.judging)
    said = sayings(d)
    held = [
        (ref, held.state.value) for ref, held in d.held.items() if held.phase is not Phase.OFFERED and not held.acked
    ]
    room = MAX_ENTRIES - len(said.reports) - len(said.accepts) - len(said.rejects)
    return replace(
        said,
        held=_in_turn(held, room, said.seq),
        want=0 if d.stopping else max(0, d.limits.max_jobs - taken),
        mark=d.mark,
        recall=_recall(d) if d.recalling else None,
    )


def _in_turn(items: Sequence[T], room: int, turn: int) -> tuple[T, ...]:
    """Return all items, or `room` of them, rotating with each turn."""
    if len(items) <= room:
        return tuple(items)
    start = turn * room % len(items)
    return (*items[start : start + room], *items[: max(0, start + room - len(items))])


def _recall(d: Draft) -> Recall:
    """Return all known attempts, for a server whose database was restored."""
    known = [_known(held) for held in d.held.values()]
    for ref, past in d.past.items():
        result = past.result
        report = None if result is None else Report(ref=ref, state=result.state.value, result=result)
        known.append(KnownAttempt(ref=ref, phase="never" if report is None else "ended", report=report))
    return Recall(attempts=tuple(known), complete=len(d.past) < MAX_PAST)


def _known(held: Held) -> KnownAttempt:
    if held.result is not None:
        return KnownAttempt(ref=held.ref, phase="ended", report=_last_report(held))
    return KnownAttempt(
        ref=held.ref,
        phase="accepted" if held.phase in UNCONFIRMED else "confirmed",
        offer=held.offer if held.offer.spec else None,
    )


def sayings(d: Draft) -> SyncMessage:
    """Return the urgent part of the next message: everything but the held attempts."""
    reports = (report for held in d.held.values() if (report := _report(d, held)) is not None)
    accepts = (ref for ref, held in d.held.items() if held.phase is Phase.ACCEPTED)
    return SyncMessage(
        seq=d.seq + 1,
        reports=tuple(islice(reports, MAX_SAID)),
        accepts=tuple(islice(accepts, MAX_SAID)),
        rejects=tuple(islice(d.rejects.items(), MAX_SAID)),
        acks=d.acks,
        bids=d.bids,
        output=tuple(d.chunks.values()),
        facts=d.facts if d.facts != d.facts_told and d.now >= d.facts_at + PACE else None,
    )


def _report(d: Draft, held: Held) -> Report | None:
    if held.unknown == held.state:
        return None  # this server has the report and does not know the state
    if held.state is AttemptState.RETURNED and not d.server:
        return None  # an older server rejects the whole message for this state; newer ones send their process id
    if held.phase is Phase.FINISHED:
        if held.acked or not _output_said(d, held):
            return None
    elif held.phase not in (Phase.SUBMITTED, Phase.RUNNING) or held.told == held.state:
        return None
    return _last_report(held)


def _last_report(held: Held) -> Report:
    return Report(
        ref=held.ref,
        state=held.state.value,
        native=held.native,
        started_at=held.started_at,
        nodes=held.nodes,
        result=held.result,
    )


def _output_said(d: Draft, held: Held) -> bool:
    """Return True if all output is stored or in this message, or the grace period is over."""
    if d.now >= held.ended_clock + d.limits.output_grace:
        return True
    for size, sent, stream in zip(held.sizes, held.sent, STREAMS, strict=True):
        chunk = d.chunks.get((held.ref, stream))
        if sent + (len(chunk.data) if chunk else 0) < size:
            return False
    return True


def adds(message: SyncMessage, earlier: SyncMessage | None) -> bool:
    """Return True if `message` has news that `earlier` did not have."""
    if earlier is None:
        return message.news
    if message.facts not in (None, earlier.facts):
        return True
    return any(not set(getattr(earlier, part)).issuperset(getattr(message, part)) for part in _SAID)


def send_what_is_due(d: Draft) -> None:
    """Send a message if there is news; otherwise keep one call waiting at the server.

    News during a waiting call goes out in a second call: the first stays open because its answer may carry an offer.
    """
    if d.flight is not None:
        if d.resend_at is not None:
            if d.now >= d.resend_at:
                d.flight, d.resend_at = d.flight.at_once(), None
                d.do(SendSync(d.flight))
            return
        if not (d.flight.wait > 0 and d.listening is None and (d.stopping or adds(sayings(d), d.flight))):
            return
        d.listening, d.listening_at, d.flight = d.flight.seq, d.flight_at, None
    if d.now < d.send_at:
        return
    said = sayings(d)
    new = adds(said, d.answered) or (d.stopping and d.answered is not None and d.answered.want > 0)
    if not new and (d.now < d.quiet_until or (d.listening is not None and not said.news)):
        return
    message = compose(d)
    first = d.answered is None  # the first answer lists the attempts that the server expects: do not wait for it
    at_once = first or new or message.news or d.stopping or d.listening is not None
    d.seq = message.seq
    d.facts_at = d.now if message.facts is not None else d.facts_at
    d.flight, d.flight_at = replace(message, wait=0.0 if at_once else min(d.limits.max_wait, d.heartbeat)), d.now
    d.do(SendSync(d.flight))


def take_answer(d: Draft, answer: SyncAnswer) -> None:
    """Apply the answer to an open message; ignore answers to older ones."""
    answer = _without_known(d, answer)
    said: SyncMessage | None = None
    if d.listening is not None and answer.ack == d.listening:
        d.listening = None
        d.contact_at = max(d.contact_at or 0.0, d.listening_at)
    elif d.flight is not None and answer.ack == d.flight.seq:
        said, d.flight, d.resend_at = d.flight, None, None
        d.contact_at = max(d.contact_at or 0.0, d.flight_at)
        d.send_at, d.quiet_until = d.now, d.now
        if not answer.resync:
            _settle(d, said)
    else:
        return
    if answer.resync:
        _say_all_again(d, answer)
    d.resynced = answer.resync
    d.recalling = answer.recall
    d.mark = answer.mark or d.mark
    d.heartbeat = answer.heartbeat
    if answer.server != d.server:
        d.server = answer.server
        _report_unknown_again(d)
    _act_upon(d, answer)
    if said is not None and not answer.resync:
        _pace(d, said, answer)  # last, because the answer may acknowledge what would be sent again


def _report_unknown_again(d: Draft) -> None:
    """Repeat reports that the previous server process did not understand: this one may be newer."""
    for ref, held in d.held.items():
        if held.unknown:
            d.held[ref] = replace(held, unknown="", told="")


def _without_known(d: Draft, answer: SyncAnswer) -> SyncAnswer:
    """Return the answer without repeated requests and without unknown commands.

    Open bid requests, kills and unacknowledged commands are repeated in every answer. An unknown command is neither
    carried out nor acknowledged.
    """
    answered = d.flight.bids if d.flight is not None else ()
    asked = {*d.bidding, *(id for id, _ in d.bids), *(id for id, _ in answered)}
    dying = {ref for ref, held in d.held.items() if held.wish is Wish.KILL}
    return replace(
        answer,
        bid_requests=tuple(one for one in answer.bid_requests if one.id not in asked),
        commands=tuple(one for one in answer.commands if one.kind in COMMANDS and (one.id or one.ref not in dying)),
    )


def _pace(d: Draft, said: SyncMessage, answer: SyncAnswer) -> None:
    """Slow down if the server answers immediately without content, or has not stored the last message."""
    d.hasty = d.hasty + 1 if answer.empty and d.now - d.flight_at < QUICK and not said.news else 0
    if _repeats(d, said):
        d.quiet_until = d.now + PACE
    elif d.hasty:
        d.quiet_until = d.now + min(PACE, HASTE * 2 ** min(d.hasty, 10))


def _act_upon(d: Draft, answer: SyncAnswer) -> None:
    for ref in answer.acked:
        held = d.held.get(ref)
        if held is not None and held.phase is Phase.FINISHED:
            d.held[ref] = replace(held, acked=True)
    for ref in answer.unknown:
        held = d.held.get(ref)
        if held is not None:
            d.held[ref] = replace(held, unknown=held.told)
        elif ref in d.past:  # a restored server did not understand the result: keep it until one does
            _account_for(d, ref)
    for ref, stream, offset in answer.output_acks:
        _output_stored(d, ref, stream, offset)
    for ref in answer.confirms:
        _confirm(d, ref)
    for command in answer.commands:
        _obey(d, command)
    for offer in answer.offers:
        _consider(d, offer)
    for request in answer.bid_requests:
        d.bidding.add(request.id)
        d.do(AskBid(request))


def _repeats(d: Draft, said: SyncMessage) -> bool:
    """Return True if the next message would only repeat this one: the server has not stored it."""
    message = sayings(d)
    return message.news and not adds(message, said)


def _say_all_again(d: Draft, answer: SyncAnswer) -> None:
    if d.resynced:
        d.send_at = d.now + PACE
    d.answered, d.facts_told, d.facts_at = None, None, NEVER
    for ref, held in d.held.items():
        d.held[ref] = replace(held, told="", unknown="", sent=(0, 0) if answer.recall else held.sent)
    if answer.recall:
        d.chunks.clear()
    for ref in answer.expected:
        _account_for(d, ref)


def _account_for(d: Draft, ref: Ref) -> None:
    """Handle an attempt that the server believes to be here."""
    if ref in d.held or ref in d.judging or ref in d.rejects or ref in d.expected:
        return
    past = d.past.get(ref)
    if past is None:
        d.expected[ref] = None
        d.do(Lookup(ref))
    elif past.result is None:
        d.rejects[ref] = past.reason
    else:
        d.held[ref] = Held(offer=Offer(ref=ref), phase=Phase.FINISHED, result=past.result, ended_clock=d.now)


def _settle(d: Draft, said: SyncMessage) -> None:
    """Drop what the answered message has delivered and what needs no further acknowledgement."""
    if d.answered is None:  # submissions from the journal have waited for this answer
        for ref, intent in d.held.items():
            if intent.phase is Phase.INTENT and not intent.busy:
                d.held[ref] = replace(intent, act_at=d.now)
    d.answered = said
    for report in said.reports:
        held = d.held.get(report.ref)
        if held is not None:
            d.held[report.ref] = replace(held, told=report.state)
    for ref, _ in said.rejects:
        d.rejects.pop(ref, None)
    d.acks = tuple(id for id in d.acks if id not in said.acks)
    d.bids = tuple(bid for bid in d.bids if bid not in said.bids)
    if said.facts is not None:
        d.facts_told = said.facts


def _output_stored(d: Draft, ref: Ref, stream: str, offset: int) -> None:
    held = d.held.get(ref)
    if held is None or stream not in STREAMS or offset < 0:
        return
    i = STREAMS.index(stream)
    sent = tuple(offset if j == i else old for j, old in enumerate(held.sent))
    d.held[ref] = replace(held, sent=(sent[0], sent[1]))
    d.chunks.pop((ref, stream), None)


def _confirm(d: Draft, ref: Ref) -> None:
    """Confirm an accepted attempt; a late or repeated confirm has no effect."""
    held = d.held.get(ref)
    if held is not None and d.step(held, Step.CONFIRM) is not None:
        d.do(WriteJournal(ref, "intent", marked(intent_record(ref), d.mark)))


def _obey(d: Draft, command: ServerCommand) -> None:
    """Cancel or kill an attempt. Each command leads to a report of an end, so the server never waits in vain."""
    ref, held = command.ref, d.held.get(command.ref)
    wish = Wish.KILL if command.kind == "kill" else Wish.CANCEL
    if held is None and ref in d.expected and wish is Wish.CANCEL:
        return  # a lookup is open; the server repeats the command
    if held is None:
        _acknowledge(d, command)
        if d.judging.pop(ref, None) is not None:
            d.rejects[ref] = command.reason or "cancelled before it was accepted"
        elif wish is Wish.KILL:
            d.do(Cancel(ref))  # it may run if a journal was lost
    elif held.phase in WITH_MANAGER:
        if held.wish not in (wish, Wish.KILL):
            held = d.wish(held, wish)
            d.acks_waiting += ((command.id, ref),) if command.id else ()
            if held.phase is not Phase.INTENT:
                d.held[ref] = replace(held, act_at=d.now + ASK_AGAIN)
                d.do(Cancel(ref))
        elif all(ref != waiting for _, waiting in d.acks_waiting):
            _acknowledge(d, command)
    else:
        if held.phase is Phase.FINISHED:
            _acknowledge(d, command)
            if wish is Wish.KILL and held.unknown:  # the server has dropped the attempt: the report is no longer needed
                d.held[ref] = replace(held, acked=True)
        elif command.id:  # acknowledge only when the end is on disk
            d.acks_waiting = (*(one for one in d.acks_waiting if one[0] != command.id), (command.id, ref))
        if held.phase in UNCONFIRMED or held.phase is Phase.CONFIRMED:
            held = d.held[ref] = replace(held, wish=wish)
            reason = command.reason or "cancelled before it was submitted"
            d.end(held, Result(state=AttemptState.CANCELLED, reason=reason))


def _acknowledge(d: Draft, command: ServerCommand) -> None:
    """Acknowledge a command; commands without an id are not repeated and need none."""
    if command.id and command.id not in d.acks:
        d.acks += (command.id,)


def _consider(d: Draft, offer: Offer) -> None:
    ref = offer.ref
    if ref in d.held or ref in d.judging or ref in d.expected:
        return
    past = d.past.get(ref)
    if past is not None:
        d.rejects[ref] = past.reason or "the attempt was here before and has ended"
    elif any(other.tag == ref.tag for other in d.held):
        d.rejects[ref] = f"{ref.tag} is already here with another token"
    elif d.stopping:
        d.rejects[ref] = "the agent is stopping"
    else:
        d.rejects.pop(ref, None)
        d.judging[ref] = offer
        d.do(Judge(offer))
