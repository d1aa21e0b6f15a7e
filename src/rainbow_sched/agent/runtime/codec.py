"""Convert between the reactor's messages and protobuf.

Nothing here raises: a value that cannot be sent is replaced by the nearest valid one, and an invalid value from the
server by the default. One bad item must not block the others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping

from rainbow_sched.agent.core.events import BidRequest, KnownAttempt, Report, ServerCommand, SyncAnswer, SyncMessage
from rainbow_sched.agent.core.values import MAX_SECONDS, AllowedHosts, BidAnswer, Offer, Ref
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid
from rainbow_sched.pb.v2 import agents_pb2

log = logging.getLogger("rainbow.agent")
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
MAX_REASON = 4_096  # characters; reasons quote commands and managers, and the server keeps less


def sync_request(message: SyncMessage) -> agents_pb2.SyncRequest:
    """Return the protobuf message, still without the agent's identity."""
    out = agents_pb2.SyncRequest(
        seq=message.seq,
        held=[agents_pb2.Held(attempt=_ref(ref), state=state) for ref, state in message.held],
        reports=[_report(report) for report in message.reports],
        accepts=[_ref(ref) for ref in message.accepts],
        rejects=[agents_pb2.Reject(attempt=_ref(ref), reason=_reason(reason)) for ref, reason in message.rejects],
        command_acks=message.acks,
        bids=[_bid(id, answer) for id, answer in message.bids],
        want=message.want,
        output=[
            agents_pb2.Output(attempt=_ref(chunk.ref), stream=chunk.stream, offset=chunk.offset, data=chunk.data)
            for chunk in message.output
        ],
        wait=message.wait,
        mark=message.mark,
        recalls=True,
    )
    if message.recall is not None:
        out.recall.complete = message.recall.complete
        out.recall.attempts.extend(map(_known_attempt, message.recall.attempts))
    facts = message.facts
    if facts is not None:
        out.state = _state(facts.state)
        out.marks.update({_text(vertex): _text(mark) for vertex, mark in facts.marks.items()})
        if facts.used is not None:
            out.has_used = True
            out.used.update({_text(vertex): units for vertex, units in facts.used.items() if 0 <= units <= MAX_INT64})
    return out


def _state(values: Mapping[str, object]) -> str:
    """Return the state as JSON, without values that JSON cannot hold."""
    parts = {}
    for key, value in values.items():
        try:
            parts[key] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            log.warning("state %r is not sent: %r is not a JSON value", key, value)
    return json.dumps(parts)


def _text(text: str) -> str:
    """Return valid UTF-8: file names and error output may contain lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _reason(text: str) -> str:
    """Truncate a reason: a long text must not make the message too large for the server."""
    return _text(text[:MAX_REASON])


def sync_answer(answer: agents_pb2.SyncResponse) -> SyncAnswer:
    """Return the answer in the reactor's types."""
    return SyncAnswer(
        ack=answer.ack,
        confirms=tuple(map(_to_ref, answer.confirms)),
        offers=tuple(map(_offer, answer.offers)),
        commands=tuple(
            ServerCommand(command.id, command.kind, _to_ref(command.attempt), command.reason)
            for command in answer.commands
        ),
        bid_requests=tuple(map(_bid_request, answer.bid_requests)),
        heartbeat=_seconds(answer.heartbeat, 25.0),
        resync=answer.resync,
        expected=tuple(map(_to_ref, answer.expected)),
        acked=tuple(map(_to_ref, answer.acked_reports)),
        output_acks=tuple((_to_ref(ack.attempt), ack.stream, ack.next_offset) for ack in answer.output_acks),
        unknown=tuple(map(_to_ref, answer.unknown_reports)),
        server=answer.server,
        mark=answer.mark,
        recall=answer.recall,
    )


def _seconds(value: float, otherwise: float) -> float:
    """Return a duration from the server, or `otherwise` if it is missing or invalid."""
    return value if 0 < value < MAX_SECONDS else otherwise


def _ref(ref: Ref) -> agents_pb2.AttemptRef:
    return agents_pb2.AttemptRef(job=ref.job, n=ref.n, token=ref.token)


def _to_ref(ref: agents_pb2.AttemptRef) -> Ref:
    return Ref(ref.job, ref.n, ref.token)


def _report(report: Report) -> agents_pb2.Report:
    out = agents_pb2.Report(
        attempt=_ref(report.ref), state=report.state, native_id=_text(report.native), nodes=_text(report.nodes)
    )
    started = report.started_at
    result = report.result
    if result is not None:
        out.reason, out.failure = _reason(result.reason), result.failure.value if result.failure else ""
        out.code = result.code
        if result.exit_code is not None:
            out.exit_code = max(-MAX_INT32, min(result.exit_code, MAX_INT32))  # out of range in both directions
        if result.ended_at is not None:
            out.ended_at = result.ended_at
        started = result.started_at if result.started_at is not None else started
    if started is not None:
        out.started_at = started
    return out


def _known_attempt(known: KnownAttempt) -> agents_pb2.KnownAttempt:
    out = agents_pb2.KnownAttempt(attempt=_ref(known.ref), phase=known.phase)
    if known.report is not None:
        out.report.CopyFrom(_report(known.report))
    offer = known.offer
    if offer is not None:
        out.offer.CopyFrom(
            agents_pb2.Offer(
                attempt=_ref(offer.ref),
                name=_text(offer.name),
                owner=_text(offer.owner),
                spec=_text(offer.spec),
                terms=_text(offer.terms),
            )
        )
    return out


def _bid(id: str, answer: BidAnswer) -> agents_pb2.Bid:
    out = agents_pb2.Bid(
        id=id,
        yes=answer.yes,
        reason=_reason(answer.reason),
        runtime_factor=answer.runtime_factor,
        valid_for=answer.valid_for,
    )
    for name in ("start_p50", "start_p90", "cost"):
        value = getattr(answer, name)
        if value is not None:
            setattr(out, name, value)
    return out


def node_rules(rules: NodeRules) -> agents_pb2.NodeRules:
    """Return the manager's node rules as announced to the server."""
    return agents_pb2.NodeRules(
        hosts=rules.hosts,
        subsystems=sorted(rules.subsystems),
        groups=rules.groups,
        one_group=rules.one_group,
        merges=rules.merges,
    )


def _bid_request(request: agents_pb2.BidRequest) -> BidRequest:
    hosts, unreadable = _hosts(request.hosts)
    allowed = AllowedHosts(hosts, request.hosts_checked or bool(hosts))
    return BidRequest(request.id, request.spec, _seconds(request.deadline, 0.0), allowed, unreadable)


def _hosts(listed: Iterable[agents_pb2.GroupHosts]) -> tuple[tuple[GroupHosts, ...], str]:
    """Return the allowed hosts and an empty text, or no hosts and the problem."""
    try:
        return tuple(GroupHosts.parse(one.group, one.hosts) for one in listed), ""
    except Invalid as problem:
        return (), f"the agent cannot read on which hosts the job may run: {problem}"


def _offer(offer: agents_pb2.Offer) -> Offer:
    hosts, unreadable = _hosts(offer.hosts)
    return Offer(
        ref=_to_ref(offer.attempt),
        name=offer.name,
        owner=offer.owner,
        spec=offer.spec,
        terms=offer.terms or "{}",
        lease=_seconds(offer.lease, 60.0),
        priority=offer.priority,
        array_index=offer.array_index if offer.is_array else None,
        hosts=hosts,
        hosts_checked=offer.hosts_checked,
        unreadable=unreadable,
    )
