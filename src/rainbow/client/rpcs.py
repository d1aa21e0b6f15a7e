"""Every call of the API in one table: path, messages, whose credential it takes, and whether it may be sent twice."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rainbow.pb.v2 import access_pb2 as access
from rainbow.pb.v2 import agents_pb2 as agents
from rainbow.pb.v2 import clusters_pb2 as clusters
from rainbow.pb.v2 import jobs_pb2 as jobs


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
    path="/rainbow.v2.Jobs/Submit", asks=jobs.SubmitRequest, answers=jobs.SubmitResponse, purpose=Purpose.SUBMIT
)
SUBMIT_BATCH = Rpc(
    path="/rainbow.v2.Jobs/SubmitBatch",
    asks=jobs.SubmitBatchRequest,
    answers=jobs.SubmitBatchResponse,
    purpose=Purpose.SUBMIT,
)
PLAN = Rpc(path="/rainbow.v2.Jobs/Plan", asks=jobs.PlanRequest, answers=jobs.PlanResponse, purpose=Purpose.SUBMIT)
GET_JOB = Rpc(path="/rainbow.v2.Jobs/Get", asks=jobs.GetJobRequest, answers=jobs.Job)
LIST_JOBS = Rpc(path="/rainbow.v2.Jobs/List", asks=jobs.ListJobsRequest, answers=jobs.ListJobsResponse)
WATCH = Rpc(path="/rainbow.v2.Jobs/Watch", asks=jobs.WatchRequest, answers=jobs.Event)
LOGS = Rpc(path="/rainbow.v2.Jobs/Logs", asks=jobs.LogsRequest, answers=jobs.LogChunk)
CANCEL = Rpc(path="/rainbow.v2.Jobs/Cancel", asks=jobs.CancelRequest, answers=jobs.CancelResponse)
RELEASE = Rpc(path="/rainbow.v2.Jobs/Release", asks=jobs.ReleaseRequest, answers=jobs.Job, twice=False)
EXPLAIN = Rpc(path="/rainbow.v2.Jobs/Explain", asks=jobs.ExplainRequest, answers=jobs.ExplainResponse)

REGISTER = Rpc(  # its answer holds credentials that are shown once
    path="/rainbow.v2.Clusters/Register",
    asks=clusters.GraphUpload,
    answers=clusters.RegisterResponse,
    purpose=Purpose.REGISTRATION,
    twice=False,
)
PUT_SUBSYSTEM = Rpc(
    path="/rainbow.v2.Clusters/PutSubsystem",
    asks=clusters.GraphUpload,
    answers=clusters.PutGraphResponse,
    purpose=Purpose.CLUSTER,
)
REPLACE_GRAPH = Rpc(
    path="/rainbow.v2.Clusters/ReplaceGraph",
    asks=clusters.GraphUpload,
    answers=clusters.PutGraphResponse,
    purpose=Purpose.CLUSTER,
)
DELETE_SUBSYSTEM = Rpc(
    path="/rainbow.v2.Clusters/DeleteSubsystem",
    asks=clusters.DeleteSubsystemRequest,
    answers=clusters.DeleteSubsystemResponse,
    purpose=Purpose.CLUSTER,
    twice=False,
)
DELETE_CLUSTER = Rpc(
    path="/rainbow.v2.Clusters/Delete",
    asks=clusters.DeleteClusterRequest,
    answers=clusters.DeleteClusterResponse,
    purpose=Purpose.CLUSTER,
    twice=False,
)
UPDATE_STATE = Rpc(
    path="/rainbow.v2.Clusters/UpdateState",
    asks=clusters.UpdateStateRequest,
    answers=clusters.UpdateStateResponse,
    purpose=Purpose.CLUSTER,
)
GET_RESTORE = Rpc(path="/rainbow.v2.Clusters/GetRestore", asks=clusters.GetRestoreRequest, answers=clusters.Restore)
GIVE_UP_REPORT = Rpc(
    path="/rainbow.v2.Clusters/GiveUpReport", asks=clusters.GiveUpReportRequest, answers=clusters.Restore, twice=False
)
PATCH_GRAPH = Rpc(
    path="/rainbow.v2.Clusters/PatchGraph",
    asks=clusters.PatchGraphRequest,
    answers=clusters.PatchGraphResponse,
    purpose=Purpose.CLUSTER,
)
LIST_CLUSTERS = Rpc(
    path="/rainbow.v2.Clusters/List", asks=clusters.ListClustersRequest, answers=clusters.ListClustersResponse
)
GET_CLUSTER = Rpc(path="/rainbow.v2.Clusters/Get", asks=clusters.GetClusterRequest, answers=clusters.Cluster)
DRAIN = Rpc(
    path="/rainbow.v2.Clusters/Drain", asks=clusters.DrainRequest, answers=clusters.Cluster, purpose=Purpose.CLUSTER
)
UNDRAIN = Rpc(
    path="/rainbow.v2.Clusters/Undrain", asks=clusters.UndrainRequest, answers=clusters.Cluster, purpose=Purpose.CLUSTER
)
SET_RULES = Rpc(
    path="/rainbow.v2.Clusters/SetRules",
    asks=clusters.SetRulesRequest,
    answers=clusters.Cluster,
    purpose=Purpose.CLUSTER,
)

RECEIVE = Rpc(  # a second arrival would lease more jobs
    path="/rainbow.v2.Agents/Receive",
    asks=agents.ReceiveRequest,
    answers=agents.ReceiveResponse,
    purpose=Purpose.CLUSTER,
    twice=False,
)
ACCEPT = Rpc(
    path="/rainbow.v2.Agents/Accept",
    asks=agents.AcceptRequest,
    answers=agents.AcceptResponse,
    purpose=Purpose.CLUSTER,
)
SYNC = Rpc(
    path="/rainbow.v2.Agents/Sync", asks=agents.SyncRequest, answers=agents.SyncResponse, purpose=Purpose.CLUSTER
)

RENEW = Rpc(
    path="/rainbow.v2.Agents/Renew", asks=agents.RenewRequest, answers=agents.RenewResponse, purpose=Purpose.CLUSTER
)

WHO_AM_I = Rpc(path="/rainbow.v2.Access/WhoAmI", asks=access.WhoAmIRequest, answers=access.WhoAmIResponse)
