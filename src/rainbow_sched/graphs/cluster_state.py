"""One cluster as the backends in memory keep it: its fold, and what is down, used and placed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rainbow_sched.graphs.backend import Summary, TypeTotal
from rainbow_sched.matching.fit.hints import Hints
from rainbow_sched.matching.fit.levels import Plan
from rainbow_sched.matching.fit.placement import NOTHING_BARRED, Barred, place_groups
from rainbow_sched.matching.host_binding import TOGETHER, Binder, Conditions, SharedHosts
from rainbow_sched.matching.index.unit_counts import UnitCounts
from rainbow_sched.matching.structure.cluster import Fold, GraphState
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import HOST, UNBOUND, Binding, GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid, NotFound
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Request

MAX_CACHED_BINDINGS = 256  # requests of which each cluster keeps where they may run


@dataclass(frozen=True, slots=True)
class ClusterBinding:
    """Where a request may run in one cluster, and the vertices that its steps cannot use."""

    binding: Binding = UNBOUND
    barred: Barred = field(default_factory=lambda: NOTHING_BARRED)
    apart: SharedHosts = TOGETHER

    @property
    def barred_together(self) -> Barred:
        """The same where all parts of a group run on hosts that are right for each of them."""
        nothing = frozenset[int]()
        return {
            number: self.barred.get(number, nothing) | self.apart.barred.get(number, nothing)
            for number in self.barred.keys() | self.apart.barred.keys()
        }


def names(request: Request) -> bool:
    """True if a request names hosts."""
    return bool(request.hosts or request.not_hosts)


class ClusterState:
    """A cluster's changing part. Vertices are numbers here; ids are translated once, at the door."""

    def __init__(self, name: str, fold: Fold, number_in_fleet: int) -> None:
        self.name = name
        self.number_in_fleet = number_in_fleet
        self.fold = fold
        self.version = 0
        self.down: set[int] = set()
        self.placed: dict[str, dict[int, int]] = {}
        self.taken = UnitCounts(len(fold.graph))  # placed and reported together, so what is not placed is reported
        self.hints = Hints(fold.structure)
        self.rules: NodeRules | None = None  # what its manager can be told; None: nodes are not enforced there
        self._bound: OrderedDict[int, ClusterBinding] = OrderedDict()  # by the number of what a request asks
        self._now: dict[int, Shape] | None = None
        self.unavailable: set[int] = set()  # every vertex that is down or drained, or inside one that is

    def number(self, id: str) -> int:
        """The number of the vertex with this id."""
        try:
            return self.fold.structure.positions[id]
        except KeyError:
            raise NotFound(f"cluster {self.name!r} has no vertex {id!r}") from None

    def take_over(self, before: ClusterState) -> None:
        """Keep marks, report and places of a state of the same graph."""
        self.down, self.unavailable, self.taken = before.down, before.unavailable, before.taken
        self.placed, self.rules = before.placed, before.rules

    def changed(self) -> None:
        """Forget what was folded for the state before."""
        self._now = None

    @property
    def busy(self) -> bool:
        """Does anything differ from the whole graph?"""
        return bool(self.taken or self.down)

    def now(self) -> Shape:
        """The cluster's shape with what is down and taken left out."""
        if not self.busy:
            return self.fold.root
        return self._shapes_now().get(0, self.fold.root)

    def shape_of(self, i: int) -> Shape:
        """The shape of one vertex as it is now."""
        return self._shapes_now().get(i, self.fold.shape(i))

    def _shapes_now(self) -> dict[int, Shape]:
        if self._now is None:
            self._now = self.fold.fold_again(self.state()) if self.busy else {}
        return self._now

    def state(self) -> GraphState:
        """What differs from the whole graph."""
        return GraphState(taken=self.taken, down=frozenset(self.down))

    def hosts_named(self, names: Iterable[str]) -> list[int] | None:
        """The hosts of these names in the graph's order; None if none of them is known."""
        found = sorted({i for name in names for i in self.fold.structure.hosts_named(name)})
        return found or None

    def set_rules(self, rules: NodeRules | None) -> None:
        """Take over what the manager can be told."""
        self.rules = rules
        self._bound.clear()
        self.hints = Hints(self.fold.structure)

    def bound(self, key: int, request: Request, plan: Plan, facts: Facts) -> ClusterBinding:
        """Where a request may run here; `key` numbers what it asks. Only of a cluster with rules."""
        known = self._bound.get(key)
        if known is None:
            assert self.rules is not None
            conditions = Conditions(plan, facts, self.rules)
            binder = Binder(conditions, self.fold, self._named_shapes(request) if names(request) else self.fold.shape)
            known = self._bound[key] = ClusterBinding(binder.binding(), binder.barred(), binder.apart())
            if len(self._bound) > MAX_CACHED_BINDINGS:
                self._bound.popitem(last=False)
        return known

    def concrete_hosts(self, bound: ClusterBinding, plan: Plan, facts: Facts, key: str) -> tuple[GroupHosts, ...]:
        """The hosts of one placement of all groups: beside other jobs, else with all free; empty if none is found.

        All parts of a group lie on hosts that are right for each of them. Where there is one group, it gets all these.
        `key`: a placed job that is not counted, as it is the one that asks.
        """
        mine = self.placed.get(key, {})
        beside = [units - mine.get(i, 0) for i, units in enumerate(self.taken.column())]
        free = [0] * len(self.fold.graph)
        for taken, unavailable in ((beside, self.unavailable), (free, self.unavailable), (free, set[int]())):
            found = place_groups(self.fold, plan, facts, taken, unavailable, bound.barred_together)
            if found is not None and len(found) == len(bound.apart.hosts) == 1:
                return tuple(GroupHosts(group, hosts) for group, hosts in bound.apart.hosts.items() if hosts)
            if found is not None:
                allowed = {entry.group: frozenset(entry.hosts) for entry in bound.binding.hosts}
                together = {group: frozenset(hosts) for group, hosts in bound.apart.hosts.items()}
                return self._hosts_of(found, allowed | together)
        return ()

    def _hosts_of(
        self, groups: Mapping[int, Iterable[int]], allowed: Mapping[int, frozenset[str]]
    ) -> tuple[GroupHosts, ...]:
        """The hosts in which the vertices of each group lie; an exclusive rack holds others beside those `allowed`."""
        graph = self.fold.graph
        entries = []
        for group, vertices in sorted(groups.items()):
            hosts: set[int] = set()
            for i in vertices:
                at = i
                while at >= 0:
                    if graph.types[at] == HOST:
                        hosts.add(at)
                    at = graph.parents[at]
            names = dict.fromkeys(graph.names[i] or graph.ids[i] for i in sorted(hosts))
            chosen = tuple(name for name in names if group not in allowed or name in allowed[group])
            if chosen:
                entries.append(GroupHosts(group, chosen))
        return tuple(entries)

    def _named_shapes(self, request: Request) -> Callable[[int], Shape]:
        """The shapes of vertices when all is free, for a request that names hosts."""
        made = self.fold.fold_again(self._named_state(request, taken={}, down=frozenset()))

        def shape_of(i: int) -> Shape:
            return made.get(i) or self.fold.shape(i)

        return shape_of

    def named(self, request: Request) -> tuple[Shape, Shape]:
        """The shapes now and ever for a request that names hosts: what lies outside of them may not be used."""
        root = self.fold.root
        now = self._named_state(request, taken=self.taken, down=frozenset(self.down))
        ever = self._named_state(request, taken={}, down=frozenset())
        return self.fold.fold_again(now).get(0, root), self.fold.fold_again(ever).get(0, root)

    def _named_state(self, request: Request, *, taken: Mapping[int, int], down: frozenset[int]) -> GraphState:
        graph = self.fold.graph
        hosts, not_hosts = frozenset(request.hosts), frozenset(request.not_hosts)
        inside = bytearray(len(graph))
        barred = bytearray(len(graph))
        for i, parent in enumerate(graph.parents):
            name = graph.names[i] or graph.ids[i]
            inside[i] = not hosts or name in hosts or (parent >= 0 and inside[parent])
            barred[i] = name in not_hosts or (parent >= 0 and barred[parent])
        outside = frozenset(i for i in range(len(graph)) if barred[i] or not inside[i])

        def allowed(i: int) -> bool:
            return i not in outside

        return GraphState(taken=taken, down=down, allowed=allowed, touched=outside)

    def totals(self) -> Summary:
        """The cluster in numbers."""
        graph = self.fold.graph
        found: dict[str, list[int]] = {}
        for i, type in enumerate(graph.types):
            scale = factor(graph.units[i]) if graph.units[i] else None
            size = graph.sizes[i] * (scale or 1)
            free = 0 if i in self.unavailable else max(0, graph.sizes[i] - self.taken.get(i, 0)) * (scale or 1)
            row = found.setdefault(type, [0, 0, 0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + size, row[2] + free
        return Summary(
            cluster=self.name,
            totals={type: TypeTotal(row[0], row[1], row[2], self._unit(type)) for type, row in sorted(found.items())},
            subsystems=tuple(subsystem.name for subsystem in self.fold.subsystems),
            version=self.version,
        )

    def _unit(self, type: str) -> str:
        units = self.fold.structure.units[type]
        if any(unit and factor(unit) is not None for unit in units):
            return "B"
        return next(iter(units)) if len(units) == 1 else ""

    def set_marks(self, marks: Mapping[str, Mark]) -> set[int]:
        """Take marks over; the vertices that became unavailable or available."""
        numbers = {self.number(id): mark for id, mark in marks.items()}
        touched: set[int] = set()
        for i, mark in numbers.items():
            if (i in self.down) is (mark is Mark.UP):
                (self.down.discard if mark is Mark.UP else self.down.add)(i)
                touched.update(self.fold.structure.below(i))
        toggled: set[int] = set()
        returned: list[int] = []
        for i in sorted(touched):  # parents first
            parent = self.fold.graph.parents[i]
            unavailable = i in self.down or parent in self.unavailable
            if unavailable is not (i in self.unavailable):
                toggled.add(i)
                (self.unavailable.add if unavailable else self.unavailable.discard)(i)
                if not unavailable:
                    returned.append(i)
        self.hints.came_back(returned)
        return toggled

    def set_report(self, used: Mapping[str, int]) -> dict[int, int]:
        """Take the manager's report over; the units taken before, where that changed."""
        report: dict[int, int] = {}
        for id, units in used.items():
            if units < 0:
                raise Invalid(f"used units cannot be negative, as {units} is", where=f"vertex {id!r}")
            i = self.number(id)
            if units and self.fold.structure.kids[i]:  # a used vertex with things inside is used whole
                report.update((j, self.fold.graph.sizes[j]) for j in self.fold.structure.below(i))
            elif units:
                report[i] = max(report.get(i, 0), min(units, self.fold.graph.sizes[i]))
        held: dict[int, int] = {}  # placed units by vertex, all jobs together
        for taken in self.placed.values():
            for i, units in taken.items():
                held[i] = held.get(i, 0) + units
        return self._set({i: report.get(i, 0) + held.get(i, 0) for i in {*self.taken, *report}})

    def hold(self, key: str, taken: dict[int, int], before: dict[int, int]) -> None:
        """Keep what a placed job takes; `before` learns the units taken before, where it does not know them."""
        self.placed[key] = taken
        self.taken.add_all(taken, before)

    def release(self, key: str, before: dict[int, int]) -> bool:
        """Give back what a placed job took; False if that was nothing."""
        taken = self.placed.pop(key, None)
        if not taken:
            return False
        self.taken.add_all(taken, before, -1)
        self.hints.came_back(taken)
        return True

    def _set(self, taken: Mapping[int, int]) -> dict[int, int]:
        """Set units taken; what was taken before, where that changed."""
        before: dict[int, int] = {}
        returned: list[int] = []
        for i, units in taken.items():
            known = self.taken.get(i)
            if units != known:
                before[i] = known
                self.taken.put(i, units)
                if units < known:
                    returned.append(i)
        self.hints.came_back(returned)
        return before
