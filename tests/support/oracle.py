"""The slow, obvious answer to "does this request fit?": tries every choice of vertices, one after the other.

Written from the semantics alone; it shares no code with the matcher. Good for graphs of some ten
vertices. `fits` gives None when even that would take too long.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.request import Equals, Level, Request, Requirement, Runs

BYTES = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


class TooLong(Exception):
    pass


class World:
    """One cluster as objects: what is where, what is free, who owns what."""

    def __init__(self, graph: Graph, subsystems=(), marks=None, used=None, now=True, rules=None):
        self.graph = graph
        self.rules = rules  # what the manager can be told; None: nodes are not enforced
        self.kids = graph.children()
        self.number = {id: i for i, id in enumerate(graph.ids)}
        self.subsystems = list(subsystems)
        size = len(graph)
        self.free = list(graph.sizes)
        self.dark = [False] * size
        self.used = [False] * size  # something of this very vertex is used by others
        self.spent = [0] * size  # units this request took here
        self.owner: list[object] = [None] * size
        if now:
            for id, mark in (marks or {}).items():
                if mark is not Mark.UP:
                    for i in self.inside(self.number[id]):
                        self.dark[i] = True
            for id, units in (used or {}).items():
                i = self.number[id]
                if not units:
                    continue
                if self.kids[i]:
                    for j in self.inside(i):
                        self.free[j], self.used[j] = 0, True
                else:
                    self.free[i], self.used[i] = min(self.free[i], graph.sizes[i] - units), True
            for i in range(size):
                if self.dark[i]:
                    self.free[i] = 0

    def inside(self, i):
        """The vertex and everything in it."""
        yield i
        for kid in self.kids[i]:
            yield from self.inside(kid)

    def path(self, i):
        while i >= 0:
            yield i
            i = self.graph.parents[i]

    def speaks_for(self, sub: Subsystem, s: int, v: int) -> bool:
        """Does the subsystem's vertex s, or one above it, hang on v or above v?"""
        above = {self.graph.ids[i] for i in self.path(v)}
        while s >= 0:
            if above & set(sub.hangs_on[s]):
                return True
            s = sub.parents[s]
        return False

    def meets(self, requirement: Requirement, v: int) -> bool:
        return any(
            sub.name == requirement.subsystem and self.speaks_for(sub, s, v) and self.satisfied(requirement, sub, s)
            for sub in self.subsystems
            for s in range(len(sub.vertices))
        )

    def satisfied(self, requirement, sub, s) -> bool:
        vertex = sub.vertices[s]
        for term in requirement.terms:
            value = vertex.metadata.get(term.field, getattr(vertex, term.field, None))
            if value is None or not holds(term, value):
                return False
        return all(
            inner.subsystem == sub.name
            and any(self.satisfied(inner, sub, t) for t in range(len(sub.vertices)) if t != s and below(sub, t, s))
            for inner in requirement.below
        )

    def usable(self, request: Request, i: int) -> bool:
        names = {self.graph.names[j] or self.graph.ids[j] for j in self.path(i)}
        carried = {p for j in self.path(i) for p in self.graph.metadata.get(j, {}).get("properties", ())}
        return (
            (not request.hosts or bool(names & set(request.hosts)))
            and not names & set(request.not_hosts)
            and all(p[1:] not in carried if p[0] == "^" else p in carried for p in request.properties)
        )

    # --- what a manager cannot be told ---

    def untold(self, level: Level) -> list[Requirement]:
        return [r for r in level.requires if not told_in_words(self.rules, r)]

    def limited(self, request: Request, level: Level) -> bool:
        named = request.hosts or request.not_hosts or request.properties
        return bool(self.untold(level) or (named and not level.inside))

    def good(self, request: Request, level: Level, v: int) -> bool:
        """Would a manager that takes this vertex for the level do right, as far as it is told nothing?"""
        if not all(self.meets(asked, v) for asked in self.untold(level)):
            return False
        if level.inside:
            return True
        barred = [p for p in request.properties if p[0] == "^"]
        around = {self.graph.names[j] or self.graph.ids[j] for j in self.path(v)}
        return self.usable(request, v) and all(
            self.usable(replace(request, properties=tuple(barred), hosts=()), i)
            and (not request.hosts or around & set(request.hosts) or self.usable(replace(request, properties=()), i))
            for i in self.inside(v)
        )

    def host_of(self, v: int) -> int | None:
        """The outermost host strictly above."""
        above = [i for i in self.path(v) if i != v and self.graph.types[i] == "node"]
        return above[-1] if above else None

    def at_or_above_a_host(self, v: int) -> bool:
        return any(self.graph.types[i] == "node" for i in self.inside(v))

    def among(self, v: int) -> list[int]:
        """The vertices of the same type among which a manager chooses, if it is told the host of this one."""
        host = self.host_of(v)
        alike = [i for i, type in enumerate(self.graph.types) if type == self.graph.types[v]]
        if host is not None:
            return [i for i in alike if self.host_of(i) == host]
        return [i for i in alike if self.host_of(i) is None and not self.at_or_above_a_host(i)]

    def can_be_told(self, request: Request, level: Level, v: int) -> bool:
        """False for a vertex of a mixed host: neither it nor its neighbours can be used by the level."""
        if self.rules is None or not self.limited(request, level):
            return True
        if self.graph.types[v] == "node" or (self.host_of(v) is None and self.at_or_above_a_host(v)):
            return True
        return len({self.good(request, level, i) for i in self.among(v)}) == 1

    def hosts_of(self, request: Request, level: Level, chain: tuple[Level, ...] = ()) -> list[set[int]]:
        """For each part of a level's tree that lies in hosts, the hosts that a manager may use for it."""
        nodes = [i for i, type in enumerate(self.graph.types) if type == "node"]
        here = [each for each in level.walk() if each is not level]

        def asks(each: Level) -> bool:
            return self.limited(request, each) or bool(each.requires)

        def right(each: Level, i: int) -> bool:
            return self.good(request, each, i) and all(self.meets(asked, i) for asked in each.requires)

        def above(each: Level, h: int, own: bool) -> bool:
            return any(self.graph.types[i] == each.type and right(each, i) for i in self.path(h) if own or i != h)

        def all_inside(each: Level, h: int) -> bool:
            """All that a manager could take which knows only names: of these one has to be there."""
            found = [i for i in self.inside(h) if i != h and self.graph.types[i] == each.type]
            return all(self.good(request, each, i) for i in found) and any(right(each, i) for i in found)

        if level.type == "node" and not self.stands_in(level):
            return [
                {
                    h
                    for h in nodes
                    if all(above(each, h, False) for each in chain if asks(each))
                    and (not asks(level) or right(level, h))
                    and all(all_inside(each, h) for each in here if asks(each))
                }
            ]
        if any(each.type == "node" and not self.stands_in(each) for each in level.walk()):
            return [part for inner in level.inside for part in self.hosts_of(request, inner, (*chain, level))]

        def near_hosts(each: Level) -> bool:
            alike = [i for i, type in enumerate(self.graph.types) if type == each.type]
            return any(self.host_of(i) is not None or self.at_or_above_a_host(i) for i in alike)

        if not any(near_hosts(each) for each in level.walk() if not each.inside):
            return []
        asked = [each for each in (*chain, *level.walk()) if asks(each) and near_hosts(each)]
        return [{h for h in nodes if all(above(each, h, True) or all_inside(each, h) for each in asked)}]

    def stands_in(self, level: Level) -> bool:
        """Is the level an abstraction that this graph lacks, so that the vertex above stands for it?"""
        return bool(level.inside) and level.abstract and level.type not in self.graph.types and not level.requires


def told_in_words(rules, requirement: Requirement) -> bool:
    return (
        requirement.subsystem in rules.subsystems
        and all(isinstance(term, Equals) for term in requirement.terms)
        and requirement.below == ()
        and {term.field for term in requirement.terms} <= {"name", "model", "feature", "partition"}
    )


def below(sub: Subsystem, t: int, s: int) -> bool:
    while t >= 0:
        if t == s:
            return True
        t = sub.parents[t]
    return False


def holds(term, value) -> bool:
    if isinstance(term, Equals):
        return str(term.value) == str(value)
    if isinstance(term, Runs):
        return value == term.target
    return (term.min is None or int(value) >= int(term.min)) and (term.max is None or int(value) <= int(term.max))


class Oracle:
    def __init__(self, world: World, request: Request, steps: int):
        self.world, self.request, self.steps = world, request, steps
        self.next = 0

    def solve(self, goals) -> bool:
        """Goals are (level, anchor, chain of choices above, how many are left, where to look next)."""
        self.steps -= 1
        if self.steps < 0:
            raise TooLong
        if not goals:
            return True
        (level, anchor, chain, left, start, places), rest = goals[0], goals[1:]
        if left <= 0:
            return self.solve(rest)
        if not level.inside:
            return self.take(level, anchor, chain, left, start, places, rest)
        if places is None:
            places = self.places(level, anchor)
        for at in range(start, len(places)):
            v = places[at]
            self.next += 1
            me = self.next
            if level.exclusive:
                if self.busy(v, chain) or not self.mine(v, chain):
                    continue
                self.world.owner[v], before = me, self.world.owner[v]
            again = (level, anchor, chain, left - 1, at if level.shared or self.stands_in(level) else at + 1, places)
            inner = [(kid, v, (*chain, me), kid.count.min, 0, None) for kid in level.inside]
            # All of this choice's own demands come first, so that an exclusive vertex is filled before others look.
            if self.solve([*inner, again, *rest]):
                return True
            if level.exclusive:
                self.world.owner[v] = before
        return False

    def places(self, level: Level, anchor: int):
        world = self.world
        if self.stands_in(level):
            return [max(anchor, 0)]
        found = world.inside(0) if anchor < 0 else (i for i in world.inside(anchor) if i != anchor)
        return sorted(
            i
            for i in found
            if world.graph.types[i] == level.type
            and all(world.meets(asked, i) for asked in level.requires)
            and world.can_be_told(self.request, level, i)
        )

    def stands_in(self, level: Level) -> bool:
        return self.world.stands_in(level)

    def busy(self, v: int, chain) -> bool:
        """Does anybody but the choices above use something inside?"""
        world = self.world
        return any(
            world.used[i] or world.spent[i] or (world.owner[i] is not None and world.owner[i] not in chain)
            for i in world.inside(v)
        )

    def mine(self, v: int, chain) -> bool:
        return all(self.world.owner[i] is None or self.world.owner[i] in chain for i in self.world.path(v))

    def take(self, level, anchor, chain, left, start, places, rest) -> bool:
        """Takes units, vertex after vertex; of each all amounts are tried. `left` is in bytes if the level says so."""
        world = self.world
        if places is None:
            places = [
                i
                for i in self.places(level, anchor)
                if world.usable(self.request, i) and self.scale(level, i) is not None
            ]
            left = left * BYTES.get(level.unit, 1)
        for at in range(start, len(places)):
            v = places[at]
            if not self.mine(v, chain):
                continue
            scale = self.scale(level, v)
            if world.kids[v]:
                yes = self.whole(level, anchor, chain, left, at, places, rest, scale)
            else:
                yes = self.some(level, anchor, chain, left, at, places, rest, scale)
            if yes:
                return True
        return False

    def scale(self, level, v):
        """How much one unit of the vertex counts for the level; None: it does not count."""
        unit = self.world.graph.units[v]
        if not level.unit:
            return 1
        return BYTES.get(unit) if level.unit in BYTES else (1 if unit == level.unit else None)

    def whole(self, level, anchor, chain, left, at, places, rest, scale) -> bool:
        world, v = self.world, places[at]
        every = list(world.inside(v))
        if self.busy(v, chain) or any(world.dark[i] or not world.usable(self.request, i) for i in every):
            return False
        for i in every:
            world.spent[i] += 1
        world.owner[v] = object()
        after = (level, anchor, chain, left - world.graph.sizes[v] * scale, at + 1, places)
        if self.solve([after, *rest]):
            return True
        for i in every:
            world.spent[i] -= 1
        world.owner[v] = None
        return False

    def some(self, level, anchor, chain, left, at, places, rest, scale) -> bool:
        world, v = self.world, places[at]
        if level.exclusive and self.busy(v, chain):
            return False
        fine = BYTES.get(world.graph.units[v], 1)  # a vertex's units are spent in bytes, if it has bytes
        worth = fine // scale
        most = min(left, (world.free[v] * fine - world.spent[v]) // worth)
        for units in range(most, 0, -gcd(left, scale, most)):
            before = world.owner[v]
            world.spent[v] += units * worth
            if level.exclusive:
                world.owner[v] = object()
            if self.solve([(level, anchor, chain, left - units, at + 1, places), *rest]):
                return True
            world.spent[v] -= units * worth
            world.owner[v] = before
        return False


def binding(graph, request, subsystems=(), rules=None) -> dict[int, list[set[str]]]:
    """By group: for each of its parts that lie in hosts the names of the hosts on which it may run."""
    world = World(graph, subsystems, rules=rules)
    found: dict[int, list[set[str]]] = {}
    for number, group in enumerate(request.groups):
        parts = [part for level in group.levels for part in world.hosts_of(request, level)]
        if parts:
            found[number] = [{graph.names[h] or graph.ids[h] for h in part} for part in parts]
    return found


def fits(graph, request, subsystems=(), marks=None, used=None, now=True, steps=20_000, rules=None) -> bool | None:
    """Does the request fit? None: trying everything would take too long. `rules`: what the manager can be told."""
    world = World(graph, subsystems, marks, used, now, rules)
    if not all(world.meets(asked, 0) for asked in request.requires):
        return False
    goals = [(level, -1, (), level.count.min, 0, None) for group in request.groups for level in group.levels]
    try:
        return Oracle(world, request, steps).solve(goals)
    except TooLong:
        return None
