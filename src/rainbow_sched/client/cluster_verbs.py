"""What a client can do with clusters: register, describe, keep current, list, drain, delete, and take jobs by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from rainbow_sched.client import codec, rpcs
from rainbow_sched.client.connection import Connection
from rainbow_sched.client.views import ClusterView, DeletedView, OfferView, Registered, RestoreView, Who
from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2


class ClusterVerbs:
    """The calls of `rainbow.v2.Clusters`, `Agents` (by hand) and `Access`."""

    connection: Connection

    async def register(self, name: str, graph: bytes, *, manager: str = "") -> Registered:
        """Register a cluster with its resource graph; the answer's credentials are shown once."""

        def pieces() -> Iterator[clusters_pb2.GraphUpload]:
            return codec.graph_pieces(name, graph, manager=manager)

        answer = await self.connection.upload(rpcs.REGISTER, pieces)
        return Registered(answer.cluster, answer.exists, answer.token, answer.secret)

    async def put_subsystem(self, name: str, subsystem: str, graph: bytes) -> int:
        """Add or replace one subsystem of a cluster; the number of its vertices."""

        def pieces() -> Iterator[clusters_pb2.GraphUpload]:
            return codec.graph_pieces(name, graph, subsystem=subsystem)

        return (await self.connection.upload(rpcs.PUT_SUBSYSTEM, pieces, bearer=self._own(name))).vertices

    async def replace_graph(self, name: str, graph: bytes) -> int:
        """Replace a cluster's resource graph; the number of its vertices."""

        def pieces() -> Iterator[clusters_pb2.GraphUpload]:
            return codec.graph_pieces(name, graph)

        return (await self.connection.upload(rpcs.REPLACE_GRAPH, pieces, bearer=self._own(name))).vertices

    async def delete_subsystem(self, name: str, subsystem: str) -> None:
        """Remove one subsystem, all of it."""
        request = clusters_pb2.DeleteSubsystemRequest(cluster=name, subsystem=subsystem)
        await self.connection.call(rpcs.DELETE_SUBSYSTEM, request, bearer=self._own(name))

    async def delete_cluster(self, name: str, *, jobs: str = "") -> DeletedView:
        """Remove a cluster. If jobs run there, `jobs` says what is to become of them: wait, cancel or lose.

        With `wait` and `cancel` it takes no new work and is gone when the last of them has ended.
        """
        request = clusters_pb2.DeleteClusterRequest(cluster=name, jobs=jobs)
        answer = await self.connection.call(rpcs.DELETE_CLUSTER, request, bearer=self._own(name))
        return DeletedView(moved=answer.jobs_moved, running=answer.jobs_running)

    async def update_state(self, name: str, values: Mapping[str, object]) -> Mapping[str, object]:
        """Merge key/values into a cluster's state; the whole state afterwards."""
        request = clusters_pb2.UpdateStateRequest(cluster=name, values=json.dumps(dict(values), allow_nan=False))
        answer = await self.connection.call(rpcs.UPDATE_STATE, request, bearer=self._own(name))
        state: Mapping[str, object] = json.loads(answer.values or "{}")
        return state

    async def patch_graph(self, name: str, marks: Mapping[str, str]) -> int:
        """Mark vertices (by id or name) up, down or drained; how many changed."""
        request = clusters_pb2.PatchGraphRequest(cluster=name, marks=marks)
        return (await self.connection.call(rpcs.PATCH_GRAPH, request, bearer=self._own(name))).changed

    async def clusters(self) -> tuple[ClusterView, ...]:
        """Every cluster that the caller may see."""
        answer = await self.connection.call(rpcs.LIST_CLUSTERS, clusters_pb2.ListClustersRequest())
        return tuple(codec.cluster(one) for one in answer.clusters)

    async def cluster(self, name: str, *, tree: bool = False) -> ClusterView:
        """One cluster; with `tree`, its containment tree as lines of text."""
        request = clusters_pb2.GetClusterRequest(cluster=name, tree=tree)
        return codec.cluster(await self.connection.call(rpcs.GET_CLUSTER, request))

    async def drain(self, name: str, *, reason: str = "") -> ClusterView:
        """Give a cluster no new work; what runs there runs to its end."""
        request = clusters_pb2.DrainRequest(cluster=name, reason=reason)
        return codec.cluster(await self.connection.call(rpcs.DRAIN, request, bearer=self._operator(name)))

    async def undrain(self, name: str) -> ClusterView:
        """Give a cluster new work again."""
        request = clusters_pb2.UndrainRequest(cluster=name)
        return codec.cluster(await self.connection.call(rpcs.UNDRAIN, request, bearer=self._operator(name)))

    async def restore(self, *, after: int = 0, limit: int = 0) -> RestoreView:
        """What the last restore of the server's database found, and what it waits for; for administrators."""
        request = clusters_pb2.GetRestoreRequest(after=after, limit=limit)
        return codec.restore(await self.connection.call(rpcs.GET_RESTORE, request))

    async def give_up_report(self, name: str) -> RestoreView:
        """Go on without a cluster's report after a restore: jobs that may have run there are held for their owners."""
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
    ) -> ClusterView:
        """Say who may use a cluster and for how much; None: as it is, 0 or empty: no limit."""
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
        return codec.cluster(await self.connection.call(rpcs.SET_RULES, request, bearer=self._operator(name)))

    async def receive(
        self, name: str, *, limit: int = 0, accept_only: str = "", order_by: str = "", lease: float = 0.0
    ) -> tuple[OfferView, ...]:
        """Lease jobs of a cluster; those that are not accepted in time go back to the queue."""
        request = agents_pb2.ReceiveRequest(cluster=name, limit=limit, accept_only=accept_only, lease=lease)
        request.order_by = order_by
        answer = await self.connection.call(rpcs.RECEIVE, request, bearer=self._own(name))
        return tuple(codec.offer(one) for one in answer.offers)

    async def accept(self, name: str, offers: Iterable[OfferView]) -> tuple[int, ...]:
        """Take leased jobs over for good; the ids of those that were still leased to the caller."""
        refs = [agents_pb2.AttemptRef(job=one.job, n=one.n, token=one.token) for one in offers]
        request = agents_pb2.AcceptRequest(cluster=name, attempts=refs)
        answer = await self.connection.call(rpcs.ACCEPT, request, bearer=self._own(name))
        return tuple(ref.job for ref in answer.accepted)

    async def who_am_i(self) -> Who:
        """The caller, as the server sees it."""
        answer = await self.connection.call(rpcs.WHO_AM_I, access_pb2.WhoAmIRequest())
        return Who(answer.name, answer.kind, tuple(answer.scopes))

    def _own(self, name: str) -> str:
        return self.connection.settings.secret_for(name)

    def _operator(self, name: str) -> str:
        """An operator's token if there is one, else the cluster's own word."""
        return self.connection.settings.token or self._own(name)
