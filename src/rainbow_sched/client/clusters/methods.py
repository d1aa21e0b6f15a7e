"""Client methods for clusters: register, update, list, drain, delete, and receive jobs by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from rainbow_sched.client.clusters import codec, rpcs
from rainbow_sched.client.clusters.views import ClusterInfo, DeletionInfo, OfferInfo, RegistrationInfo, RestoreInfo
from rainbow_sched.client.connection import Connection
from rainbow_sched.pb.v2 import agents_pb2, clusters_pb2


class ClusterClient:
    """The calls of `rainbow.v2.Clusters`, and those of `Agents` that take jobs by hand."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def register(self, name: str, graph: bytes, *, manager: str = "") -> RegistrationInfo:
        """Register a cluster with its resource graph; the returned credentials are shown only once."""

        def chunks() -> Iterator[clusters_pb2.GraphUpload]:
            return codec.graph_chunks(name, graph, manager=manager)

        answer = await self.connection.upload(rpcs.REGISTER, chunks)
        return RegistrationInfo(answer.cluster, answer.exists, answer.token, answer.secret)

    async def put_subsystem(self, name: str, subsystem: str, graph: bytes) -> int:
        """Add or replace a subsystem of a cluster; return its number of vertices."""

        def chunks() -> Iterator[clusters_pb2.GraphUpload]:
            return codec.graph_chunks(name, graph, subsystem=subsystem)

        return (await self.connection.upload(rpcs.PUT_SUBSYSTEM, chunks, bearer=self._cluster_secret(name))).vertices

    async def replace_graph(self, name: str, graph: bytes) -> int:
        """Replace a cluster's resource graph; return its number of vertices."""

        def chunks() -> Iterator[clusters_pb2.GraphUpload]:
            return codec.graph_chunks(name, graph)

        return (await self.connection.upload(rpcs.REPLACE_GRAPH, chunks, bearer=self._cluster_secret(name))).vertices

    async def delete_subsystem(self, name: str, subsystem: str) -> None:
        """Delete a subsystem of a cluster."""
        request = clusters_pb2.DeleteSubsystemRequest(cluster=name, subsystem=subsystem)
        await self.connection.call(rpcs.DELETE_SUBSYSTEM, request, bearer=self._cluster_secret(name))

    async def delete_cluster(self, name: str, *, jobs: str = "") -> DeletionInfo:
        """Delete a cluster. If jobs run there, `jobs` must be wait, cancel or lose.

        With `wait` and `cancel` the cluster gets no new jobs and is deleted when the last running job has ended.
        """
        request = clusters_pb2.DeleteClusterRequest(cluster=name, jobs=jobs)
        answer = await self.connection.call(rpcs.DELETE_CLUSTER, request, bearer=self._cluster_secret(name))
        return DeletionInfo(moved=answer.jobs_moved, running=answer.jobs_running)

    async def update_state(self, name: str, values: Mapping[str, object]) -> Mapping[str, object]:
        """Merge keys and values into a cluster's state; return the whole state."""
        request = clusters_pb2.UpdateStateRequest(cluster=name, values=json.dumps(dict(values), allow_nan=False))
        answer = await self.connection.call(rpcs.UPDATE_STATE, request, bearer=self._cluster_secret(name))
        state: Mapping[str, object] = json.loads(answer.values or "{}")
        return state

    async def patch_graph(self, name: str, marks: Mapping[str, str]) -> int:
        """Mark vertices (by id or name) up, down or drained; return how many changed."""
        request = clusters_pb2.PatchGraphRequest(cluster=name, marks=marks)
        return (await self.connection.call(rpcs.PATCH_GRAPH, request, bearer=self._cluster_secret(name))).changed

    async def clusters(self) -> tuple[ClusterInfo, ...]:
        """Return all clusters that the caller may see."""
        answer = await self.connection.call(rpcs.LIST_CLUSTERS, clusters_pb2.ListClustersRequest())
        return tuple(codec.cluster(one) for one in answer.clusters)

    async def cluster(self, name: str, *, tree: bool = False) -> ClusterInfo:
        """Return one cluster; with `tree`, its containment tree as lines of text."""
        request = clusters_pb2.GetClusterRequest(cluster=name, tree=tree)
        return codec.cluster(await self.connection.call(rpcs.GET_CLUSTER, request))

    async def drain(self, name: str, *, reason: str = "") -> ClusterInfo:
        """Stop new jobs on a cluster; running jobs continue."""
        request = clusters_pb2.DrainRequest(cluster=name, reason=reason)
        return codec.cluster(await self.connection.call(rpcs.DRAIN, request, bearer=self._operator_token(name)))

    async def undrain(self, name: str) -> ClusterInfo:
        """Allow new jobs on a drained cluster."""
        request = clusters_pb2.UndrainRequest(cluster=name)
        return codec.cluster(await self.connection.call(rpcs.UNDRAIN, request, bearer=self._operator_token(name)))

    async def restore(self, *, after: int = 0, limit: int = 0) -> RestoreInfo:
        """Return what the last restore of the server's database found and waits for; for administrators."""
        request = clusters_pb2.GetRestoreRequest(after=after, limit=limit)
        return codec.restore(await self.connection.call(rpcs.GET_RESTORE, request))

    async def give_up_report(self, name: str) -> RestoreInfo:
        """Continue without a cluster's report after a restore; jobs that may have run there are held."""
        request = clusters_pb2.GiveUpReportRequest(cluster=name)
        return codec.restore(await self.connection.call(rpcs.GIVE_UP_REPORT, request))

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
        request = clusters_pb2.SetRulesRequest(
            cluster=name,
            users=None if users is None else clusters_pb2.RuleNames(names=users),
            groups=None if groups is None else clusters_pb2.RuleNames(names=groups),
            max_nodes=max_nodes,
            max_time=max_time,
            max_queued=max_queued,
            signed=signed,
            clear=clear,
        )
        return codec.cluster(await self.connection.call(rpcs.SET_RULES, request, bearer=self._operator_token(name)))

    async def receive(
        self, name: str, *, limit: int = 0, accept_only: str = "", order_by: str = "", lease: float = 0.0
    ) -> tuple[OfferInfo, ...]:
        """Lease jobs of a cluster; jobs that are not accepted in time return to the queue."""
        request = agents_pb2.ReceiveRequest(cluster=name, limit=limit, accept_only=accept_only, lease=lease)
        request.order_by = order_by
        answer = await self.connection.call(rpcs.RECEIVE, request, bearer=self._cluster_secret(name))
        return tuple(codec.offer(one) for one in answer.offers)

    async def accept(self, name: str, offers: Iterable[OfferInfo]) -> tuple[int, ...]:
        """Accept leased jobs; return the ids of those whose lease was still valid."""
        refs = [agents_pb2.AttemptRef(job=one.job, n=one.n, token=one.token) for one in offers]
        request = agents_pb2.AcceptRequest(cluster=name, attempts=refs)
        answer = await self.connection.call(rpcs.ACCEPT, request, bearer=self._cluster_secret(name))
        return tuple(ref.job for ref in answer.accepted)

    def _cluster_secret(self, name: str) -> str:
        return self.connection.settings.secret_for(name)

    def _operator_token(self, name: str) -> str:
        """Return the user's token if there is one, else the cluster's secret."""
        return self.connection.settings.token or self._cluster_secret(name)
