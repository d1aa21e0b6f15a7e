"""Every call of the API in one table: path, messages, whose credential it takes, and whether it may be sent twice."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2


class Message(Protocol):
    """What the table needs of a protobuf message."""

    def SerializeToString(self) -> bytes: ...  # protobuf's name

    @classmethod
    def FromString(cls, data: bytes, /) -> Any: ...  # protobuf's name


Asked = TypeVar("Asked", bound=Message)
Answered = TypeVar("Answered", bound=Message)


class Purpose(enum.Enum):
    """Whose credential goes with a call."""

    USER = "user"  # the bearer token, or the clusters' tokens
    SUBMIT = "submit"  # the bearer token and the clusters' tokens
    CLUSTER = "cluster"  # the cluster's own secret, given with the call
    REGISTRATION = "registration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc(Generic[Asked, Answered]):
    """One call. `twice`: the server does the same thing once, however often the call arrives."""

    path: str
    asks: type[Asked]
    answers: type[Answered]
    purpose: Purpose = Purpose.USER
    twice: bool = True


SUBMIT = Rpc(  # the client token makes a second arrival the same job
    path="/rainbow.v2.Jobs/Submit", asks=jobs_pb2.SubmitRequest, answers=jobs_pb2.SubmitResponse, purpose=Purpose.SUBMIT
)
SUBMIT_BATCH = Rpc(
    path="/rainbow.v2.Jobs/SubmitBatch",
    asks=jobs_pb2.SubmitBatchRequest,
    answers=jobs_pb2.SubmitBatchResponse,
    purpose=Purpose.SUBMIT,
)
PLAN = Rpc(
    path="/rainbow.v2.Jobs/Plan", asks=jobs_pb2.PlanRequest, answers=jobs_pb2.PlanResponse, purpose=Purpose.SUBMIT
)
GET_JOB = Rpc(path="/rainbow.v2.Jobs/Get", asks=jobs_pb2.GetJobRequest, answers=jobs_pb2.Job)
LIST_JOBS = Rpc(path="/rainbow.v2.Jobs/List", asks=jobs_pb2.ListJobsRequest, answers=jobs_pb2.ListJobsResponse)
WATCH = Rpc(path="/rainbow.v2.Jobs/Watch", asks=jobs_pb2.WatchRequest, answers=jobs_pb2.Event)
LOGS = Rpc(path="/rainbow.v2.Jobs/Logs", asks=jobs_pb2.LogsRequest, answers=jobs_pb2.LogChunk)
CANCEL = Rpc(path="/rainbow.v2.Jobs/Cancel", asks=jobs_pb2.CancelRequest, answers=jobs_pb2.CancelResponse)
RELEASE = Rpc(path="/rainbow.v2.Jobs/Release", asks=jobs_pb2.ReleaseRequest, answers=jobs_pb2.Job, twice=False)
EXPLAIN = Rpc(path="/rainbow.v2.Jobs/Explain", asks=jobs_pb2.ExplainRequest, answers=jobs_pb2.ExplainResponse)

REGISTER = Rpc(  # its answer holds credentials that are shown once
    path="/rainbow.v2.Clusters/Register",
    asks=clusters_pb2.GraphUpload,
    answers=clusters_pb2.RegisterResponse,
    purpose=Purpose.REGISTRATION,
    twice=False,
)
PUT_SUBSYSTEM = Rpc(
    path="/rainbow.v2.Clusters/PutSubsystem",
    asks=clusters_pb2.GraphUpload,
    answers=clusters_pb2.PutGraphResponse,
    purpose=Purpose.CLUSTER,
)
REPLACE_GRAPH = Rpc(
    path="/rainbow.v2.Clusters/ReplaceGraph",
    asks=clusters_pb2.GraphUpload,
    answers=clusters_pb2.PutGraphResponse,
    purpose=Purpose.CLUSTER,
)
DELETE_SUBSYSTEM = Rpc(
    path="/rainbow.v2.Clusters/DeleteSubsystem",
    asks=clusters_pb2.DeleteSubsystemRequest,
    answers=clusters_pb2.DeleteSubsystemResponse,
    purpose=Purpose.CLUSTER,
    twice=False,
)
DELETE_CLUSTER = Rpc(
    path="/rainbow.v2.Clusters/Delete",
    asks=clusters_pb2.DeleteClusterRequest,
    answers=clusters_pb2.DeleteClusterResponse,
    purpose=Purpose.CLUSTER,
    twice=False,
)
UPDATE_STATE = Rpc(
    path="/rainbow.v2.Clusters/UpdateState",
    asks=clusters_pb2.UpdateStateRequest,
    answers=clusters_pb2.UpdateStateResponse,
    purpose=Purpose.CLUSTER,
)
GET_RESTORE = Rpc(
    path="/rainbow.v2.Clusters/GetRestore", asks=clusters_pb2.GetRestoreRequest, answers=clusters_pb2.Restore
)
GIVE_UP_REPORT = Rpc(
    path="/rainbow.v2.Clusters/GiveUpReport",
    asks=clusters_pb2.GiveUpReportRequest,
    answers=clusters_pb2.Restore,
    twice=False,
)
PATCH_GRAPH = Rpc(
    path="/rainbow.v2.Clusters/PatchGraph",
    asks=clusters_pb2.PatchGraphRequest,
    answers=clusters_pb2.PatchGraphResponse,
    purpose=Purpose.CLUSTER,
)
LIST_CLUSTERS = Rpc(
    path="/rainbow.v2.Clusters/List", asks=clusters_pb2.ListClustersRequest, answers=clusters_pb2.ListClustersResponse
)
GET_CLUSTER = Rpc(path="/rainbow.v2.Clusters/Get", asks=clusters_pb2.GetClusterRequest, answers=clusters_pb2.Cluster)
DRAIN = Rpc(
    path="/rainbow.v2.Clusters/Drain",
    asks=clusters_pb2.DrainRequest,
    answers=clusters_pb2.Cluster,
    purpose=Purpose.CLUSTER,
)
UNDRAIN = Rpc(
    path="/rainbow.v2.Clusters/Undrain",
    asks=clusters_pb2.UndrainRequest,
    answers=clusters_pb2.Cluster,
    purpose=Purpose.CLUSTER,
)
SET_RULES = Rpc(
    path="/rainbow.v2.Clusters/SetRules",
    asks=clusters_pb2.SetRulesRequest,
    answers=clusters_pb2.Cluster,
    purpose=Purpose.CLUSTER,
)

RECEIVE = Rpc(  # a second arrival would lease more jobs
    path="/rainbow.v2.Agents/Receive",
    asks=agents_pb2.ReceiveRequest,
    answers=agents_pb2.ReceiveResponse,
    purpose=Purpose.CLUSTER,
    twice=False,
)
ACCEPT = Rpc(
    path="/rainbow.v2.Agents/Accept",
    asks=agents_pb2.AcceptRequest,
    answers=agents_pb2.AcceptResponse,
    purpose=Purpose.CLUSTER,
)
SYNC = Rpc(
    path="/rainbow.v2.Agents/Sync",
    asks=agents_pb2.SyncRequest,
    answers=agents_pb2.SyncResponse,
    purpose=Purpose.CLUSTER,
)

RENEW = Rpc(
    path="/rainbow.v2.Agents/Renew",
    asks=agents_pb2.RenewRequest,
    answers=agents_pb2.RenewResponse,
    purpose=Purpose.CLUSTER,
)

WHO_AM_I = Rpc(path="/rainbow.v2.Access/WhoAmI", asks=access_pb2.WhoAmIRequest, answers=access_pb2.WhoAmIResponse)
