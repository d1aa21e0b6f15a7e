"""State that clusters report, and the view of a cluster for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rainbow_sched.graphs.backend import Summary
from rainbow_sched.graphs.formats.packed_graph import unpack
from rainbow_sched.graphs.tree import draw
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Cluster, checked_state
from rainbow_sched.model.errors import Corrupt, Invalid, NotFound
from rainbow_sched.model.graph import Graph, Mark
from rainbow_sched.protocol.codec import MAX_STATE_CHARS
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.clusters.registration import DOMINANT, require_cluster
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx

_RUNNING = frozenset({AttemptState.RUNNING, AttemptState.FINISHING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One cluster as shown to people."""

    cluster: Cluster
    summary: Summary | None  # None: the graph is damaged
    subsystems: tuple[str, ...] = ()
    queued: int = 0
    running: int = 0
    broken: str = ""


def parse_state(text: str) -> dict[str, object]:
    """Parse a state report: a JSON object, or a JSON string that holds one (the prototype's client)."""
    if len(text) > MAX_STATE_CHARS:
        raise Invalid(f"a state report has at most {MAX_STATE_CHARS} characters")
    value: object = text
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise Invalid('a state report is a JSON object such as {"nodes_free": 12}') from None
    if not isinstance(value, dict):
        raise Invalid(f'a state report is a JSON object such as {{"nodes_free": 12}}, not {type(value).__name__}')
    return checked_state(value)


async def update_state(core: Core, name: str, values: Mapping[str, object]) -> Cluster:
    by, now = acting(), core.clock.now()

    def work(tx: Tx, fx: Effects) -> Cluster:
        by.note(tx, "cluster.state", name, now, json.dumps(dict(values)))
        return merge_state(tx, fx, name, values, now)

    return await core.write(work)


def merge_state(tx: Tx, fx: Effects, name: str, values: Mapping[str, object], now: float) -> Cluster:
    """Merge a state report inside an open transaction."""
    cluster = require_cluster(tx, name)
    merged = checked_state({**cluster.state, **values})
    cluster = tx.update_cluster(cluster.id, state=merged, state_at=now, seen_at=now)
    fx.changed(cluster)
    return cluster


async def patch(core: Core, name: str, marks: Mapping[str, str], used: Mapping[str, int] | None) -> int:
    """Mark vertices by id or name, and replace the reported usage."""
    core.fleet.member(name)
    graph = await dominant(core, name)
    changes = resolve_marks(graph, marks)
    checked = None if used is None else resolve_used(graph, used)
    by, now = acting(), core.clock.now()

    def work(tx: Tx, fx: Effects) -> None:
        by.note(tx, "cluster.patch", name, now, f"{len(changes)} marks")
        apply_patch(tx, fx, name, changes, checked)

    await core.write(work)
    return len(changes) + len(checked or ())


def apply_patch(tx: Tx, fx: Effects, name: str, marks: Mapping[str, Mark], used: Mapping[str, int] | None) -> None:
    """Apply marks and usage inside an open transaction, with vertex ids."""
    cluster = require_cluster(tx, name)
    merged = dict(cluster.marks)
    for vertex, mark in marks.items():
        if mark is Mark.UP:
            merged.pop(vertex, None)
        else:
            merged[vertex] = mark.value
    changes: dict[str, object] = {"marks": merged}
    if used is not None:
        changes["used"] = dict(used)
    fx.changed(tx.update_cluster(cluster.id, **changes))


def resolve_marks(graph: Graph, marks: Mapping[str, str], *, lenient: bool = False) -> dict[str, Mark]:
    """Return marks by vertex id, for ids or names (a name may mean several); raise for unknown ones.

    `lenient`: skip them instead. An agent's message may be older than the graph, and a refusal would only make the
    agent send it again.
    """
    if not marks:
        return {}
    ids = graph.positions()
    named: dict[str, list[str]] = {}
    for id, name in zip(graph.ids, graph.names, strict=True):
        if name in marks:
            named.setdefault(name, []).append(id)
    found: dict[str, Mark] = {}
    for key, mark in marks.items():
        targets = [key] if key in ids else named.get(key, [])
        if mark in tuple(Mark):
            found.update((id, Mark(mark)) for id in targets)
        if lenient:
            continue
        if mark not in tuple(Mark):
            raise Invalid(f"a mark is up, down or drained, not {mark!r}", where=f"vertex {key!r}")
        if not targets:
            raise NotFound(f"the graph has no vertex with the id or name {key!r}")
    return found


def resolve_used(graph: Graph, used: Mapping[str, int], *, lenient: bool = False) -> dict[str, int]:
    """Return units in use by vertex id; raise for unknown vertices and for more than exist.

    `lenient`: skip unknown ones and cap the units instead, as with marks.
    """
    ids = graph.positions()
    if lenient:
        used = {key: min(units, graph.sizes[ids[key]]) for key, units in used.items() if key in ids and units >= 0}
    for key, units in used.items():
        if key not in ids:
            raise NotFound(f"the graph has no vertex with the id {key!r}")
        if not 0 <= units <= graph.sizes[ids[key]]:
            raise Invalid(f"{units} units are in use of {graph.sizes[ids[key]]}", where=f"vertex {key!r}")
    return {key: units for key, units in used.items() if units}


async def dominant(core: Core, name: str) -> Graph:
    """Return a cluster's own graph from the store."""
    id = core.fleet.member(name).cluster.id
    packed = await core.store.read(lambda tx: tx.graph(id, DOMINANT))
    if packed is None:
        raise NotFound(f"there is no cluster {name!r}")
    return unpack(packed)


async def view(core: Core, name: str) -> ClusterStatus:
    member = core.fleet.member(name)
    counts = await core.store.read(lambda tx: tx.count_live(name))
    running = sum(count for state, count in counts.items() if state in _RUNNING)
    contact = core.presence.last_contact(name)
    seen = max(filter(None, (member.cluster.seen_at, contact)), default=None)
    return ClusterStatus(
        cluster=replace(member.cluster, seen_at=seen),
        summary=None if member.broken else core.fleet.graphs.summary(name),
        subsystems=tuple(sorted(member.subsystems)),
        queued=sum(counts.values()) - running,
        running=running,
        broken=member.broken,
    )


async def tree(core: Core, name: str) -> list[str]:
    """Return the containment tree as lines, equal siblings folded into one."""
    if core.fleet.member(name).broken:
        raise Corrupt(f"the stored graph of {name!r} is damaged; give it another: rainbow register cluster --replace")
    return draw(await dominant(core, name)).splitlines()
