"""The handler of rainbow.v2.Agents: Sync, and receiving jobs without an agent."""

from __future__ import annotations

import secrets

from rainbow_sched import __version__
from rainbow_sched.pb.v2 import agents_pb2 as pb
from rainbow_sched.pb.v2 import agents_pb2_grpc
from rainbow_sched.protocol.codec import answer_to_proto, offer_to_proto, ref_to_proto, request_from_proto
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.service.access import renewal
from rainbow_sched.service.agents import offers
from rainbow_sched.service.agents.answer_draft import offer_of, ref_of
from rainbow_sched.service.assembly import Service


class AgentsHandler(agents_pb2_grpc.AgentsServicer):
    """The calls of agents and of receivers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._process = f"{__version__}-{secrets.token_hex(6)}"

    async def Sync(self, request: pb.SyncRequest, context: Context) -> pb.SyncResponse:
        answer = answer_to_proto(await self._service.agents.sync(request_from_proto(request), self._process))
        answer.renew = caller().renew
        return answer

    async def Receive(self, request: pb.ReceiveRequest, context: Context) -> pb.ReceiveResponse:
        core = self._service.core
        choice = offers.OfferFilter(request.accept_only, request.order_by)
        taken = await offers.receive(core, request.cluster, request.limit, lease=request.lease, choice=choice)
        now = core.clock.now()
        return pb.ReceiveResponse(offers=[offer_to_proto(offer_of(attempt, job, now)) for attempt, job in taken])

    async def Accept(self, request: pb.AcceptRequest, context: Context) -> pb.AcceptResponse:
        asked = [(ref.job, ref.n, ref.token) for ref in request.attempts]
        done = await offers.accept(self._service.core, request.cluster, asked)
        return pb.AcceptResponse(accepted=[ref_to_proto(ref_of(attempt)) for attempt in done])

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.RenewResponse:
        await renewal.renew(self._service.core, caller(), request.id, request.digest)
        return pb.RenewResponse()
