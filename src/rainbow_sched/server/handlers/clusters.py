"""The handler of rainbow.v2.Clusters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Invalid, NotFound, TooLarge
from rainbow_sched.pb.v2 import clusters_pb2, clusters_pb2_grpc
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.service.clusters import registration, removal, reported_state
from rainbow_sched.service.clusters.rules import sees, set_rules, visible_rules
from rainbow_sched.service.core import Core
from rainbow_sched.service.maintenance import restore

MAX_UPLOAD_BYTES = 512 * 1024 * 1024


class ClustersHandler(clusters_pb2_grpc.ClustersServicer):
    """Registration, state and removal of clusters."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def Register(
        self, request_iterator: AsyncIterator[clusters_pb2.GraphUpload], context: Context
    ) -> clusters_pb2.RegisterResponse:
        header, data = await _upload(request_iterator)
        made = await registration.register(self._core, header.cluster, data, header.manager)
        if made is None:
            return clusters_pb2.RegisterResponse(cluster=header.cluster, exists=True)
        return clusters_pb2.RegisterResponse(cluster=header.cluster, token=made.token, secret=made.secret)

    async def PutSubsystem(
        self, request_iterator: AsyncIterator[clusters_pb2.GraphUpload], context: Context
    ) -> clusters_pb2.PutGraphResponse:
        header, data = await _upload(request_iterator)
        vertices = await registration.put_subsystem(self._core, header.cluster, header.subsystem, data)
        return clusters_pb2.PutGraphResponse(vertices=vertices)

    async def ReplaceGraph(
        self, request_iterator: AsyncIterator[clusters_pb2.GraphUpload], context: Context
    ) -> clusters_pb2.PutGraphResponse:
        header, data = await _upload(request_iterator)
        return clusters_pb2.PutGraphResponse(
            vertices=await registration.replace_graph(self._core, header.cluster, data)
        )

    async def DeleteSubsystem(
        self, request: clusters_pb2.DeleteSubsystemRequest, context: Context
    ) -> clusters_pb2.DeleteSubsystemResponse:
        await registration.delete_subsystem(self._core, request.cluster, request.subsystem)
        return clusters_pb2.DeleteSubsystemResponse()

    async def Delete(
        self, request: clusters_pb2.DeleteClusterRequest, context: Context
    ) -> clusters_pb2.DeleteClusterResponse:
        left = await removal.delete(self._core, request.cluster, request.jobs)
        return clusters_pb2.DeleteClusterResponse(jobs_moved=left.moved, jobs_running=left.running)

    async def UpdateState(
        self, request: clusters_pb2.UpdateStateRequest, context: Context
    ) -> clusters_pb2.UpdateStateResponse:
        values = reported_state.parse_state(request.values)
        cluster = await reported_state.update_state(self._core, request.cluster, values)
        return clusters_pb2.UpdateStateResponse(values=json.dumps(cluster.state))

    async def PatchGraph(
        self, request: clusters_pb2.PatchGraphRequest, context: Context
    ) -> clusters_pb2.PatchGraphResponse:
        used = dict(request.used) if request.has_used else None
        changed = await reported_state.patch(self._core, request.cluster, dict(request.marks), used)
        return clusters_pb2.PatchGraphResponse(changed=changed)

    async def List(
        self, request: clusters_pb2.ListClustersRequest, context: Context
    ) -> clusters_pb2.ListClustersResponse:
        names = [name for name in self._core.fleet.names() if self._sees(name)]
        return clusters_pb2.ListClustersResponse(clusters=[await self._shown(name) for name in names])

    async def Get(self, request: clusters_pb2.GetClusterRequest, context: Context) -> clusters_pb2.Cluster:
        if not self._sees(request.cluster):
            raise NotFound(f"there is no cluster {request.cluster!r}; `rainbow clusters` lists those you may see")
        shown = await self._shown(request.cluster)
        if request.tree:
            shown.tree.extend(await reported_state.tree(self._core, request.cluster))
        return shown

    async def Drain(self, request: clusters_pb2.DrainRequest, context: Context) -> clusters_pb2.Cluster:
        await registration.set_standing(self._core, request.cluster, Standing.DRAINING, request.reason[:512])
        return await self._shown(request.cluster)

    async def Undrain(self, request: clusters_pb2.UndrainRequest, context: Context) -> clusters_pb2.Cluster:
        await registration.set_standing(self._core, request.cluster, Standing.ACTIVE, "")
        return await self._shown(request.cluster)

    async def SetRules(self, request: clusters_pb2.SetRulesRequest, context: Context) -> clusters_pb2.Cluster:
        await set_rules(self._core, request.cluster, _rules_in(request), clear=request.clear)
        return await self._shown(request.cluster)

    async def GetRestore(self, request: clusters_pb2.GetRestoreRequest, context: Context) -> clusters_pb2.Restore:
        return restore_out(await restore.status(self._core, request.after, request.limit))

    async def GiveUpReport(self, request: clusters_pb2.GiveUpReportRequest, context: Context) -> clusters_pb2.Restore:
        await restore.give_up(self._core, request.cluster)
        return restore_out(await restore.status(self._core))

    def _sees(self, name: str) -> bool:
        return sees(self._core, caller(), name)

    async def _shown(self, name: str) -> clusters_pb2.Cluster:
        view = await reported_state.view(self._core, name)
        return cluster_out(view, visible_rules(caller(), view.cluster))


def cluster_out(view: reported_state.ClusterStatus, rules: Mapping[str, object]) -> clusters_pb2.Cluster:
    cluster = view.cluster
    totals = view.summary.totals if view.summary else {}
    return clusters_pb2.Cluster(
        name=cluster.name,
        standing="damaged" if view.broken else cluster.standing.value,
        manager=cluster.manager,
        registered_at=cluster.registered_at,
        seen_at=cluster.seen_at,
        state=json.dumps(cluster.state),
        state_at=cluster.state_at,
        totals=[
            clusters_pb2.Total(type=type, unit=total.unit, vertices=total.vertices, all=total.size, free=total.free)
            for type, total in totals.items()
        ],
        subsystems=view.subsystems,
        queued=view.queued,
        running=view.running,
        record=json.dumps(cluster.record),
        reason=view.broken or cluster.drain_reason,
        rules=json.dumps(rules),
        wrong_nodes=cluster.wrong_nodes,
        node_rules="" if cluster.node_rules is None else json.dumps(cluster.node_rules.to_json()),
    )


def restore_out(status: restore.RestoreStatus) -> clusters_pb2.Restore:
    return clusters_pb2.Restore(
        generation=status.restore.number,
        restored_at=status.restore.at,
        copied_at=status.copied_at,
        old_jobs=status.restore.old_jobs,
        clusters=[
            clusters_pb2.UnreportedCluster(name=row.cluster, state=row.state.value, why=row.why)
            for row in status.clusters
        ],
        jobs_waiting=status.held,
        jobs_unclear=status.unclear,
        counts=status.counts,
        findings=[
            clusters_pb2.RestoreFinding(
                seq=seq, at=one.at, kind=one.kind, job=one.job, attempt=one.n, cluster=one.cluster, detail=one.detail
            )
            for seq, one in status.findings
        ],
    )


def _rules_in(request: clusters_pb2.SetRulesRequest) -> dict[str, object]:
    """Return the changes of rules; 0 and an empty list remove a limit."""
    changes: dict[str, object] = {}
    for key in ("users", "groups"):
        if request.HasField(key):
            changes[key] = frozenset(getattr(request, key).names)
    for key in ("max_nodes", "max_time", "max_queued"):
        if request.HasField(key):
            changes[key] = getattr(request, key) or None
    if request.HasField("signed"):
        changes["signed"] = request.signed
    return changes


async def _upload(messages: AsyncIterator[clusters_pb2.GraphUpload]) -> tuple[clusters_pb2.GraphHeader, bytes]:
    """Return the header of an upload and the graph that follows it in pieces."""
    header: clusters_pb2.GraphHeader | None = None
    pieces: list[bytes] = []
    size = 0
    async for message in messages:
        if message.HasField("header"):
            if header is not None:
                raise Invalid("the header comes once, first")
            header = message.header
            continue
        if header is None:
            raise Invalid("the first message of an upload is its header")
        size += len(message.data)
        if size > MAX_UPLOAD_BYTES:
            raise TooLarge(
                f"a graph has at most {MAX_UPLOAD_BYTES} bytes as sent; compress it, or use the compact form"
            )
        pieces.append(message.data)
    if header is None:
        raise Invalid("the upload has no header")
    return header, b"".join(pieces)
