"""The handler of rainbow.v2.Clusters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Invalid, NotFound, TooLarge
from rainbow_sched.pb.v2 import clusters_pb2 as pb
from rainbow_sched.pb.v2 import clusters_pb2_grpc
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.server.codec import message_of
from rainbow_sched.service.clusters import registration, reported_state
from rainbow_sched.service.clusters.rules import sees, set_rules, visible_rules
from rainbow_sched.service.core import Core
from rainbow_sched.service.maintenance import restore

MAX_UPLOAD_BYTES = 512 * 1024 * 1024  # as sent, possibly compressed; bounds the memory of one upload


class ClustersHandler(clusters_pb2_grpc.ClustersServicer):
    """Registration, state and removal of clusters."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def Register(self, request_iterator: AsyncIterator[pb.GraphUpload], context: Context) -> pb.RegisterResponse:
        header, data = await _upload(request_iterator)
        made = await registration.register(self._core, header.cluster, data, header.manager)
        if made is None:
            return pb.RegisterResponse(cluster=header.cluster, exists=True)
        return pb.RegisterResponse(cluster=header.cluster, token=made.token, secret=made.secret)

    async def PutSubsystem(
        self, request_iterator: AsyncIterator[pb.GraphUpload], context: Context
    ) -> pb.PutGraphResponse:
        header, data = await _upload(request_iterator)
        vertices = await registration.put_subsystem(self._core, header.cluster, header.subsystem, data)
        return pb.PutGraphResponse(vertices=vertices)

    async def ReplaceGraph(
        self, request_iterator: AsyncIterator[pb.GraphUpload], context: Context
    ) -> pb.PutGraphResponse:
        header, data = await _upload(request_iterator)
        return pb.PutGraphResponse(vertices=await registration.replace_graph(self._core, header.cluster, data))

    async def DeleteSubsystem(self, request: pb.DeleteSubsystemRequest, context: Context) -> pb.DeleteSubsystemResponse:
        await registration.delete_subsystem(self._core, request.cluster, request.subsystem)
        return pb.DeleteSubsystemResponse()

    async def Delete(self, request: pb.DeleteClusterRequest, context: Context) -> pb.DeleteClusterResponse:
        left = await registration.delete(self._core, request.cluster, request.jobs)
        return pb.DeleteClusterResponse(jobs_moved=left.moved, jobs_running=left.running)

    async def UpdateState(self, request: pb.UpdateStateRequest, context: Context) -> pb.UpdateStateResponse:
        values = reported_state.parse_state(request.values)
        cluster = await reported_state.update_state(self._core, request.cluster, values)
        return pb.UpdateStateResponse(values=json.dumps(cluster.state))

    async def PatchGraph(self, request: pb.PatchGraphRequest, context: Context) -> pb.PatchGraphResponse:
        used = dict(request.used) if request.has_used else None
        changed = await reported_state.patch(self._core, request.cluster, dict(request.marks), used)
        return pb.PatchGraphResponse(changed=changed)

    async def List(self, request: pb.ListClustersRequest, context: Context) -> pb.ListClustersResponse:
        names = [name for name in self._core.fleet.names() if self._sees(name)]
        return pb.ListClustersResponse(clusters=[await self._shown(name) for name in names])

    async def Get(self, request: pb.GetClusterRequest, context: Context) -> pb.Cluster:
        if not self._sees(request.cluster):
            raise NotFound(f"there is no cluster {request.cluster!r}; `rainbow clusters` lists those you may see")
        shown = await self._shown(request.cluster)
        if request.tree:
            shown.tree.extend(await reported_state.tree(self._core, request.cluster))
        return shown

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.Cluster:
        await registration.set_standing(self._core, request.cluster, Standing.DRAINING, request.reason[:512])
        return await self._shown(request.cluster)

    async def Undrain(self, request: pb.UndrainRequest, context: Context) -> pb.Cluster:
        await registration.set_standing(self._core, request.cluster, Standing.ACTIVE, "")
        return await self._shown(request.cluster)

    async def SetRules(self, request: pb.SetRulesRequest, context: Context) -> pb.Cluster:
        await set_rules(self._core, request.cluster, _rules_in(request), clear=request.clear)
        return await self._shown(request.cluster)

    async def GetRestore(self, request: pb.GetRestoreRequest, context: Context) -> pb.Restore:
        return restore_out(await restore.status(self._core, request.after, request.limit))

    async def GiveUpReport(self, request: pb.GiveUpReportRequest, context: Context) -> pb.Restore:
        await restore.give_up(self._core, request.cluster)
        return restore_out(await restore.status(self._core))

    def _sees(self, name: str) -> bool:
        return sees(self._core, caller(), name)

    async def _shown(self, name: str) -> pb.Cluster:
        view = await reported_state.view(self._core, name)
        return cluster_out(view, visible_rules(caller(), view.cluster))


def cluster_out(view: reported_state.ClusterStatus, rules: Mapping[str, object]) -> pb.Cluster:
    cluster = view.cluster
    totals = view.summary.totals if view.summary else {}
    return message_of(
        pb.Cluster,
        cluster,
        standing="damaged" if view.broken else cluster.standing,
        state=json.dumps(cluster.state),
        totals=[
            pb.Total(type=type, unit=total.unit, vertices=total.vertices, all=total.size, free=total.free)
            for type, total in totals.items()
        ],
        subsystems=view.subsystems,
        queued=view.queued,
        running=view.running,
        record=json.dumps(cluster.record),
        reason=view.broken or cluster.drain_reason,
        tree=(),
        rules=json.dumps(rules),
        node_rules="" if cluster.node_rules is None else json.dumps(cluster.node_rules.to_json()),
    )


def restore_out(status: restore.RestoreStatus) -> pb.Restore:
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
        findings=[message_of(pb.RestoreFinding, one, seq=seq, attempt=one.n) for seq, one in status.findings],
    )


def _rules_in(request: pb.SetRulesRequest) -> dict[str, object]:
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


async def _upload(messages: AsyncIterator[pb.GraphUpload]) -> tuple[pb.GraphHeader, bytes]:
    """Return the header of an upload and the graph that follows it in pieces."""
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
        if size > MAX_UPLOAD_BYTES:
            raise TooLarge(
                f"a graph has at most {MAX_UPLOAD_BYTES} bytes as sent; compress it, or use the compact form"
            )
        pieces.append(message.data)
    if header is None:
        raise Invalid("the upload has no header")
    return header, b"".join(pieces)
