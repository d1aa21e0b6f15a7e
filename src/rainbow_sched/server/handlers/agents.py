"""The handler of rainbow.v2.Agents: Sync, and receiving jobs without an agent."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rainbow_sched import __version__
from rainbow_sched.jobspecs.reading.arrays import array_index
from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import Job
from rainbow_sched.pb.v2 import agents_pb2, agents_pb2_grpc
from rainbow_sched.server.admission.gate import caller
from rainbow_sched.service.access import renewal
from rainbow_sched.service.agents import offers
from rainbow_sched.service.agents.report_reader import RawReport, read_report
from rainbow_sched.service.agents.sync_messages import (
    AgentMessage,
    AgentReply,
    AttemptRef,
    AttemptReport,
    BidReply,
    OutputPiece,
    RecalledAttempt,
    RecalledOffer,
    RecallReport,
    UnknownReport,
)
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters.reported_state import valid_state_values

MAX_SYNC_ENTRIES = 20_000  # attempts in one Sync; attempts that are only held are truncated
MAX_RECALL_ATTEMPTS = 100_000  # a recall is one message
MAX_SUBSYSTEMS = 64  # that an agent may announce
MAX_SUBSYSTEM_CHARACTERS = 256
MAX_RULE_CHARACTERS = 300  # of a reason that an agent announces


class AgentsHandler(agents_pb2_grpc.AgentsServicer):
    """The calls of agents and of receivers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._process = f"{__version__}-{secrets.token_hex(6)}"

    async def Sync(self, request: agents_pb2.SyncRequest, context: Any) -> agents_pb2.SyncResponse:
        reply = await self._service.agents.sync(
            sync_in(request), lambda out: sync_out(request, out, self._process).SerializeToString()
        )
        answer = agents_pb2.SyncResponse.FromString(reply.answer)
        answer.heartbeat = reply.heartbeat
        answer.renew = caller().renew
        now = self._service.core.clock.now()
        for question in reply.bid_requests:
            answer.bid_requests.add(
                id=question.id,
                spec=question.spec,
                deadline=max(0.0, question.until - now),
                hosts=hosts_out(question.hosts),
                hosts_checked=True,
            )
        return answer

    async def Receive(self, request: agents_pb2.ReceiveRequest, context: Any) -> agents_pb2.ReceiveResponse:
        core = self._service.core
        choice = offers.OfferFilter(request.accept_only, request.order_by)
        taken = await offers.receive(core, request.cluster, request.limit, lease=request.lease, choice=choice)
        return agents_pb2.ReceiveResponse(offers=[offer_out(attempt, job, core.clock.now()) for attempt, job in taken])

    async def Accept(self, request: agents_pb2.AcceptRequest, context: Any) -> agents_pb2.AcceptResponse:
        asked = [(ref.job, ref.n, ref.token) for ref in request.attempts]
        done = await offers.accept(self._service.core, request.cluster, asked)
        return agents_pb2.AcceptResponse(
            accepted=[agents_pb2.AttemptRef(job=a.job, n=a.n, token=a.token) for a in done]
        )

    async def Renew(self, request: agents_pb2.RenewRequest, context: Any) -> agents_pb2.RenewResponse:
        await renewal.renew(self._service.core, caller(), request.id, request.digest)
        return agents_pb2.RenewResponse()


def ref_in(message: agents_pb2.AttemptRef) -> AttemptRef:
    return AttemptRef(message.job, message.n, message.token)


def ref_out(ref: AttemptRef) -> agents_pb2.AttemptRef:
    return agents_pb2.AttemptRef(job=ref.job, n=ref.n, token=ref.token)


def sync_in(message: agents_pb2.SyncRequest) -> AgentMessage:
    """Convert an agent's message. An item that is invalid is reported as unknown or ignored."""
    entries = len(message.reports) + len(message.accepts) + len(message.rejects)
    if entries > MAX_SYNC_ENTRIES:
        raise Invalid(f"a Sync has at most {MAX_SYNC_ENTRIES} entries; send them in several")
    if len(message.recall.attempts) > MAX_RECALL_ATTEMPTS:
        raise Invalid(f"a recall has at most {MAX_RECALL_ATTEMPTS} attempts")
    reports = [_report(report) for report in message.reports]
    return AgentMessage(
        cluster=message.cluster,
        epoch=message.epoch,
        seq=message.seq,
        held=tuple((ref_in(held.attempt), held.state) for held in message.held[: MAX_SYNC_ENTRIES - entries]),
        reports=tuple(report for report in reports if isinstance(report, AttemptReport)),
        unknown=tuple(report for report in reports if isinstance(report, UnknownReport)),
        accepts=tuple(ref_in(ref) for ref in message.accepts),
        rejects=tuple((ref_in(reject.attempt), reject.reason) for reject in message.rejects),
        command_acks=tuple(message.command_acks),
        bids=tuple(_bid(bid) for bid in message.bids),
        want=message.want,
        accept_only=message.accept_only,
        order_by=message.order_by,
        output=tuple(
            OutputPiece(ref=ref_in(piece.attempt), stream=piece.stream, offset=piece.offset, data=piece.data)
            for piece in message.output
        ),
        manager=message.manager,
        guards=message.guards,
        node_rules=_node_rules(message.node_rules) if message.HasField("node_rules") else None,
        wait=message.wait,
        state=valid_state_values(message.state) if message.HasField("state") else None,
        marks=dict(message.marks),
        used=dict(message.used) if message.has_used else None,
        mark=message.mark,
        recalls=message.recalls,
        recall=_recall(message.recall) if message.HasField("recall") else None,
    )


def _recall(message: agents_pb2.Recall) -> RecallReport:
    return RecallReport(attempts=tuple(_known(known) for known in message.attempts), complete=message.complete)


def _known(message: agents_pb2.KnownAttempt) -> RecalledAttempt:
    offer = message.offer
    return RecalledAttempt(
        ref=ref_in(message.attempt),
        phase=message.phase,
        report=_report(message.report) if message.HasField("report") else None,
        offer=RecalledOffer(name=offer.name, owner=offer.owner, spec=offer.spec, terms=offer.terms)
        if message.HasField("offer")
        else None,
    )


def _report(message: agents_pb2.Report) -> AttemptReport | UnknownReport:
    raw = RawReport(
        ref=ref_in(message.attempt),
        state=message.state,
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        failure=message.failure,
        reason=message.reason,
        native_id=message.native_id,
        started_at=message.started_at if message.HasField("started_at") else None,
        ended_at=message.ended_at if message.HasField("ended_at") else None,
        nodes=message.nodes,
        code=message.code,
    )
    return read_report(raw)


def _node_rules(message: agents_pb2.NodeRules) -> NodeRules:
    """Convert an agent's node rules; subsystems beyond the limit are ignored, which is safe."""
    named = sorted(name for name in message.subsystems if len(name) <= MAX_SUBSYSTEM_CHARACTERS)
    one_group = " ".join(message.one_group[:MAX_RULE_CHARACTERS].split())
    return NodeRules(message.hosts, frozenset(named[:MAX_SUBSYSTEMS]), message.groups, one_group, message.merges)


def hosts_out(hosts: Iterable[GroupHosts]) -> list[agents_pb2.GroupHosts]:
    return [agents_pb2.GroupHosts(group=entry.group, hosts=entry.hostlist) for entry in hosts]


def _bid(message: agents_pb2.Bid) -> BidReply:
    values = {
        "start_p50": message.start_p50 if message.HasField("start_p50") else None,
        "start_p90": message.start_p90 if message.HasField("start_p90") else None,
        "cost": message.cost if message.HasField("cost") else None,
        "runtime_factor": message.runtime_factor,
        "valid_for": message.valid_for,
    }
    return BidReply(id=message.id, yes=message.yes, reason=message.reason, values=values)


def sync_out(request: agents_pb2.SyncRequest, out: AgentReply, process: str) -> agents_pb2.SyncResponse:
    """Return the response to an agent; bid requests and the heartbeat are added when it is sent."""
    answer = agents_pb2.SyncResponse(
        ack=request.seq,
        server=process,
        confirms=[ref_out(ref) for ref in out.confirms],
        resync=out.resync,
        recall=out.recall,
        mark=out.mark,
        expected=[ref_out(ref) for ref in out.expected],
        acked_reports=[ref_out(ref) for ref in out.acked],
        unknown_reports=[ref_out(ref) for ref in out.unknown],
        output_acks=[
            agents_pb2.OutputAck(attempt=ref_out(ref), stream=stream, next_offset=offset)
            for ref, stream, offset in out.output_acks
        ],
    )
    for attempt, job in out.offers:
        offer = offer_out(attempt, job, attempt.created_at)
        offer.hosts.extend(hosts_out(out.hosts.get(attempt.token, ())))
        offer.hosts_checked = True
        answer.offers.append(offer)
    for command in out.commands:
        ref = agents_pb2.AttemptRef(job=command.job, n=command.n, token=command.token)
        answer.commands.add(id=command.id, kind=command.kind, attempt=ref)
    for kill in out.kills:
        answer.commands.add(id=0, kind="kill", attempt=ref_out(kill), reason="the server does not know it as live")
    return answer


def offer_out(attempt: Attempt, job: Job, now: float) -> agents_pb2.Offer:
    """Return the offer of a job, without the hosts to which it is bound."""
    index = array_index(job.terms.labels)
    return agents_pb2.Offer(
        attempt=agents_pb2.AttemptRef(job=attempt.job, n=attempt.n, token=attempt.token),
        name=job.name,
        owner=job.owner,
        spec=job.spec,
        terms=json.dumps(asdict(job.terms)),
        lease=max(0.0, (attempt.lease_until or now) - now),
        priority=job.terms.priority,
        array_index=index or 0,
        is_array=index is not None,
    )
