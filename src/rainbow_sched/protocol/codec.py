"""Convert the messages of agent and server to protobuf and back.

Only a request above the limits is refused. Everything else is judged item by item, so that one bad item blocks no
other: a value that cannot be sent is replaced by the nearest valid one or left out, an invalid value is read as its
default, and a report that is not understood is set aside as an `UnknownReport`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.cluster import checked_state
from rainbow_sched.model.errors import Invalid
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol import report_reader
from rainbow_sched.protocol.messages import (
    MAX_ENTRIES,
    MAX_SECONDS,
    AllowedHosts,
    AttemptRef,
    BidAnswer,
    BidRequest,
    KnownAttempt,
    Offer,
    OutputPiece,
    Recall,
    RecalledOffer,
    Report,
    ReportedFacts,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
    SyncRequest,
    UnknownReport,
)
from rainbow_sched.protocol.report_reader import REPORTED, storable

log = logging.getLogger("rainbow.agent")
MAX_INT32 = 2**31 - 1  # range of an int32 field of a message
MAX_INT64 = 2**63 - 1  # range of an int64 field of a message
MAX_SENT_REASON_CHARS = 4_096  # reasons quote commands and managers, and the server keeps less
MAX_RECALL_ATTEMPTS = 100_000  # a recall is one message; bounds its memory
MAX_STATE_CHARS = 256 * 1024  # of a cluster's state; a longer one is ignored
MAX_SUBSYSTEMS = 64  # that an agent may announce; further ones are ignored
MAX_SUBSYSTEM_CHARS = 256  # of a name; a longer one is ignored
MAX_RULE_CHARS = 300  # of a reason that an agent announces


# --- requests ---


def request_to_proto(request: SyncRequest) -> agents_pb2.SyncRequest:
    message = request.message
    out = agents_pb2.SyncRequest(
        cluster=request.cluster,
        epoch=request.epoch,
        manager=request.manager,
        version=request.version,
        accept_only=request.accept_only,
        order_by=request.order_by,
        guards=request.guards,
        node_rules=None if request.node_rules is None else _rules_to_proto(request.node_rules),
        recalls=request.recalls,
        seq=message.seq,
        held=[agents_pb2.Held(attempt=ref_to_proto(ref), state=state) for ref, state in message.held],
        reports=[_report_to_proto(report) for report in message.reports],
        accepts=[ref_to_proto(ref) for ref in message.accepts],
        rejects=[
            agents_pb2.Reject(attempt=ref_to_proto(ref), reason=_sent_reason(reason)) for ref, reason in message.rejects
        ],
        command_acks=message.acks,
        bids=[_bid_to_proto(id, answer) for id, answer in message.bids],
        want=message.want,
        output=[
            agents_pb2.Output(
                attempt=ref_to_proto(piece.ref), stream=piece.stream, offset=piece.offset, data=piece.data
            )
            for piece in message.output
        ],
        wait=message.wait,
        mark=message.mark,
    )
    if message.facts is not None:
        _add_facts(out, message.facts)
    if message.recall is not None:
        out.recall.complete = message.recall.complete
        out.recall.attempts.extend(map(_known_to_proto, message.recall.attempts))
    return out


def request_from_proto(raw: agents_pb2.SyncRequest, states: frozenset[AttemptState] = REPORTED) -> SyncRequest:
    """Return an agent's request; raise `Invalid` if it is above the limits. `states`: the known states of reports."""
    entries = len(raw.reports) + len(raw.accepts) + len(raw.rejects)
    if entries > MAX_ENTRIES:
        raise Invalid(f"a Sync has at most {MAX_ENTRIES} entries; send them in several")
    if len(raw.recall.attempts) > MAX_RECALL_ATTEMPTS:
        raise Invalid(f"a recall has at most {MAX_RECALL_ATTEMPTS} attempts")
    reports = [report_reader.read_report(report, states) for report in raw.reports]
    message = SyncMessage(
        seq=raw.seq,
        held=tuple((ref_from_proto(held.attempt), held.state) for held in raw.held[: MAX_ENTRIES - entries]),
        reports=tuple(report for report in reports if isinstance(report, Report)),
        unknown=tuple(report for report in reports if isinstance(report, UnknownReport)),
        accepts=tuple(map(ref_from_proto, raw.accepts)),
        rejects=tuple((ref_from_proto(reject.attempt), storable(reject.reason)) for reject in raw.rejects),
        acks=tuple(raw.command_acks),
        bids=tuple((bid.id, _bid_from_proto(bid)) for bid in raw.bids),
        output=tuple(
            OutputPiece(ref_from_proto(piece.attempt), piece.stream, piece.offset, piece.data) for piece in raw.output
        ),
        want=raw.want,
        wait=raw.wait,
        facts=_facts_from_proto(raw),
        mark=raw.mark,
        recall=_recall_from_proto(raw.recall, states) if raw.HasField("recall") else None,
    )
    return SyncRequest(
        message=message,
        cluster=raw.cluster,
        epoch=raw.epoch,
        manager=storable(raw.manager),
        version=raw.version,
        accept_only=raw.accept_only,
        order_by=raw.order_by,
        guards=raw.guards,
        node_rules=_rules_from_proto(raw.node_rules) if raw.HasField("node_rules") else None,
        recalls=raw.recalls,
    )


def ref_to_proto(ref: AttemptRef) -> agents_pb2.AttemptRef:
    return agents_pb2.AttemptRef(job=ref.job, n=ref.n, token=ref.token)


def ref_from_proto(raw: agents_pb2.AttemptRef) -> AttemptRef:
    return AttemptRef(raw.job, raw.n, raw.token)


def _report_to_proto(report: Report) -> agents_pb2.Report:
    code = report.exit_code
    return agents_pb2.Report(
        attempt=ref_to_proto(report.ref),
        state=report.state.value,
        exit_code=None if code is None else max(-MAX_INT32, min(code, MAX_INT32)),  # out of range in both directions
        failure="" if report.failure is None else report.failure.value,
        reason=_sent_reason(report.reason),
        native_id=_sent_text(report.native_id),
        started_at=report.started_at,
        ended_at=report.ended_at,
        nodes=_sent_text(report.nodes),
        code=report.code,
    )


def _known_to_proto(known: KnownAttempt) -> agents_pb2.KnownAttempt:
    offer = known.offer
    return agents_pb2.KnownAttempt(
        attempt=ref_to_proto(known.ref),
        phase=known.phase,
        report=_report_to_proto(known.report) if isinstance(known.report, Report) else None,
        offer=None
        if offer is None
        else agents_pb2.Offer(
            attempt=ref_to_proto(known.ref),
            name=_sent_text(offer.name),
            owner=_sent_text(offer.owner),
            spec=_sent_text(offer.spec),
            terms=_sent_text(offer.terms),
        ),
    )


def _recall_from_proto(raw: agents_pb2.Recall, states: frozenset[AttemptState]) -> Recall:
    return Recall(attempts=tuple(_known_from_proto(known, states) for known in raw.attempts), complete=raw.complete)


def _known_from_proto(raw: agents_pb2.KnownAttempt, states: frozenset[AttemptState]) -> KnownAttempt:
    offer = raw.offer
    return KnownAttempt(
        ref=ref_from_proto(raw.attempt),
        phase=raw.phase,
        report=report_reader.read_report(raw.report, states) if raw.HasField("report") else None,
        offer=RecalledOffer(name=storable(offer.name), owner=storable(offer.owner), spec=offer.spec, terms=offer.terms)
        if raw.HasField("offer")
        else None,
    )


def _bid_to_proto(id: str, answer: BidAnswer) -> agents_pb2.Bid:
    return agents_pb2.Bid(
        id=id,
        yes=answer.yes,
        reason=_sent_reason(answer.reason),
        start_p50=answer.start_p50,
        start_p90=answer.start_p90,
        runtime_factor=answer.runtime_factor,
        cost=answer.cost,
        valid_for=answer.valid_for,
    )


def _bid_from_proto(raw: agents_pb2.Bid) -> BidAnswer:
    return BidAnswer(
        yes=raw.yes,
        reason=raw.reason,
        start_p50=raw.start_p50 if raw.HasField("start_p50") else None,
        start_p90=raw.start_p90 if raw.HasField("start_p90") else None,
        runtime_factor=raw.runtime_factor,
        cost=raw.cost if raw.HasField("cost") else None,
        valid_for=raw.valid_for,
    )


def _rules_to_proto(rules: NodeRules) -> agents_pb2.NodeRules:
    return agents_pb2.NodeRules(
        hosts=rules.hosts,
        subsystems=sorted(rules.subsystems),
        groups=rules.groups,
        one_group=rules.one_group,
        merges=rules.merges,
    )


def _rules_from_proto(raw: agents_pb2.NodeRules) -> NodeRules:
    """Return an agent's node rules; subsystems beyond the limit are ignored, which is safe."""
    named = sorted(name for name in raw.subsystems if len(name) <= MAX_SUBSYSTEM_CHARS)
    one_group = " ".join(raw.one_group[:MAX_RULE_CHARS].split())
    return NodeRules(raw.hosts, frozenset(named[:MAX_SUBSYSTEMS]), raw.groups, one_group, raw.merges)


def _add_facts(out: agents_pb2.SyncRequest, facts: ReportedFacts) -> None:
    if facts.state is not None:
        out.state = _state_to_json(facts.state)
    out.marks.update({_sent_text(vertex): _sent_text(mark) for vertex, mark in facts.marks.items()})
    if facts.used is not None:
        out.has_used = True
        out.used.update({_sent_text(vertex): units for vertex, units in facts.used.items() if 0 <= units <= MAX_INT64})


def _facts_from_proto(raw: agents_pb2.SyncRequest) -> ReportedFacts | None:
    """Return the reported facts; None if the message has none that can be read."""
    state = _state_from_json(raw.state) if raw.HasField("state") else None
    if state is None and not raw.marks and not raw.has_used:
        return None
    return ReportedFacts(state=state, marks=dict(raw.marks), used=dict(raw.used) if raw.has_used else None)


def _state_to_json(values: Mapping[str, object]) -> str:
    """Return the state as JSON, without values that JSON cannot hold."""
    parts = {}
    for key, value in values.items():
        try:
            parts[key] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            log.warning("state %r is not sent: %r is not a JSON value", key, value)
    return json.dumps(parts)


def _state_from_json(text: str) -> dict[str, object] | None:
    """Return the values of a state report that can be stored; None if it is no object."""
    try:
        values = json.loads(text) if len(text) <= MAX_STATE_CHARS else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return {key: value for key, value in values.items() if _can_be_stored(key, value)}


def _can_be_stored(key: str, value: object) -> bool:
    try:
        checked_state({key: value})
    except (Invalid, OverflowError):
        return False
    return True


def _sent_text(text: str) -> str:
    """Return valid UTF-8: file names and error output may contain lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _sent_reason(text: str) -> str:
    """Truncate a reason: a long text must not make the message too large for the server."""
    return _sent_text(text[:MAX_SENT_REASON_CHARS])


# --- answers ---


def answer_to_proto(answer: SyncAnswer) -> agents_pb2.SyncResponse:
    return agents_pb2.SyncResponse(
        ack=answer.ack,
        confirms=map(ref_to_proto, answer.confirms),
        offers=map(offer_to_proto, answer.offers),
        commands=[
            agents_pb2.Command(
                id=command.id, kind=command.kind, attempt=ref_to_proto(command.ref), reason=command.reason
            )
            for command in answer.commands
        ],
        bid_requests=map(_bid_request_to_proto, answer.bid_requests),
        heartbeat=answer.heartbeat,
        resync=answer.resync,
        expected=map(ref_to_proto, answer.expected),
        acked_reports=map(ref_to_proto, answer.acked),
        output_acks=[
            agents_pb2.OutputAck(attempt=ref_to_proto(ref), stream=stream, next_offset=offset)
            for ref, stream, offset in answer.output_acks
        ],
        unknown_reports=map(ref_to_proto, answer.unknown),
        renew=answer.renew,
        server=answer.server,
        mark=answer.mark,
        recall=answer.recall,
    )


def answer_from_proto(raw: agents_pb2.SyncResponse) -> SyncAnswer:
    return SyncAnswer(
        ack=raw.ack,
        confirms=tuple(map(ref_from_proto, raw.confirms)),
        offers=tuple(map(_offer_from_proto, raw.offers)),
        commands=tuple(
            ServerCommand(command.id, command.kind, ref_from_proto(command.attempt), command.reason)
            for command in raw.commands
        ),
        bid_requests=tuple(map(_bid_request_from_proto, raw.bid_requests)),
        heartbeat=_seconds(raw.heartbeat, 25.0),
        resync=raw.resync,
        expected=tuple(map(ref_from_proto, raw.expected)),
        acked=tuple(map(ref_from_proto, raw.acked_reports)),
        output_acks=tuple((ref_from_proto(ack.attempt), ack.stream, ack.next_offset) for ack in raw.output_acks),
        unknown=tuple(map(ref_from_proto, raw.unknown_reports)),
        renew=raw.renew,
        server=raw.server,
        mark=raw.mark,
        recall=raw.recall,
    )


def offer_to_proto(offer: Offer) -> agents_pb2.Offer:
    return agents_pb2.Offer(
        attempt=ref_to_proto(offer.ref),
        name=offer.name,
        owner=offer.owner,
        spec=offer.spec,
        terms=offer.terms,
        lease=offer.lease,
        priority=offer.priority,
        array_index=offer.array_index or 0,
        is_array=offer.array_index is not None,
        hosts=_hosts_to_proto(offer.allowed),
        hosts_checked=offer.allowed.checked,
    )


def _offer_from_proto(raw: agents_pb2.Offer) -> Offer:
    allowed, unreadable = _allowed_from_proto(raw)
    return Offer(
        ref=ref_from_proto(raw.attempt),
        name=raw.name,
        owner=raw.owner,
        spec=raw.spec,
        terms=raw.terms or "{}",
        lease=_seconds(raw.lease, 60.0),
        priority=raw.priority,
        array_index=raw.array_index if raw.is_array else None,
        allowed=allowed,
        unreadable=unreadable,
    )


def _bid_request_to_proto(request: BidRequest) -> agents_pb2.BidRequest:
    return agents_pb2.BidRequest(
        id=request.id,
        spec=request.spec,
        deadline=request.deadline,
        hosts=_hosts_to_proto(request.allowed),
        hosts_checked=request.allowed.checked,
    )


def _bid_request_from_proto(raw: agents_pb2.BidRequest) -> BidRequest:
    allowed, unreadable = _allowed_from_proto(raw)
    return BidRequest(raw.id, raw.spec, _seconds(raw.deadline, 0.0), allowed, unreadable)


def _hosts_to_proto(allowed: AllowedHosts) -> list[agents_pb2.GroupHosts]:
    return [agents_pb2.GroupHosts(group=one.group, hosts=one.hostlist) for one in allowed.groups]


def _allowed_from_proto(raw: agents_pb2.Offer | agents_pb2.BidRequest) -> tuple[AllowedHosts, str]:
    """Return the allowed hosts and an empty text, or no hosts and the problem."""
    try:
        hosts = tuple(GroupHosts.parse(one.group, one.hosts) for one in raw.hosts)
        return AllowedHosts(hosts, raw.hosts_checked or bool(hosts)), ""
    except Invalid as problem:
        why = f"the agent cannot read on which hosts the job may run: {problem}"
        return AllowedHosts(checked=raw.hosts_checked), why


def _seconds(value: float, otherwise: float) -> float:
    """Return a duration from the server, or `otherwise` if it is missing or invalid."""
    return value if 0 < value < MAX_SECONDS else otherwise
