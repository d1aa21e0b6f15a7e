"""The RPCs of `rainbow.v2.Jobs`."""

from __future__ import annotations

from rainbow_sched.client.rpc import CallCredential, Rpc
from rainbow_sched.pb.v2 import jobs_pb2

_SUBMIT = CallCredential.SUBMIT
_JOBS = "/rainbow.v2.Jobs/"
SUBMIT = Rpc(f"{_JOBS}Submit", jobs_pb2.SubmitRequest, jobs_pb2.SubmitResponse, _SUBMIT)  # has a client token
SUBMIT_BATCH = Rpc(f"{_JOBS}SubmitBatch", jobs_pb2.SubmitBatchRequest, jobs_pb2.SubmitBatchResponse, _SUBMIT)
PLAN = Rpc(f"{_JOBS}Plan", jobs_pb2.PlanRequest, jobs_pb2.PlanResponse, _SUBMIT)
GET_JOB = Rpc(f"{_JOBS}Get", jobs_pb2.GetJobRequest, jobs_pb2.Job)
LIST_JOBS = Rpc(f"{_JOBS}List", jobs_pb2.ListJobsRequest, jobs_pb2.ListJobsResponse)
WATCH = Rpc(f"{_JOBS}Watch", jobs_pb2.WatchRequest, jobs_pb2.Event)
LOGS = Rpc(f"{_JOBS}Logs", jobs_pb2.LogsRequest, jobs_pb2.LogChunk)
CANCEL = Rpc(f"{_JOBS}Cancel", jobs_pb2.CancelRequest, jobs_pb2.CancelResponse)
RELEASE = Rpc(f"{_JOBS}Release", jobs_pb2.ReleaseRequest, jobs_pb2.Job, idempotent=False)
EXPLAIN = Rpc(f"{_JOBS}Explain", jobs_pb2.ExplainRequest, jobs_pb2.ExplainResponse)
