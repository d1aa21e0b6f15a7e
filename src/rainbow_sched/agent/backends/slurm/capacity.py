"""Check whether the nodes could ever run a job's shape, ignoring other jobs."""

from __future__ import annotations

from collections.abc import Sequence

from rainbow_sched.agent.backends.slurm.shape import SlurmShape
from rainbow_sched.discovery.slurm import SlurmNode
from rainbow_sched.model.quantities import human_bytes


def lacks(found: SlurmShape, nodes: Sequence[SlurmNode]) -> str | None:
    """Return why `found` can never run on these nodes, or None."""
    allowed = [node for node in nodes if _allowed(found, node)]
    if found.nodes is not None:
        fit = sum(_times(found, node) > 0 for node in allowed)
        if fit >= found.nodes:
            return None
        return f"{found.nodes} nodes with {_asked(found)} are needed, {fit} of {len(nodes)} could be: {_largest(nodes)}"
    places = sum(_times(found, node) for node in allowed)
    gpus = sum(_gpus(found, node) for node in allowed)
    if places >= found.slots and gpus >= found.gpus_in_all:
        return None
    return f"{found.slots} times {_asked(found)} are needed, there is room for {places}: {_largest(nodes)}"


def _allowed(found: SlurmShape, node: SlurmNode) -> bool:
    in_partition = not found.partition or found.partition in node.partitions
    return in_partition and node.name not in found.exclude and found.features.issubset(node.features)


def _times(found: SlurmShape, node: SlurmNode) -> int:
    """Return how many nodes or slots of the shape fit into this node."""
    fits = [node.cores // max(1, found.cores)]
    if found.memory:
        fits.append(node.memory // found.memory)
    if found.gpus:
        fits.append(_gpus(found, node) // found.gpus)
    for name, many in found.gres:
        fits.append(sum(gres.count for gres in node.gres if gres.name == name) // many)
    return min(fits)


def _gpus(found: SlurmShape, node: SlurmNode) -> int:
    kinds = ("", found.gpu_kind) if found.gpu_kind == "" else (found.gpu_kind,)
    return sum(gres.count for gres in node.gres if gres.name == "gpu" and (found.gpu_kind == "" or gres.kind in kinds))


def _asked(found: SlurmShape) -> str:
    parts = [f"{max(1, found.cores)} core"]
    if found.gpus:
        parts.append(f"{found.gpus} gpu{f' ({found.gpu_kind})' if found.gpu_kind else ''}")
    parts += [f"{many} {name}" for name, many in found.gres]
    if found.memory:
        parts.append(f"{human_bytes(found.memory << 20)} memory")
    parts += [f"feature {name}" for name in sorted(found.features)]
    return ", ".join(parts)


def _largest(nodes: Sequence[SlurmNode]) -> str:
    if not nodes:
        return "there are no nodes"
    gpus = max(sum(gres.count for gres in node.gres if gres.name == "gpu") for node in nodes)
    parts = [f"{max(node.cores for node in nodes)} core", f"{gpus} gpu" if gpus else ""]
    parts.append(f"{human_bytes(max(node.memory for node in nodes) << 20)} memory")
    return "a node has at most " + ", ".join(part for part in parts if part)
