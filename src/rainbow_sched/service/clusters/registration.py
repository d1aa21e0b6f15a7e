"""Register clusters, change their graphs, and remove them.

A cluster is removed at once when nothing runs there, else after its jobs ended, or by force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rainbow_sched.graphs.formats.packed_graph import pack, pack_subsystem, unpack, unpack_subsystem
from rainbow_sched.graphs.formats.reader import read, read_subsystem
from rainbow_sched.model.attempt import BEFORE_CONFIRM, Attempt, AttemptState, Failure
from rainbow_sched.model.cluster import Cluster, Standing, cluster_name
from rainbow_sched.model.credential import CredentialKind
from rainbow_sched.model.errors import AlreadyExists, Conflict, Invalid, NotFound
from rainbow_sched.model.graph import Graph, Subsystem
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.access.principals import revoke_cluster
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.store.base import ReportState, Tx

DOMINANT = ""
MAX_TRIES = 5  # to store a graph while other calls change the same cluster
REMOVED = "its cluster was removed"
LEAVES = "it is being removed"
JOB_CHOICES = ("", "wait", "cancel", "lose")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """A new cluster's secrets, shown once and never stored."""

    token: str
    secret: str


async def register(core: Core, name: str, text: bytes, manager: str = "") -> ClusterCredentials | None:
    """Add a cluster with its graph; return None if the name is taken."""
    cluster_name(name)
    if core.fleet.get(name) is not None:
        return None
    graph, packed = await _read(text)
    by, now = acting(), core.clock.now()
    submits = (f"submit:{name}", "job:read:own", "job:cancel:own")
    token, submit = core.ids.credential(CredentialKind.SUBMIT, f"submitter:{name}", submits, now)
    secret, agent = core.ids.credential(CredentialKind.AGENT, f"cluster:{name}", (f"agent:{name}",), now)

    def work(tx: Tx) -> Cluster:
        cluster = tx.add_cluster(name, now)
        if manager:
            cluster = tx.update_cluster(cluster.id, manager=manager)
        tx.put_graph(cluster.id, DOMINANT, packed, now)
        tx.add_credential(submit)
        tx.add_credential(agent)
        by.spend(tx)
        by.note(tx, "cluster.register", name, now, f"{len(graph)} vertices")
        return cluster

    try:
        await asyncio.shield(_commit(core, work, lambda cluster: core.fleet.add(cluster, graph, ())))
    except AlreadyExists:
        return None
    return ClusterCredentials(token, secret)


async def _commit(core: Core, work: Callable[[Tx], T], update_memory: Callable[[T], None]) -> None:
    """Store a change of graphs, then update the fleet in memory, and try pending jobs again."""
    update_memory(await core.commit(work))
    core.pending.changed()


async def replace_graph(core: Core, name: str, text: bytes) -> int:
    """Replace the dominant graph and re-attach the subsystems; return the number of vertices."""
    graph, packed = await _read(text)
    by, now = acting(), core.clock.now()
    ids = graph.positions()

    async def attempt() -> None:
        id = core.fleet.member(name).cluster.id
        kept = await core.store.read(lambda tx: _subsystems(tx, id))
        subsystems = [_reattached(unpack_subsystem(data), ids) for data in kept.values()]

        def work(tx: Tx) -> Cluster:
            cluster = _same(tx, name, id)
            if _subsystems(tx, id) != kept:
                raise _GraphsChanged
            tx.put_graph(id, DOMINANT, packed, now)
            by.note(tx, "cluster.replace-graph", name, now, f"{len(graph)} vertices")
            marks = {vertex: mark for vertex, mark in cluster.marks.items() if vertex in ids}
            return tx.update_cluster(id, marks=marks, used={})

        await _commit(core, work, lambda cluster: core.fleet.add(cluster, graph, subsystems))

    await asyncio.shield(_retry_on_change(attempt))
    return len(graph)


async def put_subsystem(core: Core, name: str, subsystem: str, text: bytes, *, replace: bool = True) -> int:
    """Add or replace a subsystem, attached to the cluster's graph; return the number of vertices."""
    cluster_name(subsystem)
    if subsystem in ("cluster", "containment"):
        raise Invalid(f"{subsystem!r} is the name of the cluster's own graph; give the subsystem another name")
    by, now = acting(), core.clock.now()

    async def attempt() -> int:
        id = core.fleet.member(name).cluster.id
        graph = await core.store.read(lambda tx: tx.graph(id, DOMINANT))
        if graph is None:
            raise NotFound(f"there is no cluster {name!r}")
        made = await asyncio.to_thread(lambda: read_subsystem(subsystem, unpack(graph), text))
        packed = pack_subsystem(made)

        def work(tx: Tx) -> None:
            _same(tx, name, id)
            if tx.graph(id, DOMINANT) != graph:
                raise _GraphsChanged
            if not replace and subsystem in tx.subsystems(id):
                raise AlreadyExists(f"cluster {name!r} has a subsystem {subsystem!r}; delete it first, or replace it")
            tx.put_graph(id, subsystem, packed, now)
            by.note(tx, "cluster.put-subsystem", name, now, subsystem)

        await _commit(core, work, lambda _: core.fleet.put_subsystem(name, made))
        return len(made.vertices)

    return await asyncio.shield(_retry_on_change(attempt))


class _GraphsChanged(Exception):
    """The stored graphs changed after the check."""


async def _retry_on_change(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again when another call changed a graph of the cluster between check and write."""
    for _ in range(MAX_TRIES):
        try:
            return await attempt()
        except _GraphsChanged:
            continue
    raise Conflict("the graphs of this cluster are being changed by others; try again")


def _subsystems(tx: Tx, id: int) -> dict[str, bytes]:
    found = {name: tx.graph(id, name) for name in tx.subsystems(id) if name != DOMINANT}
    return {name: data for name, data in found.items() if data is not None}


def _same(tx: Tx, name: str, id: int) -> Cluster:
    """Return the cluster, if the name still refers to this id."""
    cluster = require_cluster(tx, name)
    if cluster.id != id:
        raise NotFound(f"there is no cluster {name!r}")
    return cluster


async def delete_subsystem(core: Core, name: str, subsystem: str) -> None:
    if subsystem in (DOMINANT, "cluster", "containment"):
        raise Invalid("the cluster's own graph cannot be deleted by itself; delete the cluster, or replace the graph")
    by, now = acting(), core.clock.now()

    def work(tx: Tx) -> None:
        cluster = require_cluster(tx, name)
        if not tx.drop_graph(cluster.id, subsystem):
            raise NotFound(f"cluster {name!r} has no subsystem {subsystem!r}")
        by.note(tx, "cluster.delete-subsystem", name, now, subsystem)

    await asyncio.shield(_commit(core, work, lambda _: core.fleet.drop_subsystem(name, subsystem)))


async def set_standing(core: Core, name: str, standing: Standing, reason: str) -> Cluster:
    """Drain a cluster, or open it again."""
    by, now = acting(), core.clock.now()

    def work(tx: Tx, fx: Effects) -> Cluster:
        cluster = tx.update_cluster(require_cluster(tx, name).id, standing=standing, drain_reason=reason)
        by.note(tx, "cluster.standing", name, now, f"{standing.value} {reason}".strip())
        fx.changed(cluster)
        return cluster

    core.fleet.member(name)
    return await core.write(work)


async def _read(text: bytes) -> tuple[Graph, bytes]:
    """Parse and pack a graph in a thread."""
    graph = await asyncio.to_thread(read, text)
    return graph, await asyncio.to_thread(pack, graph)


def _reattached(subsystem: Subsystem, ids: dict[str, int]) -> Subsystem:
    """Return the subsystem attached to another graph; raise if a vertex is missing."""
    edges = []
    for vertex, parent, hung in subsystem.items():
        if parent >= 0:
            edges.append((subsystem.vertices[parent].id, vertex.id))
        edges.extend((above, vertex.id) for above in hung)
    return Subsystem.build(subsystem.name, ids, subsystem.vertices, edges)


def require_cluster(tx: Tx, name: str) -> Cluster:
    """Return a cluster; raise NotFound if it does not exist."""
    cluster = tx.cluster(name)
    if cluster is None:
        raise NotFound(f"there is no cluster {name!r}; `rainbow clusters` lists those you may see")
    return cluster


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """What happened to the jobs of a cluster; the cluster stays while some run."""

    moved: int  # jobs that go to another cluster
    running: int = 0


async def delete(core: Core, name: str, jobs: str = "") -> RemovalResult:
    """Remove a cluster and move its pending jobs elsewhere; `jobs` says what to do with running ones.

    Empty: raise Conflict if any run. `wait`: give it no new jobs, remove it when they have ended.
    `cancel`: cancel them, then remove it. `lose`: remove it now, its jobs are lost. A cluster's own
    secret cannot end others' jobs.
    """
    if jobs not in JOB_CHOICES:
        raise Invalid(f"running jobs of a deleted cluster can wait, cancel or lose, not {jobs!r}")
    by = acting()

    def work(tx: Tx, fx: Effects) -> RemovalResult:
        attempts, now = tx.live_attempts(name), core.clock.now()
        running = [attempt for attempt in attempts if attempt.state not in BEFORE_CONFIRM]
        if running and (not jobs or (jobs != "wait" and not by.principal.admin)):
            raise Conflict(_running_message(name, len(running), admin=by.principal.admin))
        offered = [attempt for attempt in attempts if attempt.state in BEFORE_CONFIRM]
        if running and jobs != "lose":
            id = require_cluster(tx, name).id
            fx.changed(tx.update_cluster(id, standing=Standing.LEAVING, drain_reason=LEAVES))
            _withdraw(tx, fx, offered, now)
            for attempt in running if jobs == "cancel" else ():
                lifecycle.cancel(
                    tx, fx, lifecycle.require_job(tx, attempt.job), f"cluster {name} is being removed", now
                )
            by.note(tx, "cluster.leave", name, now, f"{jobs} for {len(running)} jobs")
            return RemovalResult(len(offered), len(running))
        _withdraw(tx, fx, offered, now)
        for attempt in running:
            lost = f"cluster {name} was removed while it ran"
            how = lifecycle.AttemptEnd(state=AttemptState.LOST, failure=Failure.LOST, reason=lost)
            lifecycle.end_attempt(tx, fx, lifecycle.require_job(tx, attempt.job), attempt, how, now)
        _remove(tx, fx, name, now)
        by.note(tx, "cluster.delete", name, now, f"{len(offered)} jobs moved")
        return RemovalResult(len(offered))

    core.fleet.member(name)
    left = await core.write(work)
    core.credential_resolver.forget()
    await restore.forget_cluster(core, name)
    return left


async def finish_removal(core: Core, name: str) -> bool:
    """Remove a leaving cluster if no job is left there; return True if it is gone."""
    if await core.store.read(lambda tx: sum(tx.count_live(name).values())):
        return False
    by = acting()

    def work(tx: Tx, fx: Effects) -> bool:
        cluster, now = tx.cluster(name), core.clock.now()
        if cluster is None or cluster.standing is not Standing.LEAVING or tx.count_live(name):
            return False
        _remove(tx, fx, name, now)
        by.note(tx, "cluster.delete", name, now, "all its jobs have ended")
        return True

    gone = await core.write(work)
    core.credential_resolver.forget()
    await restore.forget_cluster(core, name)
    return gone


def _running_message(name: str, running: int, *, admin: bool) -> str:
    many = "1 job runs" if running == 1 else f"{running} jobs run"
    if not admin:
        return f"{many} on {name}: drain it and wait until they end, or let an administrator delete it"
    return (
        f"{many} on {name}: delete it with --jobs wait (when they have ended), --jobs cancel (end them first), "
        "or --jobs lose (remove it now; they are lost)"
    )


def _withdraw(tx: Tx, fx: Effects, offered: list[Attempt], now: float) -> None:
    how = lifecycle.AttemptEnd(state=AttemptState.WITHDRAWN, reason=REMOVED)
    for attempt in offered:
        lifecycle.end_attempt(tx, fx, lifecycle.require_job(tx, attempt.job), attempt, how, now)


def _remove(tx: Tx, fx: Effects, name: str, now: float) -> None:
    id = require_cluster(tx, name).id
    for row in tx.restore_reports():
        if row.cluster_id == id and row.state.holds_jobs:
            tx.update_restore_report(id, ReportState.GIVEN_UP)
    revoke_cluster(tx, name, now)
    tx.remove_cluster(id, now)
    fx.removed.append(name)
