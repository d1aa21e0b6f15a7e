"""Between the reactor's messages and protobuf; nothing past this file knows protobuf."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rainbow.agent.events import BidRequest, Report, ServerCommand, SyncAnswer, SyncMessage
from rainbow.agent.values import AllowedHosts, BidAnswer, Offer, Ref
from rainbow.model.binding import GroupHosts, NodeRules
from rainbow.model.errors import Invalid
from rainbow.pb.v2 import agents_pb2 as pb


def sync_request(message: SyncMessage) -> pb.SyncRequest:
    """A message as it goes out; the link adds who speaks."""
    out = pb.SyncRequest(
        seq=message.seq,
        held=[pb.Held(attempt=_ref(ref), state=state) for ref, state in message.held],
        reports=[_report(report) for report in message.reports],
        accepts=[_ref(ref) for ref in message.accepts],
        rejects=[pb.Reject(attempt=_ref(ref), reason=reason) for ref, reason in message.rejects],
        command_acks=message.acks,
        bids=[_bid(id, answer) for id, answer in message.bids],
        want=message.want,
        output=[
            pb.Output(attempt=_ref(chunk.ref), stream=chunk.stream, offset=chunk.offset, data=chunk.data)
            for chunk in message.output
        ],
        wait=message.wait,
    )
    facts = message.facts
    if facts is not None:
        out.state = json.dumps(facts.state, allow_nan=False)
        out.marks.update(facts.marks)
        if facts.used is not None:
            out.has_used = True
            out.used.update(facts.used)
    return out


def sync_answer(answer: pb.SyncResponse) -> SyncAnswer:
    """An answer as it came in."""
    return SyncAnswer(
        ack=answer.ack,
        confirms=tuple(map(_back, answer.confirms)),
        offers=tuple(map(_offer, answer.offers)),
        commands=tuple(
            ServerCommand(command.id, command.kind, _back(command.attempt), command.reason)
            for command in answer.commands
        ),
        bid_requests=tuple(map(_bid_request, answer.bid_requests)),
        heartbeat=answer.heartbeat or 25.0,
        resync=answer.resync,
        expected=tuple(map(_back, answer.expected)),
        acked=tuple(map(_back, answer.acked_reports)),
        output_acks=tuple((_back(ack.attempt), ack.stream, ack.next_offset) for ack in answer.output_acks),
    )


def _ref(ref: Ref) -> pb.AttemptRef:
    return pb.AttemptRef(job=ref.job, n=ref.n, token=ref.token)


def _back(ref: pb.AttemptRef) -> Ref:
    return Ref(ref.job, ref.n, ref.token)


def _report(report: Report) -> pb.Report:
    out = pb.Report(attempt=_ref(report.ref), state=report.state, native_id=report.native, nodes=report.nodes)
    started = report.started_at
    result = report.result
    if result is not None:
        out.reason, out.failure = result.reason, result.failure.value if result.failure else ""
        out.code = result.code
        if result.exit_code is not None:
            out.exit_code = result.exit_code
        if result.ended_at is not None:
            out.ended_at = result.ended_at
        started = result.started_at if result.started_at is not None else started
    if started is not None:
        out.started_at = started
    return out


def _bid(id: str, answer: BidAnswer) -> pb.Bid:
    out = pb.Bid(
        id=id,
        yes=answer.yes,
        reason=answer.reason,
        runtime_factor=answer.runtime_factor,
        valid_for=answer.valid_for,
    )
    for name in ("start_p50", "start_p90", "cost"):
        value = getattr(answer, name)
        if value is not None:
            setattr(out, name, value)
    return out


def node_rules(rules: NodeRules) -> pb.NodeRules:
    """What the manager can be told about nodes, as it is announced."""
    return pb.NodeRules(hosts=rules.hosts, subsystems=sorted(rules.subsystems), groups=rules.groups)


def _bid_request(request: pb.BidRequest) -> BidRequest:
    hosts, unreadable = _hosts(request.hosts)
    allowed = AllowedHosts(hosts, request.hosts_checked or bool(hosts))
    return BidRequest(request.id, request.spec, request.deadline, allowed, unreadable)


def _hosts(listed: Iterable[pb.GroupHosts]) -> tuple[tuple[GroupHosts, ...], str]:
    """Read the allowed hosts; with the problem if they cannot be read: one bad offer must not spoil the answer."""
    try:
        return tuple(GroupHosts.parse(one.group, one.hosts) for one in listed), ""
    except Invalid as problem:
        return (), f"the agent cannot read on which hosts the job may run: {problem}"


def _offer(offer: pb.Offer) -> Offer:
    hosts, unreadable = _hosts(offer.hosts)
    return Offer(
        ref=_back(offer.attempt),
        name=offer.name,
        owner=offer.owner,
        spec=offer.spec,
        terms=offer.terms or "{}",
        lease=offer.lease or 60.0,
        priority=offer.priority,
        array_index=offer.array_index if offer.is_array else None,
        hosts=hosts,
        hosts_checked=offer.hosts_checked,
        unreadable=unreadable,
    )
