"""Parse what Slurm says about nodes, partitions and switches into a graph and subsystems; find what is free and in use.

Text, not JSON: the keys of `scontrol -o show` are the same in Slurm 22.05 and 24.11, but their
JSON differs and 22.05 has no `scontrol --json`.

The graph is cluster > rack > node > socket > core, with memory and gres on the node. Racks and
sockets exist if Slurm reports them. The cores or gpus of one parent are one vertex with a size, so
that 10,000 nodes stay small. The subsystems are features, partitions and gpus.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rainbow_sched.discovery.node_resources import flat_subsystem, leaves_by_node, spread
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import NOTHING, Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.hostlist import expand

SHOW_NODES = ("scontrol", "-d", "-o", "show", "node")  # -d: with the gres in use
SHOW_PARTITIONS = ("scontrol", "-o", "show", "partition")
SHOW_CONFIG = ("scontrol", "show", "config")
SHOW_TOPOLOGY = ("scontrol", "-o", "show", "topology")

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)")
_PARENTHESES = re.compile(r"\([^()]*\)")
_GRES_COUNT = re.compile(r"(\d+)([KMGkmg]?)", re.ASCII)
_MULTIPLE = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)
_SHARES = frozenset({"mps", "shard"})  # other views of the same gpus
ROOT = "cluster"
FEATURES, PARTITIONS, GPUS = "features", "partitions", "gpus"
_DOWN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "REBOOT_ISSUED"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINT"})


@dataclass(frozen=True, slots=True)
class Gres:
    """Generic resources of one kind on a node."""

    name: str  # gpu, fpga …
    kind: str  # a100; empty if not configured
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node as `scontrol show node` describes it."""

    name: str
    states: tuple[str, ...]  # the base state first, then flags: IDLE, DRAIN
    responding: bool = True
    cpus: int = 1
    cpus_alloc: int = 0
    cpus_usable: int = 1  # without cpus that are reserved for the system
    sockets: int = 1
    cores_per_socket: int = 1
    threads: int = 1
    memory: int = 1  # MiB
    memory_alloc: int = 0
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    gres: tuple[Gres, ...] = ()
    gres_used: tuple[Gres, ...] = ()

    @property
    def cores(self) -> int:
        """Cores that jobs may use."""
        per_core = self.threads if self.cpus >= self.sockets * self.cores_per_socket * self.threads else 1
        return max(1, self.cpus_usable // per_core)

    def cores_of(self, cpus: int) -> int:
        """Return the number of cores for a number of cpus; a core is in use if one of its threads is."""
        return min(self.cores, -(-cpus // self.cpus_per_core))

    @property
    def cpus_per_core(self) -> int:
        return max(1, self.cpus // max(1, self.sockets * self.cores_per_socket))

    @property
    def cores_alloc(self) -> int:
        """Cores in use."""
        return self.cores_of(self.cpus_alloc)

    @property
    def even(self) -> bool:
        """True if the sockets contain all cores equally, so that the graph can show them."""
        return self.sockets > 1 and self.cores_per_socket > 1 and self.sockets * self.cores_per_socket == self.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPartition:
    """One partition as `scontrol show partition` describes it."""

    name: str
    default: bool = False
    state: str = "UP"
    max_time: str = ""  # as Slurm writes it; empty: no limit
    max_nodes: int | None = None  # of one job
    min_nodes: int = 0
    max_cpus: int | None = None  # of one job on each node
    accounts: tuple[str, ...] = ()  # allowed accounts; empty: all
    not_accounts: tuple[str, ...] = ()  # denied accounts
    groups: tuple[str, ...] = ()
    nodes: str = ""
    memory: Mapping[str, str] = field(default_factory=dict)  # default memory of jobs, if the partition sets it

    @property
    def up(self) -> bool:
        """True if it accepts and starts jobs."""
        return self.state == "UP"

    @property
    def limit(self) -> float | None:
        """The time limit of jobs, in seconds."""
        return seconds(self.max_time)


def check_conf(path: str) -> str:
    """Return the path of a slurm.conf; raise Invalid if it is missing: Slurm's programs would retry for a minute."""
    if not Path(path).is_file():
        raise Invalid(f"-O conf: there is no file {path}")
    return path


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Parse the nodes of `scontrol -d -o show node`."""
    return tuple(_node(pairs) for pairs in _records(text, "NodeName"))


def parse_partitions(text: str) -> tuple[SlurmPartition, ...]:
    """Parse the partitions of `scontrol -o show partition`."""
    return tuple(
        SlurmPartition(
            name=pairs["PartitionName"],
            default=pairs.get("Default") == "YES",
            state=pairs.get("State", "UP"),
            max_time="" if pairs.get("MaxTime") in (None, "UNLIMITED") else pairs["MaxTime"],
            max_nodes=_limit(pairs.get("MaxNodes")),
            min_nodes=_number(pairs.get("MinNodes"), 0),
            max_cpus=_limit(pairs.get("MaxCPUsPerNode")),
            accounts=() if pairs.get("AllowAccounts") == "ALL" else _names(pairs.get("AllowAccounts")),
            not_accounts=_names(pairs.get("DenyAccounts")),
            groups=() if pairs.get("AllowGroups") == "ALL" else _names(pairs.get("AllowGroups")),
            nodes=_text(pairs.get("Nodes")),
            memory={name: pairs[name] for name in ("DefMemPerCPU", "DefMemPerNode") if name in pairs},
        )
        for pairs in _records(text, "PartitionName")
    )


def parse_config(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def parse_topology(text: str) -> dict[str, str]:
    """Parse the leaf switch of each node, which stands for its rack; empty without a topology."""
    racks: dict[str, str] = {}
    for key in ("SwitchName", "BlockName"):  # blocks have no levels
        for pairs in _records(text, key):
            if pairs.get("Level", "0") == "0":
                for node in node_names(_text(pairs.get("Nodes"))):
                    racks.setdefault(node, pairs[key])
    return racks


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Parse `gpu:a100:4(S:0-1),fpga:1`; resources that jobs cannot allocate are left out."""
    found = []
    for part in _PARENTHESES.sub("", _text(text)).split(","):
        words = part.split(":")
        if not words[0] or "no_consume" in words or words[0] in _SHARES:
            continue
        count = _GRES_COUNT.fullmatch(words[-1]) if len(words) > 1 else None
        kinds = words[1:-1] if count else words[1:]
        many = int(count[1]) * _MULTIPLE[count[2].lower()] if count else 1
        if many:
            found.append(Gres(words[0], ":".join(kinds), many))
    return tuple(found)


def _records(text: str, key: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        pairs: dict[str, str] = {}
        for name, value in _PAIR.findall(line):
            pairs.setdefault(name, value)  # the first wins: free text such as Reason comes last
        if pairs.get(key):
            yield pairs


def _node(pairs: Mapping[str, str]) -> SlurmNode:
    state = pairs.get("State", "UNKNOWN")
    words = tuple(word for word in re.split(r"[^A-Z_]+", state.upper()) if word)
    cpus = _number(pairs.get("CPUTot"), 1)
    features = pairs.get("ActiveFeatures") or pairs.get("AvailableFeatures")
    return SlurmNode(
        name=pairs["NodeName"],
        states=words or ("UNKNOWN",),
        responding="*" not in state and "NOT_RESPONDING" not in words,
        cpus=cpus,
        cpus_alloc=_number(pairs.get("CPUAlloc"), 0),
        cpus_usable=_number(pairs.get("CPUEfctv"), cpus),
        sockets=_number(pairs.get("Sockets"), 1) or 1,
        cores_per_socket=_number(pairs.get("CoresPerSocket"), 1) or 1,
        threads=_number(pairs.get("ThreadsPerCore"), 1) or 1,
        memory=max(1, _number(pairs.get("RealMemory"), 1) - _number(pairs.get("MemSpecLimit"), 0)),
        memory_alloc=_number(pairs.get("AllocMem"), 0),
        features=_names(features),
        partitions=_names(pairs.get("Partitions")),
        gres=parse_gres(pairs.get("Gres", "")),
        gres_used=parse_gres(pairs.get("GresUsed", "")),
    )


def _text(value: str | None) -> str:
    return "" if value in (None, "(null)", "N/A", "none") else str(value)


def node_names(text: str) -> list[str]:
    """Return the nodes of a Slurm node list; `(null)` is empty."""
    return [] if text == "(null)" else expand(text)


def _names(value: str | None) -> tuple[str, ...]:
    return tuple(name for name in _text(value).split(",") if name)


def seconds(text: str) -> float | None:
    """Parse a Slurm time (`1-12:00:00`, `90:00`, or `30` minutes) into seconds; None without a limit."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if days is not None:
        return 86400.0 * days + 3600.0 * (first or 0) + 60.0 * (second or 0) + (third or 0)
    if third is not None:
        return 3600.0 * (first or 0) + 60.0 * (second or 0) + third
    return 60.0 * (first or 0) + (second or 0)


def _limit(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None


def _number(value: str | None, default: int) -> int:
    return int(value) if value is not None and value.isdecimal() else default


def slurm_graph(cluster: str, nodes: Sequence[SlurmNode], racks: Mapping[str, str] | None = None) -> Graph:
    """Return the dominant graph; the id and name of a node are its name in Slurm."""
    racks = racks or {}
    vertices = [Vertex(id=ROOT, type="cluster", name=cluster)]
    edges: list[tuple[str, str]] = []
    for rack in dict.fromkeys(racks[node.name] for node in nodes if node.name in racks):
        vertices.append(Vertex(id=f"rack:{rack}", type="rack", name=rack))
        edges.append((ROOT, f"rack:{rack}"))
    shared: dict[tuple[str, ...], Mapping[str, object]] = {(): NOTHING}
    for node in nodes:
        names = tuple(dict.fromkeys((*node.features, *node.partitions)))
        properties = shared.setdefault(names, {"properties": list(names)})
        vertices.append(Vertex(id=node.name, type="node", name=node.name, metadata=properties))
        above = f"rack:{racks[node.name]}" if node.name in racks else ROOT
        edges.append((above, node.name))
        for parent, vertex in _inside(node):
            vertices.append(vertex)
            edges.append((parent, vertex.id))
    return Graph.build(vertices, edges)


def _inside(node: SlurmNode) -> Iterator[tuple[str, Vertex]]:
    if node.even:
        for number in range(node.sockets):
            socket = f"{node.name}/socket{number}"
            yield node.name, Vertex(id=socket, type="socket", name=f"socket{number}")
            yield socket, Vertex(id=f"{socket}/core", type="core", name="core", size=node.cores_per_socket)
    else:
        yield node.name, Vertex(id=f"{node.name}/core", type="core", name="core", size=node.cores)
    yield node.name, Vertex(id=f"{node.name}/memory", type="memory", name="memory", size=node.memory, unit="MiB")
    for gres in node.gres:
        metadata = {"model": gres.kind} if gres.kind else NOTHING
        name = f"{gres.name}-{gres.kind}" if gres.kind else gres.name
        id = f"{node.name}/{name}"
        yield node.name, Vertex(id=id, type=gres.name, name=name, size=gres.count, metadata=metadata)


def slurm_subsystems(nodes: Sequence[SlurmNode], partitions: Sequence[SlurmPartition]) -> tuple[Subsystem, ...]:
    """Return features, partitions and gpu models, attached to their nodes or to the root if all nodes have them."""
    about = {part.name: part for part in partitions}
    features: dict[str, list[str]] = {}
    members: dict[str, list[str]] = {}
    models: dict[str, list[str]] = {}
    for node in nodes:
        for feature in node.features:
            features.setdefault(feature, []).append(node.name)
        for partition in node.partitions:
            members.setdefault(partition, []).append(node.name)
        for gres in node.gres:
            if gres.name == "gpu" and gres.kind:
                models.setdefault(gres.kind, []).extend((node.name, f"{node.name}/gpu-{gres.kind}"))
    found = (
        flat_subsystem(FEATURES, "feature", features, ROOT, len(nodes)),
        flat_subsystem(PARTITIONS, "partition", members, ROOT, len(nodes), lambda name: _about(name, about.get(name))),
        flat_subsystem(GPUS, "model", models, ROOT, 0, lambda name: {"name": name, "model": name}),
    )
    return tuple(one for one in found if one is not None)


def _about(name: str, partition: SlurmPartition | None) -> dict[str, object]:
    if partition is None:
        return {"name": name}
    found: dict[str, object] = {"name": name, "default": partition.default}
    if partition.max_time:
        found["max_time"] = partition.max_time
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAllocation:
    """The resources of one job, spread evenly over its nodes."""

    nodes: tuple[str, ...]
    cpus: int = 0  # on each node, as Slurm counts them
    memory: int = 0  # MiB on each node
    gpus: int = 0  # on each node


def mark(node: SlurmNode) -> Mark:
    """Return the mark of a node; an unresponsive node is down unless it is powered off, because Slurm wakes it."""
    states = set(node.states)
    if states & _DOWN or (not node.responding and "POWERED_DOWN" not in states):
        return Mark.DOWN
    return Mark.DRAINED if states & _DRAINED else Mark.UP


def free_totals(nodes: Iterable[SlurmNode], unreachable: Container[str] = ()) -> dict[str, object]:
    """Return `nodes_free`, `cores_free` and `gpus_free` of reachable nodes that are up; a free node has no jobs."""
    free_nodes = free_cores = free_gpus = 0
    for node in nodes:
        if mark(node) is not Mark.UP or node.name in unreachable:
            continue
        free_nodes += node.cpus_alloc == 0
        free_cores += max(0, node.cores - node.cores_alloc)
        gpus = sum(gres.count for gres in node.gres if gres.name == "gpu")
        free_gpus += max(0, gpus - sum(gres.count for gres in node.gres_used if gres.name == "gpu"))
    return {"nodes_free": free_nodes, "cores_free": free_cores, "gpus_free": free_gpus}


def used_by_others(graph: Graph, nodes: Sequence[SlurmNode], own: Iterable[SlurmAllocation]) -> dict[str, int]:
    """Return units in use by vertex id, without our own jobs, which the server counts itself."""
    mine: dict[tuple[str, str], int] = {}
    for holding in own:
        for name in holding.nodes:
            for type, units in (("cpu", holding.cpus), ("memory", holding.memory), ("gpu", holding.gpus)):
                mine[name, type] = mine.get((name, type), 0) + units
    leaves = leaves_by_node(graph, graph.names)
    used: dict[str, int] = {}
    for node in nodes:
        others = max(0, node.cpus_alloc - mine.get((node.name, "cpu"), 0))
        amounts = {"core": node.cores_of(others), "memory": node.memory_alloc}
        for gres in node.gres_used:
            amounts[gres.name] = amounts.get(gres.name, 0) + gres.count
        for type, amount in amounts.items():
            rest = amount - mine.get((node.name, type), 0)
            used |= spread(graph, leaves.get((node.name, type), ()), rest)
    return used


def nodes_not_up(nodes: Sequence[SlurmNode], unreachable: Container[str] = ()) -> dict[str, str]:
    """Return the marks of nodes that are not up; a node that is in none of our partitions counts as drained."""
    found = {}
    for node in nodes:
        now = mark(node)
        if now is Mark.UP and node.name in unreachable:
            now = Mark.DRAINED
        if now is not Mark.UP:
            found[node.name] = str(now)
    return found
