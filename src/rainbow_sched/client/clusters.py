"""The calls of `rainbow.v2.Clusters`, and those of `Agents`: register, update, list, drain, delete, receive jobs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rainbow_sched.client.connection import CallCredential, Connection, RequestT, ResponseT, Rpc
from rainbow_sched.client.views import ServerValue, from_message, from_messages, json_object
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.pb.v2 import clusters_pb2 as pb

_CLUSTER = CallCredential.CLUSTER
REGISTER = Rpc(  # the response holds credentials that are shown once
    "Clusters/Register", pb.GraphUpload, pb.RegisterResponse, CallCredential.REGISTRATION, idempotent=False
)
PUT_SUBSYSTEM = Rpc("Clusters/PutSubsystem", pb.GraphUpload, pb.PutGraphResponse, _CLUSTER)
REPLACE_GRAPH = Rpc("Clusters/ReplaceGraph", pb.GraphUpload, pb.PutGraphResponse, _CLUSTER)
DELETE_SUBSYSTEM = Rpc(
    "Clusters/DeleteSubsystem", pb.DeleteSubsystemRequest, pb.DeleteSubsystemResponse, _CLUSTER, idempotent=False
)
DELETE_CLUSTER = Rpc("Clusters/Delete", pb.DeleteClusterRequest, pb.DeleteClusterResponse, _CLUSTER, idempotent=False)
UPDATE_STATE = Rpc("Clusters/UpdateState", pb.UpdateStateRequest, pb.UpdateStateResponse, _CLUSTER)
PATCH_GRAPH = Rpc("Clusters/PatchGraph", pb.PatchGraphRequest, pb.PatchGraphResponse, _CLUSTER)
LIST_CLUSTERS = Rpc("Clusters/List", pb.ListClustersRequest, pb.ListClustersResponse)
GET_CLUSTER = Rpc("Clusters/Get", pb.GetClusterRequest, pb.Cluster)
DRAIN = Rpc("Clusters/Drain", pb.DrainRequest, pb.Cluster, _CLUSTER)
UNDRAIN = Rpc("Clusters/Undrain", pb.UndrainRequest, pb.Cluster, _CLUSTER)
SET_RULES = Rpc("Clusters/SetRules", pb.SetRulesRequest, pb.Cluster, _CLUSTER)
GET_RESTORE = Rpc("Clusters/GetRestore", pb.GetRestoreRequest, pb.Restore)
GIVE_UP_REPORT = Rpc("Clusters/GiveUpReport", pb.GiveUpReportRequest, pb.Restore, idempotent=False)

RECEIVE = Rpc(  # a retry would lease more jobs
    "Agents/Receive", agents_pb2.ReceiveRequest, agents_pb2.ReceiveResponse, _CLUSTER, idempotent=False
)
ACCEPT = Rpc("Agents/Accept", agents_pb2.AcceptRequest, agents_pb2.AcceptResponse, _CLUSTER)
SYNC = Rpc("Agents/Sync", agents_pb2.SyncRequest, agents_pb2.SyncResponse, _CLUSTER)
RENEW = Rpc("Agents/Renew", agents_pb2.RenewRequest, agents_pb2.RenewResponse, _CLUSTER)

CHUNK_BYTES = 1 << 20  # of an upload; below the 4 MiB that gRPC accepts by default
COMPRESS_ABOVE_BYTES = 1 << 20  # a smaller graph fits one chunk as it is


@dataclass(frozen=True, slots=True)
class ResourceTotal(ServerValue):
    """The amount of one resource type in a cluster."""

    type: str
    unit: str
    vertices: int
    all: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionInfo(ServerValue):
    """The jobs of a deleted cluster. The cluster exists until the running ones have ended."""

    moved: int = 0  # jobs that go to another cluster
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo(ServerValue):
    """The current state of a cluster."""

    name: str
    standing: str = ""
    manager: str = ""
    registered_at: float | None = None
    seen_at: float | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    state_at: float | None = None
    totals: tuple[ResourceTotal, ...] = ()
    subsystems: tuple[str, ...] = ()
    queued: int = 0
    running: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    rules: Mapping[str, Any] = field(default_factory=dict)
    wrong_nodes: int = 0  # jobs that its manager placed on nodes where they must not run
    node_rules: Mapping[str, Any] = field(default_factory=dict)  # node constraints that its agent can enforce
    tree: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportInfo(ServerValue):
    """A cluster that was registered when the database was restored, and the state of its report."""

    name: str
    state: str  # awaited, unclear, given-up, reported
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingInfo(ServerValue):
    """One difference between the restored database and a cluster's report."""

    seq: int
    at: float | None = None
    kind: str
    job: int
    attempt: int
    cluster: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreInfo(ServerValue):
    """The last restore of the server's database."""

    generation: int
    restored_at: float | None = None
    copied_at: float | None = None
    old_jobs: int = 0  # largest id of a job from before the restore
    clusters: tuple[ReportInfo, ...] = ()
    jobs_waiting: int = 0
    jobs_unclear: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[FindingInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrationInfo(ServerValue):
    """The answer to a registration. Token and secret are shown only once."""

    cluster: str
    exists: bool
    token: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferInfo(ServerValue):
    """A job leased to a receiver. It returns to the queue unless it is accepted within `lease` seconds."""

    job: int
    n: int
    token: str = field(repr=False)
    name: str = ""
    owner: str = ""
    spec: str = ""
    terms: Mapping[str, Any] = field(default_factory=dict)
    lease: float = 0.0
    priority: int = 0
    array_index: int | None = None


class ClusterClient:
    """The calls of `rainbow.v2.Clusters`, and those of `Agents` that take jobs by hand."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def register(self, name: str, graph: bytes, *, manager: str = "") -> RegistrationInfo:
        """Register a cluster with its resource graph; the returned credentials are shown only once."""
        chunks = partial(_graph_chunks, name, graph, manager=manager)
        return from_message(RegistrationInfo, await self.connection.upload(REGISTER, chunks))

    async def put_subsystem(self, name: str, subsystem: str, graph: bytes) -> int:
        """Add or replace a subsystem of a cluster; return its number of vertices."""
        chunks = partial(_graph_chunks, name, graph, subsystem=subsystem)
        return (await self.connection.upload(PUT_SUBSYSTEM, chunks, bearer=self._cluster_secret(name))).vertices

    async def replace_graph(self, name: str, graph: bytes) -> int:
        """Replace a cluster's resource graph; return its number of vertices."""
        chunks = partial(_graph_chunks, name, graph)
        return (await self.connection.upload(REPLACE_GRAPH, chunks, bearer=self._cluster_secret(name))).vertices

    async def delete_subsystem(self, name: str, subsystem: str) -> None:
        """Delete a subsystem of a cluster."""
        request = pb.DeleteSubsystemRequest(cluster=name, subsystem=subsystem)
        await self._call_as_cluster(name, DELETE_SUBSYSTEM, request)

    async def delete_cluster(self, name: str, *, jobs: str = "") -> DeletionInfo:
        """Delete a cluster. If jobs run there, `jobs` must be wait, cancel or lose.

        With `wait` and `cancel` the cluster gets no new jobs and is deleted when the last running job has ended.
        """
        request = pb.DeleteClusterRequest(cluster=name, jobs=jobs)
        answer = await self._call_as_cluster(name, DELETE_CLUSTER, request)
        return DeletionInfo(moved=answer.jobs_moved, running=answer.jobs_running)

    async def update_state(self, name: str, values: Mapping[str, object]) -> Mapping[str, object]:
        """Merge keys and values into a cluster's state; return the whole state."""
        request = pb.UpdateStateRequest(cluster=name, values=json.dumps(dict(values), allow_nan=False))
        answer = await self._call_as_cluster(name, UPDATE_STATE, request)
        return json_object(answer.values)

    async def patch_graph(self, name: str, marks: Mapping[str, str]) -> int:
        """Mark vertices (by id or name) up, down or drained; return how many changed."""
        request = pb.PatchGraphRequest(cluster=name, marks=marks)
        return (await self._call_as_cluster(name, PATCH_GRAPH, request)).changed

    async def clusters(self) -> tuple[ClusterInfo, ...]:
        """Return all clusters that the caller may see."""
        answer = await self.connection.call(LIST_CLUSTERS, pb.ListClustersRequest())
        return tuple(_cluster_info(one) for one in answer.clusters)

    async def cluster(self, name: str, *, tree: bool = False) -> ClusterInfo:
        """Return one cluster; with `tree`, its containment tree as lines of text."""
        request = pb.GetClusterRequest(cluster=name, tree=tree)
        return _cluster_info(await self.connection.call(GET_CLUSTER, request))

    async def drain(self, name: str, *, reason: str = "") -> ClusterInfo:
        """Stop new jobs on a cluster; running jobs continue."""
        request = pb.DrainRequest(cluster=name, reason=reason)
        return _cluster_info(await self._call_as_operator(name, DRAIN, request))

    async def undrain(self, name: str) -> ClusterInfo:
        """Allow new jobs on a drained cluster."""
        request = pb.UndrainRequest(cluster=name)
        return _cluster_info(await self._call_as_operator(name, UNDRAIN, request))

    async def restore(self, *, after: int = 0, limit: int = 0) -> RestoreInfo:
        """Return what the last restore of the server's database found and waits for; for administrators."""
        request = pb.GetRestoreRequest(after=after, limit=limit)
        return _restore_info(await self.connection.call(GET_RESTORE, request))

    async def give_up_report(self, name: str) -> RestoreInfo:
        """Continue without a cluster's report after a restore; jobs that may have run there are held."""
        request = pb.GiveUpReportRequest(cluster=name)
        return _restore_info(await self.connection.call(GIVE_UP_REPORT, request))

    async def set_rules(
        self,
        name: str,
        *,
        users: Iterable[str] | None = None,
        groups: Iterable[str] | None = None,
        max_nodes: int | None = None,
        max_time: float | None = None,
        max_queued: int | None = None,
        signed: bool | None = None,
        clear: bool = False,
    ) -> ClusterInfo:
        """Set who may use a cluster and how large jobs may be. None: unchanged; 0 or empty: no limit."""
        request = pb.SetRulesRequest(
            cluster=name,
            users=None if users is None else pb.RuleNames(names=users),
            groups=None if groups is None else pb.RuleNames(names=groups),
            max_nodes=max_nodes,
            max_time=max_time,
            max_queued=max_queued,
            signed=signed,
            clear=clear,
        )
        return _cluster_info(await self._call_as_operator(name, SET_RULES, request))

    async def receive(
        self, name: str, *, limit: int = 0, accept_only: str = "", order_by: str = "", lease: float = 0.0
    ) -> tuple[OfferInfo, ...]:
        """Lease jobs of a cluster; jobs that are not accepted in time return to the queue."""
        request = agents_pb2.ReceiveRequest(
            cluster=name, limit=limit, accept_only=accept_only, order_by=order_by, lease=lease
        )
        answer = await self._call_as_cluster(name, RECEIVE, request)
        return tuple(_offer_info(one) for one in answer.offers)

    async def accept(self, name: str, offers: Iterable[OfferInfo]) -> tuple[int, ...]:
        """Accept leased jobs; return the ids of those whose lease was still valid."""
        refs = [agents_pb2.AttemptRef(job=one.job, n=one.n, token=one.token) for one in offers]
        request = agents_pb2.AcceptRequest(cluster=name, attempts=refs)
        answer = await self._call_as_cluster(name, ACCEPT, request)
        return tuple(ref.job for ref in answer.accepted)

    async def _call_as_cluster(self, name: str, rpc: Rpc[RequestT, ResponseT], request: RequestT) -> ResponseT:
        return await self.connection.call(rpc, request, bearer=self._cluster_secret(name))

    async def _call_as_operator(self, name: str, rpc: Rpc[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Call with the user's token if there is one, else with the cluster's secret."""
        bearer = self.connection.settings.token or self._cluster_secret(name)
        return await self.connection.call(rpc, request, bearer=bearer)

    def _cluster_secret(self, name: str) -> str:
        return self.connection.settings.secret_for(name)


def _cluster_info(message: pb.Cluster) -> ClusterInfo:
    texts = dict.fromkeys(("state", "record", "rules", "node_rules"), json_object)
    return from_message(ClusterInfo, message, totals=partial(from_messages, ResourceTotal), **texts)


def _restore_info(message: pb.Restore) -> RestoreInfo:
    reports, findings = partial(from_messages, ReportInfo), partial(from_messages, FindingInfo)
    return from_message(RestoreInfo, message, counts=dict, clusters=reports, findings=findings)


def _offer_info(message: agents_pb2.Offer) -> OfferInfo:
    attempt = message.attempt
    return OfferInfo(
        job=attempt.job,
        n=attempt.n,
        token=attempt.token,
        name=message.name,
        owner=message.owner,
        spec=message.spec,
        terms=json_object(message.terms),
        lease=message.lease,
        priority=message.priority,
        array_index=message.array_index if message.is_array else None,
    )


def _graph_chunks(name: str, data: bytes, *, subsystem: str = "", manager: str = "") -> Iterator[pb.GraphUpload]:
    """Yield a header, then the graph in chunks of 1 MiB; a large graph is compressed."""
    sent = gzip.compress(data, compresslevel=5, mtime=0) if len(data) > COMPRESS_ABOVE_BYTES else data
    header = pb.GraphHeader(cluster=name, subsystem=subsystem, manager=manager, size=len(sent))
    yield pb.GraphUpload(header=header)
    for start in range(0, len(sent), CHUNK_BYTES):
        yield pb.GraphUpload(data=sent[start : start + CHUNK_BYTES])
