"""The RPCs of `rainbow.v2.Clusters` and `rainbow.v2.Agents`."""

from __future__ import annotations

from rainbow_sched.client.rpc import CallCredential, Rpc
from rainbow_sched.pb.v2 import agents_pb2, clusters_pb2

_CLUSTER = CallCredential.CLUSTER
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
