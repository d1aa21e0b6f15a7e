"""Parse which resources of a Flux instance are up, free and in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.discovery.flux import FluxNode, node_of_rank
from rainbow_sched.model.graph import Graph, Mark
from rainbow_sched.model.hostlist import parse_idset

STATUS_FORMAT = "{state} {status} {ranks}"
FLUXION, _FLUXION_MODULE = "fluxion", "sched-fluxion-qmanager"
_DRAINED = frozenset({"drain", "draining", "drained", "exclude"})


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
    leaves = _leaves(graph)
    used: dict[str, int] = {}
    for node in everything:
        if node.rank in marks or node.rank not in at:
            continue
        for type, many in node.counts.items():
            taken = many - left.get(node.rank, {}).get(type, 0) - mine[node.rank, type]
            for i in leaves.get((at[node.rank], type), ()):
                units = min(max(taken, 0), graph.sizes[i])
                if units:
                    used[graph.ids[i]] = units
                taken -= units
    return used


def _leaves(graph: Graph) -> dict[tuple[int, str], list[int]]:
    """Return vertices without children, by node vertex and type."""
    parents = set(graph.parents)
    host: list[int] = []
    leaves: dict[tuple[int, str], list[int]] = {}
    for i, type in enumerate(graph.types):
        above = graph.parents[i]
        host.append(i if type == "node" else host[above] if above >= 0 else -1)
        if host[i] >= 0 and i not in parents:
            leaves.setdefault((host[i], type), []).append(i)
    return leaves
