"""The handlers of the prototype's two services, so that its clients work unmodified."""

from __future__ import annotations

import json
import uuid

from rainbow_sched.jobspecs.dialects.nextgen_writer import to_nextgen
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.decision import Chosen
from rainbow_sched.model.errors import Impossible, Invalid
from rainbow_sched.model.job import Job, Terms
from rainbow_sched.model.request import Request
from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc, rainbow_pb2_grpc
from rainbow_sched.pb.prototype import rainbow_pb2 as pb
from rainbow_sched.selection.decisions import decide
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.server.codec import opened
from rainbow_sched.service.agents import offers
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration, reported_state
from rainbow_sched.service.clusters.rules import visible_to
from rainbow_sched.service.scheduling.plan import PlacementQuery, question_with_bids
from rainbow_sched.service.submission.intake import Submission

MOST_INT32 = 2**31 - 1  # largest job id that the prototype's messages can hold
_OWN_GRAPH = ("", "cluster")


class SchedulerHandler(rainbow_pb2_grpc.RainbowSchedulerServicer):
    """convergedcomputing.org.grpc.v1.RainbowScheduler."""

    def __init__(self, service: Service) -> None:
        self._service, self._core = service, service.core

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterResponse:
        if request.subsystem not in _OWN_GRAPH:
            raise Invalid("a new cluster comes with its own graph; register subsystems afterwards")
        made = await registration.register(self._core, request.name, request.nodes.encode())
        if made is None:
            return pb.RegisterResponse(request_id=_id(), status=pb.RegisterResponse.REGISTER_EXISTS)
        return pb.RegisterResponse(
            request_id=_id(), token=made.token, secret=made.secret, status=pb.RegisterResponse.REGISTER_SUCCESS
        )

    async def RegisterSubsystem(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterResponse:
        await registration.put_subsystem(
            self._core, request.name, request.subsystem, request.nodes.encode(), replace=False
        )
        return pb.RegisterResponse(request_id=_id(), status=pb.RegisterResponse.REGISTER_SUCCESS)

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        await registration.delete(self._core, request.name)
        return pb.DeleteResponse(status=pb.DeleteResponse.DELETE_SUCCESS)

    async def DeleteSubsystem(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        await registration.delete_subsystem(self._core, request.name, request.subsytem)
        return pb.DeleteResponse(status=pb.DeleteResponse.DELETE_SUCCESS)

    async def UpdateState(self, request: pb.UpdateStateRequest, context: Context) -> pb.UpdateStateResponse:
        await reported_state.update_state(self._core, request.cluster, reported_state.parse_state(request.payload))
        return pb.UpdateStateResponse(status=pb.UpdateStateResponse.UPDATE_STATE_SUCCESS)

    async def SubmitJob(self, request: pb.SubmitJobRequest, context: Context) -> pb.SubmitJobResponse:
        """Submit as the prototype: refuse what no cluster takes now and store nothing; the intake decides it again."""
        submission = self._submission(request)
        seed = self._core.ids.seed()
        ask = PlacementQuery(submission.request, submission.terms, submission.owner, seed)
        decision = decide(await question_with_bids(self._core, ask), self._core.policies)
        if not isinstance(decision.outcome, Chosen):
            raise Impossible("no clusters passed selection: " + "; ".join(decision.outcome.reasons))
        if request.satisfy_only:
            ranked = list(decision.ranked)
            return pb.SubmitJobResponse(
                request_id=_id(),
                cluster=ranked[0],
                clusters=ranked,
                status=pb.SubmitJobResponse.SUBMIT_SUCCESS,
            )
        [receipt] = await self._service.intake.submit([submission])
        if receipt.id > MOST_INT32:
            raise Invalid("job ids are past what this interface can carry; use rainbow.v2")
        cluster = receipt.cluster or await self._cluster_of(receipt.id)
        return pb.SubmitJobResponse(
            request_id=_id(), jobid=receipt.id, cluster=cluster, status=pb.SubmitJobResponse.SUBMIT_SUCCESS
        )

    async def _cluster_of(self, id: int) -> str:
        """Return the cluster of a job that is decided after it was stored, as with bids: these clients wait for it."""
        await self._service.scheduling_loop.decide(id)
        job = await self._core.store.read(lambda tx: tx.job(id))
        return "" if job is None else job.cluster

    def _submission(self, request: pb.SubmitJobRequest) -> Submission:
        by = caller()
        parsed = parse(request.jobspec)
        terms = Terms(
            policy=request.select_algorithm,
            policy_options=dict(request.select_options),
            later=True,  # the prototype assigns a job at once, and it waits on its cluster
            opened=opened(by),
        )
        return Submission(
            owner=by.name,
            request=self._core.requests.add(parsed),
            source=request.jobspec,
            name=request.name or parsed.name,
            terms=terms,
        )

    async def ReceiveJobs(self, request: pb.ReceiveJobsRequest, context: Context) -> pb.ReceiveJobsResponse:
        limit = request.maxJobs if request.maxJobs > 0 else offers.MAX_JOBS_RECEIVED
        taken = await offers.receive(self._core, request.cluster, limit)
        answer = pb.ReceiveJobsResponse(request_id=_id())
        for _, job in taken:
            answer.jobs[job.id] = _as_received(job, self._core.request_of(job.spec).request)
        if taken:
            answer.status = pb.ReceiveJobsResponse.REQUEST_JOBS_SUCCESS
        return answer

    async def AcceptJobs(self, request: pb.AcceptJobsRequest, context: Context) -> pb.AcceptJobsResponse:
        asked = dict.fromkeys(request.jobids)
        done = await offers.accept(self._core, request.cluster, [(id, 0, "") for id in asked])
        whole = pb.AcceptJobsResponse.RESULT_TYPE_SUCCESS
        return pb.AcceptJobsResponse(
            status=whole if done and len(done) == len(asked) else pb.AcceptJobsResponse.RESULT_TYPE_PARTIAL
        )


class GraphHandler(memory_pb2_grpc.MemoryGraphServicer):
    """service.MemoryGraph: which clusters could ever run a request. The policy rejects Register."""

    def __init__(self, service: Service) -> None:
        self._core = service.core

    async def Satisfy(self, request: memory_pb2.SatisfyRequest, context: Context) -> memory_pb2.SatisfyResponse:
        if request.matcher not in ("", "match"):
            raise Invalid(f"did not find algorithm named {request.matcher}; there is one, match")
        wanted = prepare(parse(request.payload))
        by, closed = caller(), self._core.fleet.closed()
        seen = [name for name in self._core.fleet.names() if visible_to(self._core, by, name)]
        open_names = [name for name in seen if name not in closed]
        found = sorted(self._core.fleet.graphs.match(wanted, open_names).ever) if open_names else []
        total = len(seen)
        return memory_pb2.SatisfyResponse(
            clusters=found,
            status=memory_pb2.SatisfyResponse.RESULT_TYPE_SUCCESS,
            total_clusters=total,
            total_matches=len(found),
            total_mismatches=total - len(found),
        )


def _as_received(job: Job, request: Request) -> str:
    """Return a job as JSON for the prototype's receivers."""
    text = job.source or json.dumps(to_nextgen(request))
    return json.dumps({"id": job.id, "cluster": job.cluster, "name": job.name, "jobspec": text, "command": ""})


def _id() -> str:
    return str(uuid.uuid4())
