"""The state of one cluster in memory: its fold, marks, used units and placed jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rainbow_sched.graphs.backend import Summary, TypeTotal
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.fit.hints import Hints
from rainbow_sched.matching.fit.levels import Planner
from rainbow_sched.matching.fit.placement import NOTHING_BARRED, Barred, place_groups
from rainbow_sched.matching.host_binding import TOGETHER, Binder, Conditions, SharedHosts
from rainbow_sched.matching.index.unit_counts import UnitCounts
from rainbow_sched.matching.structure.cluster import Fold, GraphState
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import HOST, UNBOUND, Binding, GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid, NotFound
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Request

PlannerOf: TypeAlias = Callable[[PreparedRequest], Planner]
MAX_CACHED_BINDINGS = 256  # per cluster; bounds the memory of the cache


@dataclass(frozen=True, slots=True)
class ClusterBinding:
    """The binding of a request in one cluster, and the vertices that its steps cannot use."""

    binding: Binding = UNBOUND
    barred: Barred = field(default_factory=lambda: NOTHING_BARRED)
    apart: SharedHosts = TOGETHER

    @property
    def barred_together(self) -> Barred:
        """Return the barred vertices if all parts of a group must run on the same allowed hosts."""
        nothing = frozenset[int]()
        return {
            number: self.barred.get(number, nothing) | self.apart.barred.get(number, nothing)
            for number in self.barred.keys() | self.apart.barred.keys()
        }


NOT_BOUND = ClusterBinding()


class ClusterState:
    """The mutable state of a cluster. Vertices are numbers here."""

    def __init__(self, name: str, fold: Fold, facts: Facts, number_in_fleet: int = 0) -> None:
        self.name = name
        self.number_in_fleet = number_in_fleet
        self.fold = fold
        self.facts = facts
        self.version = 0
        self.down: set[int] = set()
        self.placed: dict[str, dict[int, int]] = {}
        self.taken = UnitCounts(len(fold.graph))  # the sum of placed and reported units
        self.hints = Hints(fold.structure)
        self.rules: NodeRules | None = None  # None: nodes are not enforced
        self._bound: OrderedDict[str, ClusterBinding] = OrderedDict()  # by match key
        self._now: dict[int, Shape] | None = None
        self.unavailable: set[int] = set()  # vertices that are down, drained, or inside one

    def number(self, id: str) -> int:
        """Return the number of the vertex with this id; raise `NotFound`."""
        try:
            return self.fold.structure.positions[id]
        except KeyError:
            raise NotFound(f"cluster {self.name!r} has no vertex {id!r}") from None

    def take_over(self, before: ClusterState) -> None:
        """Take marks, report and placements from a state of the same graph."""
        self.down, self.unavailable, self.taken = before.down, before.unavailable, before.taken
        self.placed = before.placed

    def changed(self) -> None:
        """Discard the folded shapes after a change."""
        self._now = None

    @property
    def busy(self) -> bool:
        """Return True if anything is down or taken."""
        return bool(self.taken or self.down)

    def now(self) -> Shape:
        """Return the cluster's current shape."""
        return self._shapes_now().get(0, self.fold.root)

    def shape_of(self, i: int) -> Shape:
        """Return the current shape of one vertex."""
        return self._shapes_now().get(i, self.fold.shape(i))

    def _shapes_now(self) -> dict[int, Shape]:
        if self._now is None:
            now = GraphState(taken=self.taken, down=frozenset(self.down))
            self._now = self.fold.fold_again(now) if self.busy else {}
        return self._now

    def hosts_named(self, names: Iterable[str]) -> list[int] | None:
        """Return the hosts with these names in the graph's order; None if none is known."""
        return sorted({i for name in names for i in self.fold.structure.hosts_named(name)}) or None

    def set_rules(self, rules: NodeRules | None) -> None:
        self.rules = rules
        self._bound.clear()
        self.hints = Hints(self.fold.structure)

    def rules_for(self, request: PreparedRequest) -> NodeRules | None:
        """Return the node rules if they can concern the request."""
        return self.rules if request.may_bind else None

    def bound(self, request: PreparedRequest, planner_of: PlannerOf) -> ClusterBinding:
        """Return the binding of the request; `NOT_BOUND` if no rules concern it."""
        rules = self.rules_for(request)
        if rules is None:
            return NOT_BOUND
        known = self._bound.get(request.match_key)
        if known is None:
            plan = planner_of(request).plan(self.fold.structure.units)
            shape_of = self._named_shapes(plan.request) if _names_hosts(plan.request) else self.fold.shape
            binder = Binder(Conditions(plan, self.facts, rules), self.fold, shape_of)
            known = ClusterBinding(binder.binding(), binder.barred(), binder.apart())
            self._bound[request.match_key] = known
            if len(self._bound) > MAX_CACHED_BINDINGS:
                self._bound.popitem(last=False)
        return known

    def concrete_hosts(self, request: PreparedRequest, planner_of: PlannerOf, key: str) -> tuple[GroupHosts, ...]:
        """Return the hosts of one placement of all groups: beside other jobs, else with all free.

        Empty if none is found, or without node rules.

        All parts of a group use hosts that are allowed for each of them; a single group gets all of these hosts.
        `key`: the placed job itself, which is not counted.
        """
        if self.rules is None:
            return ()
        bound, plan = self.bound(request, planner_of), planner_of(request).plan(self.fold.structure.units)
        mine = self.placed.get(key, {})
        beside = [units - mine.get(i, 0) for i, units in enumerate(self.taken.column())]
        free = [0] * len(self.fold.graph)
        for taken, unavailable in ((beside, self.unavailable), (free, self.unavailable), (free, set[int]())):
            found = place_groups(self.fold, plan, self.facts, taken, unavailable, bound.barred_together)
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
        """Return the `allowed` hosts of each group's vertices; an exclusive rack may contain other hosts, too."""
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
        """Return the shapes of vertices when all is free, for a request that names hosts."""
        made = self.fold.fold_again(self._named_state(request, taken={}, down=frozenset()))

        def shape_of(i: int) -> Shape:
            return made.get(i) or self.fold.shape(i)

        return shape_of

    def fits(self, request: Request, fitter: Fitter) -> tuple[bool | None, bool | None]:
        """Return if the request fits now, and if it fits when all is free; None: unknown."""
        now, ever = self.shapes(request)
        can = fitter.fits(self.fold, ever)
        return can if now is ever or not can else fitter.fits(self.fold, now), can

    def slots(self, request: Request, fitter: Fitter) -> tuple[int, int]:
        """Return the number of slots now, and when all is free."""
        now, ever = self.shapes(request)
        return fitter.slots(self.fold, now), fitter.slots(self.fold, ever)

    def shapes(self, request: Request) -> tuple[Shape, Shape]:
        """Return the shapes of the cluster for a request, now and when all is free; it may use only hosts it names."""
        root = self.fold.root
        if not _names_hosts(request):
            return self.now(), root
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
        """Return the cluster's summary."""
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
        """Apply marks and return the vertices that became unavailable or available."""
        numbers = {self.number(id): mark for id, mark in marks.items()}
        touched: set[int] = set()
        for i, mark in numbers.items():
            if (i in self.down) is (mark is Mark.UP):
                (self.down.discard if mark is Mark.UP else self.down.add)(i)
                touched.update(self.fold.structure.below(i))
        toggled: set[int] = set()
        for i in sorted(touched):  # parents first
            parent = self.fold.graph.parents[i]
            unavailable = i in self.down or parent in self.unavailable
            if unavailable is not (i in self.unavailable):
                toggled.add(i)
                (self.unavailable.add if unavailable else self.unavailable.discard)(i)
        self.hints.came_back(toggled - self.unavailable)
        return toggled

    def set_report(self, used: Mapping[str, int]) -> dict[int, int]:
        """Apply the manager's report and return the previous taken units of changed vertices."""
        report: dict[int, int] = {}
        for id, units in used.items():
            if units < 0:
                raise Invalid(f"used units cannot be negative, as {units} is", where=f"vertex {id!r}")
            i = self.number(id)
            if units and self.fold.structure.kids[i]:  # a used vertex with children is used whole
                report.update((j, self.fold.graph.sizes[j]) for j in self.fold.structure.below(i))
            elif units:
                report[i] = max(report.get(i, 0), min(units, self.fold.graph.sizes[i]))
        held: dict[int, int] = {}  # placed units by vertex, all jobs together
        for taken in self.placed.values():
            for i, units in taken.items():
                held[i] = held.get(i, 0) + units
        before: dict[int, int] = {}
        for i in {*self.taken, *report}:
            units, known = report.get(i, 0) + held.get(i, 0), self.taken.get(i)
            if units != known:
                before[i] = known
                self.taken.put(i, units)
        self.hints.came_back([i for i, known in before.items() if self.taken.get(i) < known])
        return before

    def hold(self, key: str, taken: dict[int, int], before: dict[int, int]) -> None:
        """Store a placed job; add unknown previous taken units to `before`."""
        self.placed[key] = taken
        self.taken.add_all(taken, before)

    def release(self, key: str, before: dict[int, int]) -> bool:
        """Release a placed job; return False if it took nothing."""
        taken = self.placed.pop(key, None)
        if not taken:
            return False
        self.taken.add_all(taken, before, -1)
        self.hints.came_back(taken)
        return True


def _names_hosts(request: Request) -> bool:
    return bool(request.hosts or request.not_hosts)
