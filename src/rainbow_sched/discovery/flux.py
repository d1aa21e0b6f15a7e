"""Convert Flux's resource set (R, RFC 20) into a graph and subsystems; parse what is up, free and in use.

The id of a node is its rank, such as `rank0`, because all ranks of a test instance can have the
same host name. Cores and gpus of a node are one vertex each, with a size. If the instance has a
scheduling graph (JGF), that graph is used unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rainbow_sched.discovery.node_resources import flat_subsystem, leaves_by_node, spread
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import NOTHING, Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.hostlist import expand, parse_idset

STATUS_FORMAT = "{state} {status} {ranks}"
FLUXION, _FLUXION_MODULE = "fluxion", "sched-fluxion-qmanager"
_DRAINED = frozenset({"drain", "draining", "drained", "exclude"})
ROOT = "cluster"
PROPERTIES, QUEUES = "properties", "queues"
_STRUCTURAL = frozenset({"type", "basename", "name", "id", "uniq_id", "size", "unit", "exclusive", "paths", "status"})


@dataclass(frozen=True, slots=True)
class FluxNode:
    """A rank of a Flux instance with its resources."""

    rank: int
    name: str
    counts: Mapping[str, int] = field(default_factory=dict)  # core -> 48, gpu -> 4
    properties: tuple[str, ...] = ()


def parse_r(document: Mapping[str, object]) -> tuple[FluxNode, ...]:
    """Parse the ranks of an R, in order; empty for an R without resources."""
    execution = document.get("execution")
    if document.get("version") != 1 or not isinstance(execution, Mapping):
        raise Invalid('an R of Flux must have "version": 1 and "execution"')
    counts: dict[int, dict[str, int]] = {}
    for part in _list(execution.get("R_lite")):
        children = part.get("children")
        inside = {  # in the free resources Flux writes "core": "" if only gpus of a rank are free
            str(type): len(parse_idset(ids))
            for type, ids in (children.items() if isinstance(children, Mapping) else ())
            if ids != ""
        }
        for rank in parse_idset(part.get("rank")):
            counts[rank] = inside
    ranks = sorted(counts)
    nodelist = execution.get("nodelist")
    names = [name for text in (nodelist if isinstance(nodelist, list) else ()) for name in expand(str(text))]
    if len(names) != len(ranks):
        names = [f"node{rank}" for rank in ranks]
    by_rank: dict[int, list[str]] = {}
    properties = execution.get("properties")
    for name, on in sorted(properties.items()) if isinstance(properties, Mapping) else ():
        for rank in parse_idset(on):
            by_rank.setdefault(rank, []).append(str(name))
    return tuple(
        FluxNode(rank, name, counts[rank], tuple(by_rank.get(rank, ())))
        for rank, name in zip(ranks, names, strict=True)
    )


def flux_graph(cluster: str, document: Mapping[str, object]) -> Graph:
    """Return the graph of an R: its scheduling graph, or else cluster > node > core, gpu."""
    scheduling = document.get("scheduling")
    if isinstance(scheduling, Mapping) and isinstance(scheduling.get("graph"), Mapping):
        return _from_jgf(cluster, scheduling["graph"])
    vertices = [Vertex(id=ROOT, type="cluster", name=cluster)]
    edges = []
    shared: dict[tuple[str, ...], Mapping[str, object]] = {(): NOTHING}
    for node in parse_r(document):
        id = f"rank{node.rank}"
        metadata = shared.setdefault(node.properties, {"properties": list(node.properties)})
        vertices.append(Vertex(id=id, type="node", name=node.name, metadata=metadata))
        edges.append((ROOT, id))
        for type, many in node.counts.items():
            if many:
                vertices.append(Vertex(id=f"{id}/{type}", type=type, name=type, size=many))
                edges.append((id, f"{id}/{type}"))
    return Graph.build(vertices, edges)


def _from_jgf(cluster: str, graph: Mapping[str, object]) -> Graph:
    """Convert the scheduler's graph; node ids become ranks as in other graphs, and the root gets the cluster's name."""
    edges = [
        (str(edge.get("source")), str(edge.get("target"))) for edge in _list(graph.get("edges")) if _contains(edge)
    ]
    below = {target for _, target in edges}
    vertices, ids = [], {}
    for node in _list(graph.get("nodes")):
        about, id = node.get("metadata"), str(node.get("id"))
        if not isinstance(about, Mapping):
            raise Invalid("a vertex of the scheduling graph has no metadata", where=f"vertex {id!r}")
        size, rank = about.get("size", 1), about.get("rank")
        ranked = about.get("type") == "node" and isinstance(rank, int) and rank >= 0
        ids[id] = f"rank{rank}" if ranked else id
        metadata = {str(key): value for key, value in about.items() if key not in _STRUCTURAL}
        vertices.append(
            Vertex(
                id=ids[id],
                type=str(about.get("type", "")),
                name=_name(about) if id in below else cluster,
                size=size if isinstance(size, int) and size > 0 else 1,
                unit=str(about.get("unit") or ""),
                metadata=metadata or NOTHING,
            )
        )
    return Graph.build(vertices, [(ids.get(source, source), ids.get(target, target)) for source, target in edges])


def _name(about: Mapping[str, object]) -> str:
    """Return the name of a vertex; flux-sched omits names that follow from type and number."""
    return str(about.get("name") or f"{about.get('basename') or about.get('type', '')}{about.get('id', '')}")


def _contains(edge: Mapping[str, object]) -> bool:
    """Return True for containment: `subsystem` of flux-sched, or `name: {containment: contains}` of older versions."""
    about = edge.get("metadata")
    if not isinstance(about, Mapping):
        return edge.get("relation", "contains") == "contains"
    name = about.get("name")
    if isinstance(name, Mapping):
        return "containment" in name and name["containment"] == "contains"
    return about.get("subsystem", "containment") == "containment" and name in (None, "contains")


def _list(value: object) -> Iterator[Mapping[str, object]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def node_of_rank(graph: Graph) -> dict[int, int]:
    """Return the vertex of each rank, from the graph's metadata and ids or else in order."""
    found: dict[int, int] = {}
    nodes = [i for i, type in enumerate(graph.types) if type == "node"]
    for number, i in enumerate(nodes):
        rank = graph.metadata.get(i, NOTHING).get("rank")
        id = graph.ids[i]
        if isinstance(rank, int) and rank >= 0:
            found[rank] = i
        elif id.startswith("rank") and id[4:].isdecimal():
            found[int(id[4:])] = i
        else:
            found.setdefault(number, i)
    return found


def flux_subsystems(
    graph: Graph, nodes: Sequence[FluxNode], queues: Mapping[str, Sequence[str]]
) -> tuple[Subsystem, ...]:
    """Return properties, attached to their nodes, and queues, attached to nodes with all required properties."""
    at = node_of_rank(graph)
    ids = {node.rank: graph.ids[at[node.rank]] for node in nodes if node.rank in at}
    properties: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.properties:
            properties.setdefault(name, []).append(ids.get(node.rank, ""))
    members = {
        queue: [ids[n.rank] for n in nodes if n.rank in ids and set(requires).issubset(n.properties)]
        for queue, requires in queues.items()
    }
    known = {name: on for name, on in properties.items() if all(on)}
    root, count = graph.ids[0], sum(type == "node" for type in graph.types)
    found = (
        flat_subsystem(PROPERTIES, "property", known, root, count),
        flat_subsystem(QUEUES, "queue", {name: on for name, on in members.items() if on}, root, count),
    )
    return tuple(one for one in found if one is not None)


def parse_queues(config: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Return the queues of a configuration with the properties that each requires."""
    found: dict[str, tuple[str, ...]] = {}
    queues = config.get("queues")
    for name, about in queues.items() if isinstance(queues, Mapping) else ():
        requires = about.get("requires") if isinstance(about, Mapping) else None
        found[str(name)] = tuple(map(str, requires)) if isinstance(requires, list) else ()
    return found


def default_queue(config: Mapping[str, object]) -> str:
    """Return the default queue, or "" if there is none."""
    value: object = config
    for key in ("policy", "jobspec", "defaults", "system", "queue"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value or "")


@dataclass(frozen=True, slots=True)
class FluxAllocation:
    """The resources of one running job, spread evenly over its ranks."""

    ranks: tuple[int, ...]
    cores: int  # on each
    gpus: int = 0  # on each


def parse_status(text: str) -> dict[int, Mark]:
    """Parse `flux resource status -n -o STATUS_FORMAT` into the marks of ranks that are not up."""
    marks: dict[int, Mark] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 3:
            continue  # a state without ranks
        state, status, ranks = words
        for rank in parse_idset(ranks):
            if status == "offline":
                marks[rank] = Mark.DOWN
            elif state.rstrip("*") in _DRAINED:
                marks.setdefault(rank, Mark.DRAINED)
    return marks


def scheduler(modules: str) -> str:
    """Return the scheduler from `flux module list`: `fluxion`, or the module that provides the service `sched`."""
    for line in modules.splitlines():
        words = line.split()
        if len(words) > 1 and "sched" in words[-1].split(","):
            return FLUXION if words[0] == _FLUXION_MODULE else words[0]
    return ""


def free_totals(everything: Sequence[FluxNode], free: Sequence[FluxNode]) -> dict[str, object]:
    """Return `nodes_free`, `cores_free` and `gpus_free`; a free node is one without jobs."""
    whole = {node.rank: node.counts for node in everything}
    return {
        "nodes_free": sum(node.counts == whole.get(node.rank) for node in free),
        "cores_free": sum(node.counts.get("core", 0) for node in free),
        "gpus_free": sum(node.counts.get("gpu", 0) for node in free),
    }


def used_by_others(
    graph: Graph,
    everything: Sequence[FluxNode],
    free: Sequence[FluxNode],
    marks: Mapping[int, Mark],
    own: Iterable[FluxAllocation],
) -> dict[str, int]:
    """Return units in use by vertex id, without our own jobs and without nodes that are down or drained."""
    left = {node.rank: node.counts for node in free}
    mine: Counter[tuple[int, str]] = Counter()
    for holding in own:
        for rank in holding.ranks:
            mine[rank, "core"] += holding.cores
            mine[rank, "gpu"] += holding.gpus
    at = node_of_rank(graph)
    leaves = leaves_by_node(graph, range(len(graph.ids)))
    used: dict[str, int] = {}
    for node in everything:
        if node.rank in marks or node.rank not in at:
            continue
        for type, many in node.counts.items():
            taken = many - left.get(node.rank, {}).get(type, 0) - mine[node.rank, type]
            used |= spread(graph, leaves.get((at[node.rank], type), ()), taken)
    return used
