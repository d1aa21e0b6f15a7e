"""rainbow.v2.Clusters: translate, delegate, translate back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from rainbow.model.cluster import Standing
from rainbow.model.errors import Invalid, NotFound, TooLarge
from rainbow.pb.v2 import clusters_pb2 as pb
from rainbow.pb.v2 import clusters_pb2_grpc
from rainbow.server.gate import caller
from rainbow.service import clusters, leaving, registering, restoring
from rainbow.service.core import Core
from rainbow.service.ruling import rules_shown, sees, set_rules

MAX_UPLOAD = 512 * 1024 * 1024


class ClustersHandler(clusters_pb2_grpc.ClustersServicer):
    """How clusters come, change and go."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def Register(self, request_iterator: AsyncIterator[pb.GraphUpload], context: Any) -> pb.RegisterResponse:
        header, data = await _upload(request_iterator)
        made = await registering.register(self._core, header.cluster, data, header.manager)
        if made is None:
            return pb.RegisterResponse(cluster=header.cluster, exists=True)
        return pb.RegisterResponse(cluster=header.cluster, token=made.token, secret=made.secret)

    async def PutSubsystem(self, request_iterator: AsyncIterator[pb.GraphUpload], context: Any) -> pb.PutGraphResponse:
        header, data = await _upload(request_iterator)
        vertices = await registering.put_subsystem(self._core, header.cluster, header.subsystem, data)
        return pb.PutGraphResponse(vertices=vertices)

    async def ReplaceGraph(self, request_iterator: AsyncIterator[pb.GraphUpload], context: Any) -> pb.PutGraphResponse:
        header, data = await _upload(request_iterator)
        return pb.PutGraphResponse(vertices=await registering.replace_graph(self._core, header.cluster, data))

    async def DeleteSubsystem(self, request: pb.DeleteSubsystemRequest, context: Any) -> pb.DeleteSubsystemResponse:
        await registering.delete_subsystem(self._core, request.cluster, request.subsystem)
        return pb.DeleteSubsystemResponse()

    async def Delete(self, request: pb.DeleteClusterRequest, context: Any) -> pb.DeleteClusterResponse:
        left = await leaving.delete(self._core, request.cluster, request.jobs)
        return pb.DeleteClusterResponse(jobs_moved=left.moved, jobs_running=left.running)

    async def UpdateState(self, request: pb.UpdateStateRequest, context: Any) -> pb.UpdateStateResponse:
        values = clusters.parse_state(request.values)
        cluster = await clusters.update_state(self._core, request.cluster, values)
        return pb.UpdateStateResponse(values=json.dumps(cluster.state))

    async def PatchGraph(self, request: pb.PatchGraphRequest, context: Any) -> pb.PatchGraphResponse:
        used = dict(request.used) if request.has_used else None
        changed = await clusters.patch(self._core, request.cluster, dict(request.marks), used)
        return pb.PatchGraphResponse(changed=changed)

    async def List(self, request: pb.ListClustersRequest, context: Any) -> pb.ListClustersResponse:
        names = [name for name in self._core.fleet.names() if self._sees(name)]
        return pb.ListClustersResponse(clusters=[await self._shown(name) for name in names])

    async def Get(self, request: pb.GetClusterRequest, context: Any) -> pb.Cluster:
        if not self._sees(request.cluster):
            raise NotFound(f"there is no cluster {request.cluster!r}; `rainbow clusters` lists those you may see")
        shown = await self._shown(request.cluster)
        if request.tree:
            shown.tree.extend(await clusters.tree(self._core, request.cluster))
        return shown

    async def Drain(self, request: pb.DrainRequest, context: Any) -> pb.Cluster:
        await registering.set_standing(self._core, request.cluster, Standing.DRAINING, request.reason[:512])
        return await self._shown(request.cluster)

    async def Undrain(self, request: pb.UndrainRequest, context: Any) -> pb.Cluster:
        await registering.set_standing(self._core, request.cluster, Standing.ACTIVE, "")
        return await self._shown(request.cluster)

    async def SetRules(self, request: pb.SetRulesRequest, context: Any) -> pb.Cluster:
        await set_rules(self._core, request.cluster, _rules_in(request), clear=request.clear)
        return await self._shown(request.cluster)

    async def GetRestore(self, request: pb.GetRestoreRequest, context: Any) -> pb.Restore:
        return restore_out(await restoring.status(self._core, request.after, request.limit))

    async def GiveUpReport(self, request: pb.GiveUpReportRequest, context: Any) -> pb.Restore:
        await restoring.give_up(self._core, request.cluster)
        return restore_out(await restoring.status(self._core))

    def _sees(self, name: str) -> bool:
        return sees(self._core, caller(), name)

    async def _shown(self, name: str) -> pb.Cluster:
        view = await clusters.view(self._core, name)
        return cluster_out(view, rules_shown(caller(), view.cluster))


def cluster_out(view: clusters.ClusterView, rules: Mapping[str, object]) -> pb.Cluster:
    """A cluster as a message."""
    cluster = view.cluster
    totals = view.summary.totals if view.summary else {}
    return pb.Cluster(
        name=cluster.name,
        standing="damaged" if view.broken else cluster.standing.value,
        manager=cluster.manager,
        registered_at=cluster.registered_at,
        seen_at=cluster.seen_at,
        state=json.dumps(cluster.state),
        state_at=cluster.state_at,
        totals=[
            pb.Total(type=type, unit=total.unit, vertices=total.vertices, all=total.size, free=total.free)
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


def restore_out(status: restoring.Status) -> pb.Restore:
    """What a restore found, as a message."""
    return pb.Restore(
        generation=status.restore.number,
        restored_at=status.restore.at,
        copied_at=status.copied_at,
        old_jobs=status.restore.old_jobs,
        clusters=[
            pb.UnreportedCluster(name=row.cluster, state=row.state.value, why=row.why) for row in status.clusters
        ],
        jobs_waiting=status.held,
        jobs_unclear=status.unclear,
        counts=status.counts,
        findings=[
            pb.RestoreFinding(
                seq=seq, at=one.at, kind=one.kind, job=one.job, attempt=one.n, cluster=one.cluster, detail=one.detail
            )
            for seq, one in status.findings
        ],
    )


def _rules_in(request: pb.SetRulesRequest) -> dict[str, object]:
    """What is to change; 0 and an empty list take a limit away."""
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


async def _upload(messages: AsyncIterator[pb.GraphUpload]) -> tuple[pb.GraphHeader, bytes]:
    """The header and the graph that follows it in pieces."""
    header: pb.GraphHeader | None = None
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
        if size > MAX_UPLOAD:
            raise TooLarge(f"a graph is at most {MAX_UPLOAD} bytes as sent; compress it, or use the compact form")
        pieces.append(message.data)
    if header is None:
        raise Invalid("the upload has no header")
    return header, b"".join(pieces)
