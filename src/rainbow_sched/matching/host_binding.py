"""Host binding: translate requirements that a manager does not know into lists of hosts.

A manager knows hosts by name. Requirements become a list of hosts by these rules:

- A requirement at or above the host allows the hosts at or below the vertices that meet it.
- A requirement inside a host (socket, core, gpu) allows the hosts in which *all* vertices of its type
  meet it, as the manager chooses among them. A host in which only some meet it
  is *mixed*: the level cannot use anything in it.
- A name that the agent passes to the manager allows the hosts that have it; inside a host
  one vertex is enough, as the manager selects by the name. The hosts are listed, too, as the
  graph and the manager may use the name for different things.
- Vertices outside of hosts (a graph without nodes) are treated as if they were in one host.

`Conditions` applies these rules to shapes, so that matching, placement and binding share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rainbow_sched.matching.fit.levels import Plan, Step
from rainbow_sched.matching.memo import Memoized
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import HOST, Binding, GroupHosts, NodeRules, is_passed_on_fully
from rainbow_sched.model.changes import format_requirement, level_types
from rainbow_sched.model.reasons import MixedHosts, Where
from rainbow_sched.model.request import Requirement

MIXED = frozenset((True, False))  # some vertices meet the conditions, and some do not
MAX_LISTED_HOSTS = 2  # hosts that a reason lists before "and N more"


class Conditions:
    """The requirements of a request's steps, evaluated on shapes.

    A step is *limited* by requirements that the manager is not told; it may also require names that the manager is
    told. Marks and use are ignored, as they are temporary.
    """

    def __init__(self, plan: Plan, facts: Facts, rules: NodeRules) -> None:
        self.plan = plan
        self._facts = facts
        request = plan.request
        self._names = bool(request.hosts or request.not_hosts or request.properties)
        self._wanted = frozenset(name for name in request.properties if not name.startswith("^"))
        self._forbidden = frozenset(name[1:] for name in request.properties if name.startswith("^"))
        self._rules = rules
        self._meeting = {step.number: [facts.meeting(each) for each in self.not_passed_on(step)] for step in plan.steps}
        self.steps = tuple(
            step for step in plan.steps if not step.virtual and (self._meeting[step.number] or self._names_leaf(step))
        )
        self._limited = frozenset(step.number for step in self.steps)
        self._passed_on = {
            step.number: names
            for step in plan.steps
            if (names := [facts.meeting(named) for named in step.level.requires if is_passed_on_fully(named, rules)])
        }

    def not_passed_on(self, step: Step) -> list[Requirement]:
        """Return the step's requirements that the manager is not told."""
        return [each for each in step.level.requires if not is_passed_on_fully(each, self._rules)]

    def _names_leaf(self, step: Step) -> bool:
        """Return True if the request's own hosts or properties limit the step."""
        return self._names and step.leaf

    def binds(self, step: Step) -> bool:
        """Return True if only some hosts may meet the step's requirements."""
        return step.number in self._limited or step.number in self._passed_on

    def met(self, step: Step, shape: Shape) -> bool:
        """Return True if a vertex of the step's type meets all requirements."""
        facts = self._facts.classes[shape.cls]
        return self._holds(step, shape) and all(facts & named for named in self._passed_on.get(step.number, ()))

    def met_inside(self, step: Step, shape: Shape) -> bool:
        """Return True if the manager may choose any vertices of the step's type strictly inside."""
        return self._inside(step, shape) == {True} and self._has_named(step, shape)

    @Memoized
    def _has_named(self, step: Step, shape: Shape) -> bool:
        return step.number not in self._passed_on or any(
            (kid.type == step.level.type and self.met(step, kid)) or self._has_named(step, kid) for kid, _ in shape.kids
        )

    def _holds(self, step: Step, shape: Shape) -> bool:
        """Return True if a vertex of the step's type meets the requirements that the manager is not told."""
        facts = self._facts.classes[shape.cls]
        if not all(facts & met for met in self._meeting[step.number]):
            return False
        return not self._names_leaf(step) or (self._wanted <= shape.properties and self._is_clear(shape))

    @Memoized
    def _is_clear(self, shape: Shape) -> bool:
        """Return True if the request's hosts and forbidden properties exclude nothing of the vertex."""
        clear = shape.allowed and self._forbidden.isdisjoint(shape.properties)
        return clear and all(self._is_clear(kid) for kid, _ in shape.kids)

    @Memoized
    def _inside(self, step: Step, shape: Shape) -> frozenset[bool]:
        """Return whether the vertices of the step's type strictly inside meet the conditions, as the set of answers."""
        kids = [kid for kid, _ in shape.kids]
        here = (self._holds(step, kid) for kid in kids if kid.type == step.level.type)
        return frozenset(here).union(*(self._inside(step, kid) for kid in kids))

    @Memoized
    def mixed(self, host: Shape) -> int:
        """Return the mask of the steps that cannot use anything strictly inside a host."""
        return sum(step.bit for step in self.steps if step.level.type != HOST and self._inside(step, host) == MIXED)

    def loose(self, root: Shape) -> int:
        """Return the mask of the steps that cannot use vertices neither in a host nor around one."""
        return sum(step.bit for step in self.steps if self._without_host(step, root) == MIXED)

    @Memoized
    def _without_host(self, step: Step, shape: Shape) -> frozenset[bool]:
        """Return the same as `_inside` for the vertices outside of hosts, the given one included."""
        if shape.type == HOST:
            return frozenset()
        here = (self._holds(step, shape),) if shape.type == step.level.type and not self.has_host(shape) else ()
        return frozenset(here).union(*(self._without_host(step, kid) for kid, _ in shape.kids))

    @Memoized
    def has_host(self, shape: Shape) -> bool:
        """Return True if there is a host at or inside a vertex."""
        return shape.type == HOST or any(self.has_host(kid) for kid, _ in shape.kids)


@dataclass(frozen=True, slots=True)
class _Demand:
    """A part of a request: the host level with the levels above and inside it.

    Without a host level (`host` is None), `inside` are levels that may be in any host.
    """

    group: int
    above: tuple[Step, ...]
    host: Step | None
    inside: tuple[Step, ...]


def _demands(step: Step, above: tuple[Step, ...]) -> Iterator[_Demand]:
    group = step.path[0]
    if step.level.type == HOST and not step.virtual:
        yield _Demand(group, above, step, tuple(each for each in step.walk() if each is not step))
    elif any(each.level.type == HOST and not each.virtual for each in step.walk()):
        for inner in step.inside:
            yield from _demands(inner, (*above, step))
    else:
        yield _Demand(group, above, None, tuple(step.walk()))


@dataclass(frozen=True, slots=True)
class SharedHosts:
    """The hosts on which all parts of a group may run, by group; only for groups whose parts differ."""

    hosts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    barred: Mapping[int, frozenset[int]] = field(default_factory=dict)  # by step's number: vertices in other hosts


TOGETHER = SharedHosts()


class Binder:
    """Find the hosts of one request in one cluster; `shape_of` applies the request's own hosts, with all else free."""

    def __init__(self, conditions: Conditions, fold: Fold, shape_of: Callable[[int], Shape]) -> None:
        self._conditions = conditions
        self._fold = fold
        self._shape_of = shape_of
        self._hosts: Sequence[int] = fold.structure.of_type(HOST)
        plan = conditions.plan
        binds_any = any(conditions.binds(step) for step in plan.steps if not step.virtual)
        self._binds = binds_any and not (plan.missing or plan.unclear)

    def binding(self) -> Binding:
        """Return the hosts of each group, and the mixed hosts that are left out."""
        if not self._binds:
            return Binding()
        mixed = self._mixed()
        if not self._hosts:
            return Binding(mixed=mixed)
        found = self._parts()
        everywhere = frozenset(self._hosts)
        entries: list[GroupHosts] = []
        impossible = ""
        for group, parts in found.items():
            allowed = frozenset[int]().union(*parts)
            if not all(parts):
                impossible = impossible or f"no host has all that group {group + 1} requires"
            elif allowed != everywhere:
                names = self._names(allowed)
                if not names:
                    impossible = impossible or f"the hosts that group {group + 1} requires share names with others"
                else:
                    entries.append(GroupHosts(group, names))
        different = [set(parts) for parts in found.values()]
        return Binding(
            hosts=() if impossible else tuple(entries),
            uniform=len(set[frozenset[int]]().union(*different)) <= 1,
            by_group=all(len(parts) == 1 for parts in different),
            mixed=mixed,
            impossible=impossible,
        )

    def _parts(self) -> dict[int, list[frozenset[int]]]:
        """Return by group the hosts of each part that uses hosts."""
        found: dict[int, list[frozenset[int]]] = {}
        for demand in (demand for top in self._conditions.plan.tops for demand in _demands(top, ())):
            if self._concerns_hosts(demand):
                found.setdefault(demand.group, []).append(self._allowed(demand))
        return found

    def apart(self) -> SharedHosts:
        """Return the hosts on which all parts may run, for groups whose parts may run on different hosts.

        An offer lists hosts per group, not per part, so each host must be allowed for every part.
        """
        if not self._binds or not self._hosts:
            return TOGETHER
        common = {
            group: frozenset.intersection(*parts) for group, parts in self._parts().items() if len(set(parts)) > 1
        }
        names = {group: self._names(hosts) for group, hosts in common.items()}
        barred = {
            step.number: self._outside(step, common[step.path[0]])
            for top in self._conditions.plan.tops
            if top.path[0] in common
            for step in top.walk()
            if not step.virtual
        }
        return SharedHosts(names, barred)

    def _outside(self, step: Step, common: frozenset[int]) -> frozenset[int]:
        """Return the vertices of the step's type in other hosts; for whole vertices, those that contain other hosts."""
        structure, found = self._fold.structure, set()
        for i in structure.of_type(step.level.type):
            hosts = set(structure.above(i)).intersection(self._hosts)
            contained = structure.inside(i, HOST) if step.leaf and not hosts else ()
            if (hosts and common.isdisjoint(hosts)) or not common.issuperset(contained):
                found.add(i)
        return frozenset(found)

    def _names(self, allowed: frozenset[int]) -> tuple[str, ...]:
        """Return the names of hosts, without names that other hosts have, too."""
        name = self._fold.structure.name
        others = {name(i) for i in self._hosts if i not in allowed}
        names = dict.fromkeys(name(i) for i in self._hosts if i in allowed)
        return tuple(name for name in names if name not in others)

    def _allowed(self, demand: _Demand) -> frozenset[int]:
        """Return the hosts on which all conditions of a demand hold."""
        binds, hosts = self._conditions.binds, self._hosts
        above = [step for step in demand.above if binds(step)]
        inside = [step for step in demand.inside if binds(step)]
        if demand.host is None:
            inside = [step for step in (*above, *inside) if self._lies_with_hosts(step)]
            return frozenset(h for h in hosts if all(self._meets(step, h) for step in inside))
        on_host = binds(demand.host)
        return frozenset(
            h
            for h in hosts
            if all(self._is_above(step, h) for step in above)
            and (not on_host or self._conditions.met(demand.host, self._shape_of(h)))
            and all(self._conditions.met_inside(step, self._shape_of(h)) for step in inside)
        )

    def _meets(self, step: Step, host: int) -> bool:
        """Return True if a level without a host level can be used at a vertex around a host, or inside it."""
        return self._is_above(step, host) or self._conditions.met_inside(step, self._shape_of(host))

    def _concerns_hosts(self, demand: _Demand) -> bool:
        """Return True if a demand uses anything in or around hosts."""
        return demand.host is not None or any(step.leaf and self._lies_with_hosts(step) for step in demand.inside)

    def _lies_with_hosts(self, step: Step) -> bool:
        """Return True if a vertex of the step's type is in a host or contains one."""
        return any(map(self._lies_with_host, self._fold.structure.of_type(step.level.type)))

    def _lies_with_host(self, vertex: int) -> bool:
        return self._conditions.has_host(self._shape_of(vertex)) or self._in_host(vertex)

    def _in_host(self, vertex: int) -> bool:
        return any(self._fold.graph.types[i] == HOST for i in self._fold.structure.above(vertex))

    @Memoized
    def _is_above(self, step: Step, vertex: int) -> bool:
        """Return True if the vertex or one above it has the step's type and meets its conditions."""
        if vertex < 0:
            return False
        graph = self._fold.graph
        here = graph.types[vertex] == step.level.type and self._conditions.met(step, self._shape_of(vertex))
        return here or self._is_above(step, graph.parents[vertex])

    @cached_property
    def _unusable(self) -> list[tuple[Step, list[int], bool]]:
        """The limited steps, each with its mixed hosts, and whether it cannot use vertices outside of hosts."""
        conditions, parents = self._conditions, self._fold.graph.parents
        outermost = [host for host in self._hosts if not self._in_host(parents[host])]
        masks = [(host, conditions.mixed(self._shape_of(host))) for host in outermost]
        loose = conditions.loose(self._shape_of(0))
        return [
            (step, [host for host, mask in masks if mask & step.bit], bool(loose & step.bit))
            for step in conditions.steps
        ]

    def _mixed(self) -> tuple[MixedHosts, ...]:
        reasons = []
        for step, hosts, loose in self._unusable:
            if hosts:
                names = map(self._fold.structure.name, hosts[:MAX_LISTED_HOSTS])
                where = Where(tuple(names), max(0, len(hosts) - MAX_LISTED_HOSTS))
                reasons.append(self._reason(step, HOST, where))
            if loose:
                reasons.append(self._reason(step, "", Where()))
        return tuple(reasons)

    def _reason(self, step: Step, inside: str, where: Where) -> MixedHosts:
        request = self._conditions.plan.request
        not_passed_on = self._conditions.not_passed_on(step)
        if not_passed_on:
            text, subsystem = ", ".join(format_requirement(each) for each in not_passed_on), not_passed_on[0].subsystem
        else:
            limits = (("hosts", request.hosts), ("not hosts", request.not_hosts), ("properties", request.properties))
            text, subsystem = ", ".join(f"{what} {','.join(names)}" for what, names in limits if names), ""
        return MixedHosts(
            group=step.path[0],
            level=level_types(request, step.path),
            type=step.level.type,
            requirement=text,
            subsystem=subsystem,
            inside=inside,
            where=where,
        )

    def barred(self) -> dict[int, frozenset[int]]:
        """Return by step's number the vertices of its type that it cannot use because their host is mixed."""
        structure, found = self._fold.structure, {}
        for step, hosts, loose in self._unusable:
            vertices = {i for host in hosts for i in structure.inside(host, step.level.type)}
            if loose:
                vertices.update(i for i in structure.of_type(step.level.type) if not self._lies_with_host(i))
            if vertices:
                found[step.number] = frozenset(vertices)
        return found
