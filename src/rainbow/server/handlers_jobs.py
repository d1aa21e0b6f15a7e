"""rainbow.v2.Jobs: translate, delegate, translate back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from rainbow.model.candidate import Demand
from rainbow.model.credential import Principal
from rainbow.model.errors import Invalid
from rainbow.pb.v2 import jobs_pb2 as pb
from rainbow.pb.v2 import jobs_pb2_grpc
from rainbow.server import wire
from rainbow.server.gate import caller
from rainbow.service import explaining, jobs, watching
from rainbow.service.assembly import Service
from rainbow.service.deciding import Ask


class JobsHandler(jobs_pb2_grpc.JobsServicer):
    """What people do with jobs."""

    def __init__(self, service: Service, reader: wire.Reader) -> None:
        self._service, self._reader = service, reader
        self._core = service.core

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitResponse:
        by = self._met()
        receipts = await self._service.intake.submit(wire.submissions(self._reader, request, by))
        return wire.receipt_out(receipts[0])

    async def SubmitBatch(self, request: pb.SubmitBatchRequest, context: Any) -> pb.SubmitBatchResponse:
        by = self._met()
        made = [one for message in request.jobs for one in wire.submissions(self._reader, message, by)]
        if not made:
            raise Invalid("the batch is empty")
        receipts = await self._service.intake.submit(made)
        return pb.SubmitBatchResponse(jobs=[wire.receipt_out(receipt) for receipt in receipts])

    async def Plan(self, request: pb.PlanRequest, context: Any) -> pb.PlanResponse:
        ask_request, spec, _ = self._reader.spec(request.spec)
        by = self._met()
        terms = wire.terms_in(request.terms, by)
        seed = self._core.ids.seed()
        ask = Ask(request=ask_request, spec=spec, terms=terms, owner=by.name, seed=seed, show_slots=True)
        plan = await explaining.plan(self._service.decider, ask, reasons=request.reasons)
        return pb.PlanResponse(decision=plan.decision.to_json(), explanations=plan.explanations)

    async def Get(self, request: pb.GetJobRequest, context: Any) -> pb.Job:
        view = await jobs.get(self._core, request.id, caller())
        return wire.job_out(view, spec=request.spec, nodes=self._nodes(view))

    async def List(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        limit = min(request.limit or 100, jobs.MOST_LISTED)
        which = wire.filter_in(request.filter)
        found = await jobs.listed(self._core, which, caller(), before=request.before, limit=limit)
        return wire.page_out((wire.job_out(view, nodes=self._nodes(view)) for view in found), limit)

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.Event]:
        which = wire.filter_in(request.filter)
        after = request.after
        if request.from_now:
            after = await watching.latest(self._core)
            await context.send_initial_metadata((("rainbow-after", str(after)),))  # for who is cut before any event
        async for event in watching.watch(self._core, which, caller(), after):
            yield wire.event_out(event)

    async def Logs(self, request: pb.LogsRequest, context: Any) -> AsyncIterator[pb.LogChunk]:
        chunks = watching.logs(
            self._core,
            request.id,
            caller(),
            follow=request.follow,
            streams=(request.stream,) if request.stream else (),
            offsets={"stdout": request.stdout_offset, "stderr": request.stderr_offset},
            tail=request.tail,
        )
        async for chunk in chunks:
            yield pb.LogChunk(stream=chunk.stream, offset=chunk.offset, data=chunk.data)

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        which = wire.filter_in(request.filter) if request.HasField("filter") else None
        found = await jobs.cancel(
            self._core, wire.checked_ids(request.ids), which, caller(), request.reason, dry_run=request.dry_run
        )
        unchanged = [view.job.id for view in found if view.unchanged]
        return pb.CancelResponse(jobs=[wire.job_out(view) for view in found], unchanged=unchanged)

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.Job:
        return wire.job_out(await jobs.release(self._core, request.id, caller()))

    async def Explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainResponse:
        story = await explaining.explain(self._service.decider, request.id, caller())
        return wire.story_out(story, self._nodes(story.view))

    def _met(self) -> Principal:
        """Who asks for a decision; where clusters have rules, it is remembered what an issuer said of them."""
        by = caller()
        if self._core.fleet.rules:
            self._core.people.met(by)
        return by

    def _nodes(self, view: jobs.JobView) -> int:
        return Demand.of(self._core.request_of(view.job.spec)).nodes
