"""What of this machine is free, and where a request goes: first fit over the tree of its graph. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rainbow.model.graph import Graph
from rainbow.model.quantities import factor, human_bytes
from rainbow.model.request import Level, Request

IDENTIFIED = ("core", "gpu")  # units of these have numbers: cpus to bind to, devices to show


@dataclass(frozen=True, slots=True)
class Place:
    """What one job takes: units by vertex, and which cpus and gpus these are."""

    units: Mapping[int, int] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    memory: int = 0  # bytes; 0: it did not ask


NOWHERE = Place()


class Machine:
    """The leaves of a graph with what is free of each. Memory counts in bytes, all else in units of the graph."""

    def __init__(self, graph: Graph, cpus: Sequence[int] = ()) -> None:
        """`cpus`: the processors that may be used; cores are bound to them if there are enough for the graph."""
        self.graph = graph
        self._children = graph.children()
        self._scale = [(factor(unit) or 1) if unit else 1 for unit in graph.units]
        self.leaves = [i for i, below in enumerate(self._children) if not below]
        self.size = {i: graph.sizes[i] * self._scale[i] for i in self.leaves}
        self.free = dict(self.size)
        self._numbers = self._numbered(cpus)
        self._idle = {i: list(numbers) for i, numbers in self._numbers.items()}

    def _numbered(self, cpus: Sequence[int]) -> dict[int, list[int]]:
        """Which cpu or gpu numbers each leaf stands for."""
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
        """All units of a type, or the free ones. For inner vertices: how many there are, or are wholly free."""
        found = 0
        for i, kind in enumerate(self.graph.types):
            if kind != type:
                continue
            if self._children[i]:
                found += not free or self._untouched(i, self.free)
            else:
                found += (self.free if free else self.size)[i]
        return found

    def fit(self, request: Request, *, empty: bool = False) -> dict[int, int] | None:
        """Units by leaf that `request` would take of what is free (or of the empty machine); None: no room."""
        free = dict(self.size if empty else self.free)
        taken: dict[int, int] = {}
        for group in request.groups:
            for level in group.levels:
                if not self._place(level, 0, free, taken):
                    return None
        return taken

    def take(self, request: Request) -> Place | None:
        """Reserve room for `request`, or None."""
        units = self.fit(request)
        if units is None:
            return None
        chosen: dict[str, list[int]] = {kind: [] for kind in IDENTIFIED}
        for i, amount in units.items():
            kind = self.graph.types[i]
            if i in self._idle and kind in chosen:
                each = len(self._numbers[i]) // self.size[i]  # a core may be several hardware threads
                chosen[kind] += self._idle[i][: amount * each]
        memory = sum(amount for i, amount in units.items() if self.graph.types[i] == "memory")
        place = Place(units, tuple(chosen["core"]), tuple(chosen["gpu"]), memory)
        self.occupy(place)
        return place

    def occupy(self, place: Place) -> None:
        """Reserve exactly this; also for a job that an earlier agent placed, even if that is over what is there."""
        for i, amount in place.units.items():
            if i in self.free:
                self.free[i] -= amount
        gone = {"core": set(place.cpus), "gpu": set(place.gpus)}
        for i, idle in self._idle.items():
            self._idle[i] = [number for number in idle if number not in gone[self.graph.types[i]]]

    def holdings(self, place: Place) -> dict[str, int]:
        """Its units by the ids of their vertices, which mean the same in another graph of this machine."""
        return {self.graph.ids[i]: amount for i, amount in place.units.items()}

    def held(self, holdings: Mapping[str, int]) -> dict[int, int]:
        """Units by vertex; those of vertices that this graph lacks are not counted."""
        known = self.graph.positions()
        return {known[id]: amount for id, amount in holdings.items() if id in known}

    def release(self, place: Place) -> None:
        """Give back what `take` or `occupy` reserved."""
        for i, amount in place.units.items():
            if i in self.free:
                self.free[i] = min(self.size[i], self.free[i] + amount)
        back = {"core": set(place.cpus), "gpu": set(place.gpus)}
        for i, numbers in self._numbers.items():
            returned = back[self.graph.types[i]]
            self._idle[i] = [n for n in numbers if n in returned or n in self._idle[i]]

    def lacks(self, request: Request) -> str | None:
        """Why `request` could never run here, or None."""
        for level in request.walk():
            if level.type in self.graph.types or (level.abstract and level.inside and not level.requires):
                continue
            return f"{level.type}: 0 here, {level.count.min} needed"
        if self.fit(request, empty=True) is None:
            return "it does not fit on this machine even when nothing else runs: " + self.totals()
        return None

    def totals(self) -> str:
        """What there is in all, in words."""
        kinds = dict.fromkeys(self.graph.types[i] for i in self.leaves)
        parts = []
        for kind in kinds:
            scale = max(self._scale[i] for i in self.leaves if self.graph.types[i] == kind)
            amount = self.count(kind)
            parts.append(f"{kind} {human_bytes(amount)}" if scale > 1 else f"{amount} {kind}")
        return ", ".join(parts)

    # --- first fit ---

    def _below(self, top: int) -> Iterator[int]:
        """All vertices below `top`, top first."""
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
        """Take `level` below `top`; on False, `free` and `taken` are as they were."""
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
        """Take one vertex of `level`: what is asked inside it, or the whole of it."""
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
        """Take units of a leaf's type, from as many vertices as it needs."""
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


def _cpus_of(metadata: Mapping[str, object]) -> list[int]:
    """The processor numbers that discovery wrote on a core, or none."""
    cpus = metadata.get("cpus")
    return [cpu for cpu in cpus if isinstance(cpu, int)] if isinstance(cpus, list | tuple) else []
