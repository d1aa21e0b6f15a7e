"""The handler of rainbow.v2.Jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Invalid
from rainbow_sched.pb.v2 import jobs_pb2 as pb
from rainbow_sched.pb.v2 import jobs_pb2_grpc
from rainbow_sched.server import codec
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.scheduling.plan import PlacementQuery
from rainbow_sched.service.views import explanation, jobs


class JobsHandler(jobs_pb2_grpc.JobsServicer):
    """Submission, listing and control of jobs."""

    def __init__(self, service: Service, reader: codec.SubmissionReader) -> None:
        self._service, self._reader = service, reader
        self._core = service.core

    async def Submit(self, request: pb.SubmitRequest, context: Context) -> pb.SubmitResponse:
        by = self._deciding_caller()
        receipts = await self._service.intake.submit(codec.submissions(self._reader, request, by))
        return codec.receipt_out(receipts[0])

    async def SubmitBatch(self, request: pb.SubmitBatchRequest, context: Context) -> pb.SubmitBatchResponse:
        by = self._deciding_caller()
        made = [one for message in request.jobs for one in codec.submissions(self._reader, message, by)]
        if not made:
            raise Invalid("the batch is empty")
        receipts = await self._service.intake.submit(made)
        return pb.SubmitBatchResponse(jobs=[codec.receipt_out(receipt) for receipt in receipts])

    async def Plan(self, request: pb.PlanRequest, context: Context) -> pb.PlanResponse:
        prepared, _ = self._reader.spec(request.spec)
        by = self._deciding_caller()
        terms = codec.terms_in(request.terms, codec.opened(by))
        seed = self._core.ids.seed()
        ask = PlacementQuery(request=prepared, terms=terms, owner=by.name, seed=seed, show_slots=True)
        decision, explanations = await explanation.plan(self._core, ask, reasons=request.reasons)
        return pb.PlanResponse(decision=decision.to_json(), explanations=explanations)

    async def Get(self, request: pb.GetJobRequest, context: Context) -> pb.Job:
        view = await jobs.get(self._core, request.id, caller())
        return codec.job_out(view, spec=request.spec, nodes=self._nodes(view))

    async def List(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        limit = min(request.limit or 100, jobs.MAX_LISTED)
        which = codec.filter_in(request.filter)
        found = await jobs.listed(self._core, which, caller(), before=request.before, limit=limit)
        return codec.page_out((codec.job_out(view, nodes=self._nodes(view)) for view in found), limit)

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.Event]:
        which = codec.filter_in(request.filter)
        after = request.after
        if request.from_now:
            after = await jobs.latest(self._core)
            await context.send_initial_metadata((("rainbow-after", str(after)),))  # to resume before the first event
        async for event in jobs.watch(self._core, which, caller(), after):
            yield codec.event_out(event)

    async def Logs(self, request: pb.LogsRequest, context: Context) -> AsyncIterator[pb.LogChunk]:
        chunks = jobs.logs(
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

    async def Cancel(self, request: pb.CancelRequest, context: Context) -> pb.CancelResponse:
        which = codec.filter_in(request.filter) if request.HasField("filter") else None
        found = await jobs.cancel(
            self._core, codec.checked_ids(request.ids), which, caller(), request.reason, dry_run=request.dry_run
        )
        unchanged = [view.job.id for view in found if view.unchanged]
        return pb.CancelResponse(jobs=[codec.job_out(view) for view in found], unchanged=unchanged)

    async def Release(self, request: pb.ReleaseRequest, context: Context) -> pb.Job:
        return codec.job_out(await jobs.release(self._core, request.id, caller()))

    async def Explain(self, request: pb.ExplainRequest, context: Context) -> pb.ExplainResponse:
        story = await explanation.explain(self._service.core, request.id, caller())
        return codec.story_out(story, self._nodes(story.view))

    def _deciding_caller(self) -> Principal:
        """Return the caller; if clusters have rules, cache the groups that its token claims."""
        by = caller()
        if self._core.fleet.rules:
            self._core.group_cache.remember_claims(by)
        return by

    def _nodes(self, view: jobs.JobWithAttempt) -> int:
        return self._core.request_of(view.job.spec).demand.nodes
