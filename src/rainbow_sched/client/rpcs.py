"""The calls of the gRPC API: path, messages, the credential that each sends, and whether it may be retried."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2


class Message(Protocol):
    """The methods of a protobuf message that a call needs."""

    def SerializeToString(self) -> bytes: ...  # protobuf's name

    @classmethod
    def FromString(cls, data: bytes, /) -> Any: ...  # protobuf's name


RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class CallCredential(enum.Enum):
    """The credential that a call sends."""

    USER = "user"  # the bearer token, or else the clusters' submission tokens
    SUBMIT = "submit"  # the bearer token and the clusters' submission tokens
    CLUSTER = "cluster"  # the cluster's own secret, passed with the call
    REGISTRATION = "registration"


@dataclass(frozen=True, slots=True)
class Rpc(Generic[RequestT, ResponseT]):
    """One call. An idempotent one has the same effect when it arrives twice, so it may be retried."""

    path: str
    request: type[RequestT]
    response: type[ResponseT]
    credential: CallCredential = CallCredential.USER
    idempotent: bool = True


_SUBMIT, _CLUSTER = CallCredential.SUBMIT, CallCredential.CLUSTER

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

_CLUSTERS = "/rainbow.v2.Clusters/"
REGISTER = Rpc(  # the response holds credentials that are shown once
    f"{_CLUSTERS}Register",
    clusters_pb2.GraphUpload,
    clusters_pb2.RegisterResponse,
    CallCredential.REGISTRATION,
    idempotent=False,
)
PUT_SUBSYSTEM = Rpc(f"{_CLUSTERS}PutSubsystem", clusters_pb2.GraphUpload, clusters_pb2.PutGraphResponse, _CLUSTER)
REPLACE_GRAPH = Rpc(f"{_CLUSTERS}ReplaceGraph", clusters_pb2.GraphUpload, clusters_pb2.PutGraphResponse, _CLUSTER)
DELETE_SUBSYSTEM = Rpc(
    f"{_CLUSTERS}DeleteSubsystem",
    clusters_pb2.DeleteSubsystemRequest,
    clusters_pb2.DeleteSubsystemResponse,
    _CLUSTER,
    idempotent=False,
)
DELETE_CLUSTER = Rpc(
    f"{_CLUSTERS}Delete",
    clusters_pb2.DeleteClusterRequest,
    clusters_pb2.DeleteClusterResponse,
    _CLUSTER,
    idempotent=False,
)
UPDATE_STATE = Rpc(
    f"{_CLUSTERS}UpdateState", clusters_pb2.UpdateStateRequest, clusters_pb2.UpdateStateResponse, _CLUSTER
)
PATCH_GRAPH = Rpc(f"{_CLUSTERS}PatchGraph", clusters_pb2.PatchGraphRequest, clusters_pb2.PatchGraphResponse, _CLUSTER)
LIST_CLUSTERS = Rpc(f"{_CLUSTERS}List", clusters_pb2.ListClustersRequest, clusters_pb2.ListClustersResponse)
GET_CLUSTER = Rpc(f"{_CLUSTERS}Get", clusters_pb2.GetClusterRequest, clusters_pb2.Cluster)
DRAIN = Rpc(f"{_CLUSTERS}Drain", clusters_pb2.DrainRequest, clusters_pb2.Cluster, _CLUSTER)
UNDRAIN = Rpc(f"{_CLUSTERS}Undrain", clusters_pb2.UndrainRequest, clusters_pb2.Cluster, _CLUSTER)
SET_RULES = Rpc(f"{_CLUSTERS}SetRules", clusters_pb2.SetRulesRequest, clusters_pb2.Cluster, _CLUSTER)
GET_RESTORE = Rpc(f"{_CLUSTERS}GetRestore", clusters_pb2.GetRestoreRequest, clusters_pb2.Restore)
GIVE_UP_REPORT = Rpc(
    f"{_CLUSTERS}GiveUpReport", clusters_pb2.GiveUpReportRequest, clusters_pb2.Restore, idempotent=False
)

_AGENTS = "/rainbow.v2.Agents/"
RECEIVE = Rpc(  # a retry would lease more jobs
    f"{_AGENTS}Receive", agents_pb2.ReceiveRequest, agents_pb2.ReceiveResponse, _CLUSTER, idempotent=False
)
ACCEPT = Rpc(f"{_AGENTS}Accept", agents_pb2.AcceptRequest, agents_pb2.AcceptResponse, _CLUSTER)
SYNC = Rpc(f"{_AGENTS}Sync", agents_pb2.SyncRequest, agents_pb2.SyncResponse, _CLUSTER)
RENEW = Rpc(f"{_AGENTS}Renew", agents_pb2.RenewRequest, agents_pb2.RenewResponse, _CLUSTER)

_ACCESS = "/rainbow.v2.Access/"
WHO_AM_I = Rpc(f"{_ACCESS}WhoAmI", access_pb2.WhoAmIRequest, access_pb2.WhoAmIResponse)
PUT_USER = Rpc(f"{_ACCESS}PutUser", access_pb2.PutUserRequest, access_pb2.User, idempotent=False)
LIST_USERS = Rpc(f"{_ACCESS}ListUsers", access_pb2.ListUsersRequest, access_pb2.ListUsersResponse)
PUT_GROUP = Rpc(f"{_ACCESS}PutGroup", access_pb2.PutGroupRequest, access_pb2.Group, idempotent=False)
LIST_GROUPS = Rpc(f"{_ACCESS}ListGroups", access_pb2.ListGroupsRequest, access_pb2.ListGroupsResponse)
CREATE_TOKEN = Rpc(  # the response holds a secret that is shown once
    f"{_ACCESS}CreateToken", access_pb2.CreateTokenRequest, access_pb2.CreateTokenResponse, idempotent=False
)
LIST_TOKENS = Rpc(f"{_ACCESS}ListTokens", access_pb2.ListTokensRequest, access_pb2.ListTokensResponse)
REVOKE_TOKEN = Rpc(
    f"{_ACCESS}RevokeToken", access_pb2.RevokeTokenRequest, access_pb2.RevokeTokenResponse, idempotent=False
)
ROTATE_TOKEN = Rpc(
    f"{_ACCESS}RotateToken", access_pb2.RotateTokenRequest, access_pb2.CreateTokenResponse, idempotent=False
)
ASK_RENEWAL = Rpc(f"{_ACCESS}AskRenewal", access_pb2.AskRenewalRequest, access_pb2.AskRenewalResponse)
READ_AUDIT = Rpc(f"{_ACCESS}ReadAudit", access_pb2.ReadAuditRequest, access_pb2.ReadAuditResponse)
