"""How a job is kept on its allowed hosts, by the names that its manager knows; and what cannot be kept. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rainbow_sched.agent.backends.base import CannotBind
from rainbow_sched.agent.core.values import WRONG_NODES, AllowedHosts, Result
from rainbow_sched.matching.structure.hierarchy import properties_of
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import NodeRules, is_passed_on_fully
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.request import Request

MAX_SHOWN = 120  # characters of a list of names in a message


@dataclass(frozen=True, slots=True)
class BoundHosts:
    """The allowed hosts that the manager knows."""

    names: tuple[str, ...]
    unknown: str = ""  # why not all allowed hosts are here: what the manager does not know, and what it has


def bound_hosts(wanted: Sequence[str], known: Sequence[str], manager: str) -> BoundHosts:
    """Return the allowed hosts that the manager knows; raise `CannotBind` if it knows none or not which are meant."""
    there, asked = Counter(known), Counter(wanted)
    names = tuple(name for name in asked if name in there)
    several = [name for name in names if there[name] > asked[name]]
    if several:
        raise CannotBind(
            f"the job may run on some of the nodes that {manager} calls {shown(several)}, and these cannot be told "
            "apart; give the nodes names of their own"
        )
    if len(names) == len(asked):
        return BoundHosts(names)
    missing = [name for name in asked if name not in there]
    unknown = (
        f"by the cluster's graph it may run on {shown(missing)}, which {manager} does not know: it has "
        f"{shown(list(there)) or 'no nodes'}; register the graph with {manager}'s names of the nodes"
    )
    if not names:
        raise CannotBind(unknown)
    return BoundHosts(names, unknown)


def unkept(request: Request, allowed: AllowedHosts, rules: NodeRules, graph: Graph, manager: str) -> str | None:
    """Return the requirement that neither the manager is told nor the allowed hosts cover, as a reason, or None.

    Requirements of the request as a whole hold at the root, and so on every host.
    """
    if allowed.checked:
        return None
    left = [
        (level.type, requirement.subsystem)
        for level in request.walk()
        for requirement in level.requires
        if not is_passed_on_fully(requirement, rules)
    ]
    everywhere = _types_that_hold_all_nodes(graph) if left else frozenset[str]()
    for type, subsystem in left:
        if type not in everywhere:
            return (
                f"the {type} must meet a requirement on {subsystem}, {manager} cannot be told so, "
                "and the server does not say on which nodes; upgrade the server"
            )
    return None


def _types_that_hold_all_nodes(graph: Graph) -> frozenset[str]:
    """The root's type, and with one node all down to it: a vertex of these that was matched can be no other."""
    nodes = [i for i, type in enumerate(graph.types) if type == "node"]
    counts = Counter(graph.types)
    found = set()
    at = nodes[0] if len(nodes) == 1 else 0
    while at >= 0:
        if counts[graph.types[at]] == 1:
            found.add(graph.types[at])
        at = graph.parents[at]
    return frozenset(found)


def stands_for_nodes(names: Iterable[str], nodes: Collection[str], graph: Graph, allowed: AllowedHosts) -> str | None:
    """Return why hosts that the request names, such as racks, cannot be told to a manager of nodes, or None."""
    others = {name for name in names if name not in nodes}
    if allowed.checked or not others or not (others := others.intersection(graph.names)):
        return None
    return (
        f"{', '.join(sorted(others))} is no node, and the server does not say which nodes it stands for; "
        "upgrade the server"
    )


def carried_in_graph(graph: Graph, name: str) -> bool:
    """Return True if some vertex of the graph carries this property."""
    return any(name in properties_of(about) for about in graph.metadata.values())


def wrong_nodes(got: str, allowed: str, manager: str, ended: float | None = None) -> Result:
    """The result of a job that was given nodes on which it may not run; its command was not started."""
    reason = f"{manager} gave it {got or 'nodes without names'}, and it may run on {allowed} only; it was not started"
    return Result(state=AttemptState.RETURNED, reason=reason, ended_at=ended, code=WRONG_NODES)


def shown(names: Sequence[str]) -> str:
    """Names in short, for a message."""
    text = collapse(names) or ",".join(names)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
