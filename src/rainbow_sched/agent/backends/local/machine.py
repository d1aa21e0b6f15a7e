"""Free resources of this machine, and first-fit placement over its graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rainbow_sched.agent.backends.base import CannotBind
from rainbow_sched.agent.backends.common.host_binding import bound_hosts, unenforced
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.quantities import factor, human_bytes
from rainbow_sched.model.request import Level, Request
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts

RULES = NodeRules(hosts=True, groups=True)
IDENTIFIED = ("core", "gpu")  # types whose units have numbers: cpus, gpu devices


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
        names = list(dict.fromkeys(name for hosts in self.hosts for name in hosts))
        return collapse(names) or ",".join(names)


NOWHERE = Place()


class Machine:
    """The leaves of a graph with their free units. Memory counts in bytes, all else in units of the graph."""

    def __init__(self, graph: Graph, cpus: Sequence[int] = ()) -> None:
        """`cpus`: the usable processors; cores are bound to them if there are enough for the graph."""
        self.graph = graph
        self._children = graph.children()
        self._scale = [(factor(unit) or 1) if unit else 1 for unit in graph.units]
        self.leaves = [i for i, below in enumerate(self._children) if not below]
        self.size = {i: graph.sizes[i] * self._scale[i] for i in self.leaves}
        self.free = dict(self.size)
        self._host = self._hosts()  # leaf -> vertex of its node; -1: none
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
            if self._children[i]:
                found += not free or self._untouched(i, self.free)
            else:
                found += (self.free if free else self.size)[i]
        return found

    def fit(self, request: Request, allowed: AllowedHosts = ANY_HOST, *, empty: bool = False) -> dict[int, int] | None:
        """Return the units by leaf that `request` would take now (or of an empty machine); None: no room."""
        groups = self._groups(request, allowed, dict(self.size if empty else self.free))
        return None if groups is None else _added(groups)

    def _groups(self, request: Request, allowed: AllowedHosts, free: dict[int, int]) -> list[dict[int, int]] | None:
        """Return the units by leaf for each group; groups with the fewest allowed hosts choose first."""
        found: list[dict[int, int]] = [{} for _ in request.groups]
        for number in sorted(range(len(found)), key=lambda number: len(allowed.of(number)) or len(self.leaves)):
            closed = {i: free[i] for i in self._closed(allowed.of(number))}
            free.update(dict.fromkeys(closed, 0))
            for level in request.groups[number].levels:
                if not self._place(level, 0, free, found[number]):
                    return None
            free.update(closed)
        return found

    def _closed(self, hosts: Sequence[str]) -> Iterator[int]:
        """Yield the leaves of all nodes but these; none if no hosts are given."""
        names = frozenset(hosts)
        if names:
            for i, host in self._host.items():
                if host >= 0 and self.host_name(host) not in names:
                    yield i

    def take(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> Place | None:
        """Reserve resources for `request` on its allowed hosts; None if there is no room."""
        groups = self._groups(request, allowed, dict(self.free))
        if groups is None:
            return None
        units = _added(groups)
        chosen: dict[str, list[int]] = {kind: [] for kind in IDENTIFIED}
        for i, amount in units.items():
            kind = self.graph.types[i]
            if i in self._idle and kind in chosen:
                each = len(self._numbers[i]) // self.size[i]  # a core may have several hardware threads
                chosen[kind] += self._idle[i][: amount * each]
        memory = sum(amount for i, amount in units.items() if self.graph.types[i] == "memory")
        hosts = tuple(self._names(group) for group in groups)
        place = Place(units, tuple(chosen["core"]), tuple(chosen["gpu"]), memory, hosts)
        self.occupy(place)
        return place

    def _names(self, units: Iterable[int]) -> tuple[str, ...]:
        nodes = dict.fromkeys(self._host[i] for i in sorted(units))
        return tuple(self.host_name(node) for node in nodes if node >= 0)

    def occupy(self, place: Place) -> None:
        """Reserve these resources, even beyond the free ones, for a job placed by an earlier agent."""
        for i, amount in place.units.items():
            if i in self.free:
                self.free[i] -= amount
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
            if i in self.free:
                self.free[i] = min(self.size[i], self.free[i] + amount)
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
        if self.fit(request, allowed, empty=True) is None:
            return "it does not fit on this machine even if nothing else runs: " + self.totals() + unknown
        return None

    def _unknown(self, request: Request, allowed: AllowedHosts) -> str:
        """Return a text about allowed hosts that are not here; raise `CannotBind` if the job cannot be bound."""
        nodes = [self.host_name(i) for i, type in enumerate(self.graph.types) if type == "node"]
        reason = unenforced(request, allowed, RULES, self.graph, "this machine")
        named = request.hosts or request.not_hosts or request.properties
        if reason is None and not allowed.checked and len(nodes) > 1 and named:
            reason = "it names hosts or properties, and the server does not send the allowed nodes; upgrade the server"
        if reason is not None:
            raise CannotBind(reason)
        bound = [bound_hosts(group.hosts, nodes, "this machine's graph") for group in allowed.groups]
        return "".join(f"; {one.unknown}" for one in bound if one.unknown)

    def totals(self) -> str:
        """Return all resources in words."""
        kinds = dict.fromkeys(self.graph.types[i] for i in self.leaves)
        parts = []
        for kind in kinds:
            scale = max(self._scale[i] for i in self.leaves if self.graph.types[i] == kind)
            amount = self.count(kind)
            parts.append(f"{kind} {human_bytes(amount)}" if scale > 1 else f"{amount} {kind}")
        return ", ".join(parts)

    # --- first fit ---

    def _below(self, top: int) -> Iterator[int]:
        """Yield all vertices below `top` in preorder."""
        stack = list(reversed(self._children[top]))
        while stack:
            i = stack.pop()
            yield i
            stack.extend(reversed(self._children[i]))

    def _leaves_of(self, top: int) -> list[int]:
        return [i for i in (top, *self._below(top)) if not self._children[i]]

    def _untouched(self, top: int, free: Mapping[int, int]) -> bool:
        return all(free[i] == self.size[i] for i in self._leaves_of(top))

    def _place(self, level: Level, top: int, free: dict[int, int], taken: dict[int, int]) -> bool:
        """Take `level` below `top`; on False, `free` and `taken` are unchanged."""
        here = [i for i in (top, *self._below(top)) if self.graph.types[i] == level.type]
        if not here and level.inside and level.abstract:
            here = [top]
        before = dict(free), dict(taken)
        if level.shared:
            done = all(any(self._inside(level, i, free, taken) for i in here) for _ in range(level.count.min))
        elif level.inside or any(self._children[i] for i in here):
            left = level.count.min
            for i in here:
                left -= left > 0 and self._inside(level, i, free, taken)
            done = left == 0
        else:
            done = self._amount(level, here, free, taken)
        if not done:
            free.clear()
            taken.clear()
            free.update(before[0])
            taken.update(before[1])
        return done

    def _inside(self, level: Level, host: int, free: dict[int, int], taken: dict[int, int]) -> bool:
        """Take one vertex of `level`: the resources requested inside it, or all of it."""
        whole = level.exclusive or not level.inside
        if whole and not self._untouched(host, free):
            return False
        before = dict(free), dict(taken)
        for child in level.inside:
            if not self._place(child, host, free, taken):
                free.update(before[0])
                taken.clear()
                taken.update(before[1])
                return False
        if whole:
            for i in self._leaves_of(host):
                self._grab(i, free[i], free, taken)
        return True

    def _amount(self, level: Level, here: list[int], free: dict[int, int], taken: dict[int, int]) -> bool:
        """Take units of a leaf type from as many vertices as needed."""
        if not here:
            return False
        left = level.count.min * ((factor(level.unit) or 1) if level.unit else self._scale[here[0]])
        for i in here:
            if level.exclusive and free[i] < self.size[i]:
                continue
            amount = min(left, free[i])
            left -= amount
            self._grab(i, self.size[i] if level.exclusive and amount else amount, free, taken)
        return left == 0

    @staticmethod
    def _grab(i: int, amount: int, free: dict[int, int], taken: dict[int, int]) -> None:
        if amount:
            free[i] -= amount
            taken[i] = taken.get(i, 0) + amount


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
