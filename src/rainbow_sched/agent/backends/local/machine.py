"""Free resources of this machine, with the placement of the matcher: a request means the same to agent and server."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rainbow_sched.agent.backends.base import CannotBind
from rainbow_sched.agent.backends.common.host_binding import bound_hosts, check_requirements, hostlist
from rainbow_sched.matching.fit.levels import Plan, Planner
from rainbow_sched.matching.fit.placement import Barred, place_groups
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shapes
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.quantities import factor, human_bytes
from rainbow_sched.model.request import Group, Level, Request
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts

RULES = NodeRules(hosts=True, groups=True)
MAX_PLANS = 256  # requests whose plans are cached; bounds the memory of the cache


@dataclass(frozen=True, slots=True)
class Place:
    """Resources of one job: units by vertex, with the numbers of cpus and gpus."""

    units: Mapping[int, int] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    memory: int = 0  # bytes; 0: not requested
    hosts: tuple[tuple[str, ...], ...] = ()  # by group of the request

    @property
    def nodes(self) -> str:
        """Return all hosts as a hostlist."""
        return hostlist(list(dict.fromkeys(name for hosts in self.hosts for name in hosts)))


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that is not running yet: what it may take, and its position in the queue."""

    request: Request
    allowed: AllowedHosts = ANY_HOST
    order: int = 0


class Machine:
    """A graph with its free units, by leaf. Memory counts in bytes, all else in units of the graph."""

    def __init__(self, graph: Graph, cpus: Sequence[int] = ()) -> None:
        """`cpus`: the usable processors; cores are bound to them if there are enough for the graph."""
        self._scale = [(factor(unit) or 1) if unit else 1 for unit in graph.units]
        self._unit = dict(zip(reversed(graph.types), reversed(graph.units), strict=True))  # of a type's first vertex
        self.graph = _in_bytes(graph)
        self._children = graph.children()
        self.leaves = [i for i, below in enumerate(self._children) if not below]
        self.size = {i: self.graph.sizes[i] for i in self.leaves}
        self.taken = self.nothing()  # units by vertex
        shapes = Shapes()
        self._facts = Facts()
        self._fold = Fold(Structure(self.graph, shapes), (), self._facts, shapes)
        self._plan = lru_cache(MAX_PLANS)(self._make_plan)
        self.host = self._hosts()  # leaf -> vertex of its node; -1: none
        self._numbers = self._numbered(cpus)
        self._idle = {i: list(numbers) for i, numbers in self._numbers.items()}

    def _hosts(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for i, type in enumerate(self.graph.types):  # parents come first
            above = self.graph.parents[i]
            found[i] = i if type == "node" else found.get(above, -1)
        return {i: found[i] for i in self.leaves}

    def host_name(self, vertex: int) -> str:
        return self.graph.names[vertex] or self.graph.ids[vertex]

    def _numbered(self, cpus: Sequence[int]) -> dict[int, list[int]]:
        """Return the cpu or gpu numbers of each leaf."""
        numbers: dict[int, list[int]] = {}
        cores = [i for i in self.leaves if self.graph.types[i] == "core"]
        known = {i: _cpus_of(self.graph.metadata.get(i, {})) for i in cores}
        if cores and all(known[i] and set(known[i]) <= set(cpus) for i in cores):
            numbers.update(known)
        elif sum(self.size[i] for i in cores) <= len(cpus):
            rest = list(cpus)
            for i in cores:
                numbers[i], rest = rest[: self.size[i]], rest[self.size[i] :]
        device = 0
        for i in self.leaves:
            if self.graph.types[i] == "gpu":
                numbers[i] = list(range(device, device + self.size[i]))
                device += self.size[i]
        return numbers

    def count(self, type: str, *, free: bool = False) -> int:
        """Return the units of a type, all or free. Inner vertices count if all below them is free."""
        found = 0
        for i, kind in enumerate(self.graph.types):
            if kind != type:
                continue
            if i in self.size:
                found += self.size[i] - (self.taken[i] if free else 0)
            else:
                found += not free or not any(self.taken[j] for j in self._fold.structure.below(i))
        return found

    def fit(
        self, request: Request, allowed: AllowedHosts = ANY_HOST, taken: Sequence[int] | None = None
    ) -> dict[int, int] | None:
        """Return the units by leaf that `request` would take, now or with these units taken; None: no room."""
        groups = self._groups(request, allowed, self.taken if taken is None else taken)
        return None if groups is None else _added(groups)

    def nothing(self) -> list[int]:
        """Return the units by vertex that an empty machine has taken."""
        return [0] * len(self.graph)

    def _groups(self, request: Request, allowed: AllowedHosts, taken: Sequence[int]) -> list[dict[int, int]] | None:
        """Return the units by leaf for each group."""
        hosts = tuple(allowed.of(number) for number in range(len(request.groups)))
        plan, barred = self._plan(request.groups, hosts)
        found = place_groups(self._fold, plan, self._facts, taken, set(), barred)
        if found is None:
            return None
        groups = [
            {i: units for i, units in sorted(found.get(number, {}).items()) if units and i in self.size}
            for number in range(len(hosts))
        ]
        # An exclusive vertex above the nodes, such as a rack, may hold nodes that are not allowed.
        bound = all(not on or set(self._names(group)) <= set(on) for group, on in zip(groups, hosts, strict=True))
        return groups if bound else None

    def _make_plan(self, groups: tuple[Group, ...], hosts: tuple[Sequence[str], ...]) -> tuple[Plan, Barred]:
        """Return how to place groups on these hosts; groups with the fewest hosts choose first.

        Requirements are dropped: the server has met them by its choice of hosts.
        """
        bare = tuple(Group(levels=tuple(map(self._bare, group.levels)), name=group.name) for group in groups)
        plan = Planner(Request(groups=bare)).plan(self._fold.structure.units)
        tops = sorted(plan.tops, key=lambda top: len(hosts[top.path[0]]) or len(self.leaves))
        closed = {number: self._closed(names) for number, names in enumerate(hosts) if names}
        barred = {step.number: closed[top.path[0]] for top in tops if top.path[0] in closed for step in top.walk()}
        return replace(plan, tops=tuple(tops)), barred

    def _bare(self, level: Level) -> Level:
        """Return a level without requirements, and with the unit that its type has here if it names none."""
        unit = level.unit or ("" if level.inside else self._unit.get(level.type, ""))
        return replace(level, requires=(), unit=unit, inside=tuple(map(self._bare, level.inside)))

    def _closed(self, hosts: Sequence[str]) -> frozenset[int]:
        """Return all vertices of the nodes that are not among these hosts."""
        nodes = (i for i, type in enumerate(self.graph.types) if type == "node" and self.host_name(i) not in hosts)
        return frozenset(j for i in nodes for j in self._fold.structure.below(i))

    def take(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> Place | None:
        """Reserve resources for `request` on its allowed hosts; None if there is no room."""
        groups = self._groups(request, allowed, self.taken)
        if groups is None:
            return None
        units = _added(groups)
        chosen: dict[str, list[int]] = {"core": [], "gpu": []}
        for i, amount in units.items():
            if i in self._idle:
                each = len(self._numbers[i]) // self.size[i]  # a core may have several hardware threads
                chosen[self.graph.types[i]] += self._idle[i][: amount * each]
        memory = sum(amount for i, amount in units.items() if self.graph.types[i] == "memory")
        hosts = tuple(self._names(group) for group in groups)
        place = Place(units, tuple(chosen["core"]), tuple(chosen["gpu"]), memory, hosts)
        self.occupy(place)
        return place

    def _names(self, units: Iterable[int]) -> tuple[str, ...]:
        nodes = dict.fromkeys(self.host[i] for i in sorted(units))
        return tuple(self.host_name(node) for node in nodes if node >= 0)

    def occupy(self, place: Place) -> None:
        """Reserve these resources, even beyond the free ones, for a job placed by an earlier agent."""
        for i, amount in place.units.items():
            if i in self.size:
                self.taken[i] += amount
        gone = {"core": set(place.cpus), "gpu": set(place.gpus)}
        for i, idle in self._idle.items():
            self._idle[i] = [number for number in idle if number not in gone[self.graph.types[i]]]

    def holdings(self, place: Place) -> dict[str, int]:
        """Return the units by vertex id, which is stable across graphs of this machine."""
        return {self.graph.ids[i]: amount for i, amount in place.units.items()}

    def held(self, holdings: Mapping[str, int]) -> dict[int, int]:
        """Return the units by vertex; unknown vertices are skipped."""
        known = self.graph.positions()
        return {known[id]: amount for id, amount in holdings.items() if id in known}

    def release(self, place: Place) -> None:
        """Release the resources of `take` or `occupy`."""
        for i, amount in place.units.items():
            if i in self.size:
                self.taken[i] = max(0, self.taken[i] - amount)
        back = {"core": set(place.cpus), "gpu": set(place.gpus)}
        for i, numbers in self._numbers.items():
            returned = back[self.graph.types[i]]
            self._idle[i] = [n for n in numbers if n in returned or n in self._idle[i]]

    def lacks(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """Return why `request` can never run here on its allowed hosts, or None."""
        for level in request.walk():
            if level.type in self.graph.types or (level.abstract and level.inside and not level.requires):
                continue
            return f"{level.type}: 0 here, {level.count.min} needed"
        try:
            unknown = self._unknown(request, allowed)
        except CannotBind as problem:
            return str(problem)
        if self.fit(request, allowed, self.nothing()) is None:
            return "it does not fit on this machine even if nothing else runs: " + self.totals() + unknown
        return None

    def _unknown(self, request: Request, allowed: AllowedHosts) -> str:
        """Return a text about allowed hosts that are not here; raise `CannotBind` if the job cannot be bound."""
        nodes = [self.host_name(i) for i, type in enumerate(self.graph.types) if type == "node"]
        check_requirements(request, allowed, RULES, self.graph, "this machine")
        if not allowed.checked and len(nodes) > 1 and (request.hosts or request.not_hosts or request.properties):
            raise CannotBind(
                "it names hosts or properties, and the server does not send the allowed nodes; upgrade the server"
            )
        bound = [bound_hosts(group.hosts, nodes, "this machine's graph") for group in allowed.groups]
        return "".join(f"; {unknown}" for _, unknown in bound if unknown)

    def totals(self) -> str:
        """Return all resources in words."""
        kinds = dict.fromkeys(self.graph.types[i] for i in self.leaves)
        parts = []
        for kind in kinds:
            scale = max(self._scale[i] for i in self.leaves if self.graph.types[i] == kind)
            amount = self.count(kind)
            parts.append(f"{kind} {human_bytes(amount)}" if scale > 1 else f"{amount} {kind}")
        return ", ".join(parts)


def _in_bytes(graph: Graph) -> Graph:
    """Return the graph with all sizes that have a unit of bytes in bytes, so that jobs take no more than they ask."""
    scale = [factor(unit) if unit else None for unit in graph.units]
    sizes = array("q", (size * (each or 1) for size, each in zip(graph.sizes, scale, strict=True)))
    units = tuple("B" if each else unit for unit, each in zip(graph.units, scale, strict=True))
    return replace(graph, sizes=sizes, units=units)


def _added(groups: Iterable[Mapping[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for units in groups:
        for i, amount in units.items():
            found[i] = found.get(i, 0) + amount
    return found


def _cpus_of(metadata: Mapping[str, object]) -> list[int]:
    """Return the processor numbers of a core from discovery."""
    cpus = metadata.get("cpus")
    return [cpu for cpu in cpus if isinstance(cpu, int)] if isinstance(cpus, list | tuple) else []
