"""Check whether a Flux instance could ever run a jobspec: queues, node properties, cores and gpus.

Flux accepts such a job and fails it later, and its simple scheduler accepts unknown resource types. So the check is
done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rainbow_sched.agent.backends.flux.jobspec import cores_and_gpus
from rainbow_sched.discovery.flux import FluxNode
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request


@dataclass(frozen=True, slots=True)
class FluxQueues:
    """An instance's queues with the properties that each requires; none: jobs name no queue."""

    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default: str = ""


def lacks(
    request: Request, document: Mapping[str, object], nodes: Sequence[FluxNode], queues: FluxQueues
) -> str | None:
    """Return why a jobspec can never run here, or None; `request` is the plain request behind it."""
    held = {name for node in nodes for name in node.properties}
    for name in request.properties:
        if not name.startswith("^") and name not in held:
            return f"no node has the property {name!r}{did_you_mean(name, held)}"
    queue = request.options.get("queue", "") or queues.default
    if queue not in queues.requires and (queue or queues.requires):
        names = ", ".join(queues.requires) or "none"
        return f"no queue {queue!r}; this instance has {names}" if queue else f"name a queue; this instance has {names}"
    fit = usable(request, nodes, queues)
    return _room(document, fit, "" if len(fit) == len(nodes) else f" on the {len(fit)} nodes that may be used")


def properties(request: Request, queues: FluxQueues) -> tuple[str, ...]:
    """Return the properties that nodes need for this job, including those of its queue."""
    queue = request.options.get("queue", "") or queues.default
    return tuple(dict.fromkeys((*request.properties, *queues.requires.get(queue, ()))))


def usable(request: Request, nodes: Sequence[FluxNode], queues: FluxQueues) -> list[FluxNode]:
    """Return the nodes that a plain request may use."""
    needed = properties(request, queues)
    return [node for node in nodes if _meets(node, request, needed)]


def takes(document: Mapping[str, object], nodes: Sequence[FluxNode]) -> tuple[int, int, int]:
    """Return nodes (0: not specified), cores and gpus of a job; whole nodes count with all they have, largest first."""
    resources = document["resources"]
    assert isinstance(resources, list)
    top = resources[0]
    if top["type"] != "node" or not top.get("exclusive"):
        return cores_and_gpus(document)
    largest = sorted((node.counts for node in nodes), key=lambda has: has.get("core", 0), reverse=True)[: top["count"]]
    return top["count"], sum(has.get("core", 0) for has in largest), sum(has.get("gpu", 0) for has in largest)


def _meets(node: FluxNode, request: Request, needed: Sequence[str]) -> bool:
    if (request.hosts and node.name not in request.hosts) or node.name in request.not_hosts:
        return False
    return all(
        (name[1:] not in node.properties) if name.startswith("^") else name in node.properties for name in needed
    )


def _room(document: Mapping[str, object], nodes: Sequence[FluxNode], where: str) -> str | None:
    resources = document["resources"]
    assert isinstance(resources, list)
    top = resources[0]
    slot = top["with"][0] if top["type"] == "node" else top
    per = {part["type"]: part["count"] * (slot["count"] if top["type"] == "node" else 1) for part in slot["with"]}
    times = [min(node.counts.get(type, 0) // count for type, count in per.items()) for node in nodes]
    room = sum(map(bool, times)) if top["type"] == "node" else sum(times)
    if room >= top["count"]:
        return None
    asked = ", ".join(f"{count} {type}" for type, count in per.items())
    kinds = dict.fromkeys(type for node in nodes for type in node.counts)
    largest = ", ".join(f"{max(node.counts.get(type, 0) for node in nodes)} {type}" for type in kinds)
    most = f": a node has at most {largest}" if largest else ""
    return f"{top['count']} times {asked} are needed, there is room for {room}{where}{most}"
