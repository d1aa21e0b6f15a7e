"""The smallest changes that would make a request fit: candidates from what is there, each one checked by matching.

Candidates come in the order in which people would rather have them: fewer of something, another
value that exists, a wider range, then dropping a wish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rainbow.model.changes import Change, Kind, Path, at, say_count, say_requirement
from rainbow.model.request import Equals, Level, Request, Requirement, Runs, Scalar, Term
from rainbow.model.versions import at_most
from rainbow.scheduler.explain_reasons import values_found
from rainbow.scheduler.explain_scene import Scene, units_inside
from rainbow.scheduler.fit import Fitter
from rainbow.scheduler.fit_plan import BYTES, Step
from rainbow.scheduler.fold_shapes import Shape

MOST_CHANGES = 4
MOST_VALUES = 6  # other values tried for one requirement
MOST_FIRST = 6  # candidates that are tried as the first of two changes

Fits = Callable[[Request], bool]


def find_changes(request: Request, scene: Scene, root: Shape, fitter: Fitter, fits: Fits) -> tuple[Change, ...]:
    """At most a few changes, each of which alone (or with its `then`) makes the request fit."""
    found: list[Change] = []
    tried: list[Change] = []
    settled: set[tuple[Path, Kind, int]] = set()
    for change in _candidates(request, scene, root, fitter):
        place = (change.path, change.kind, change.requirement)
        if place in settled:
            continue
        if _fits(fits, request, change):
            settled.add(place)
            if change.kind in (Kind.VALUE, Kind.BOUND):  # then nothing needs to be dropped
                settled.add((change.path, Kind.DROP_REQUIREMENT, change.requirement))
            found.append(change)
            if len(found) == MOST_CHANGES:
                break
        else:
            tried.append(change)
    return tuple(found) or _in_two_steps(request, scene, root, fitter, fits, tried)


def _in_two_steps(
    request: Request, scene: Scene, root: Shape, fitter: Fitter, fits: Fits, tried: list[Change]
) -> tuple[Change, ...]:
    """One pair of changes that makes it fit, if there is one among the likely ones."""
    drops = [change for change in tried if change.kind not in (Kind.COUNT, Kind.VALUE)]
    for first in drops[:MOST_FIRST]:
        changed = first.apply(request)
        after = Fitter(changed, fitter.facts)
        for second in _candidates(changed, scene, root, after):
            if _fits(fits, changed, second):
                return (_joined(first, second),)
    return ()


def _joined(first: Change, second: Change) -> Change:
    return Change(
        kind=first.kind,
        path=first.path,
        requirement=first.requirement,
        term=first.term,
        to=first.to,
        text=first.text,
        then=second,
    )


def _fits(fits: Fits, request: Request, change: Change) -> bool:
    return fits(change.apply(request))


def _candidates(request: Request, scene: Scene, root: Shape, fitter: Fitter) -> Iterator[Change]:
    plan = fitter.plan(scene.fold)
    yield from _counts(request, scene, root, fitter)
    for step in plan.steps:
        yield from _requirements(step.path, step.level.requires, scene, root, fitter, step.level.type)
    yield from _requirements((), request.requires, scene, root, fitter, "")
    for step in plan.steps:
        if step.level.exclusive:
            text = f"drop exclusive on {step.level.type}"
            yield Change(kind=Kind.DROP_EXCLUSIVE, path=step.path, text=text)
    if request.hosts:
        yield Change(kind=Kind.DROP_HOSTS, text="drop the list of hosts")
    if request.not_hosts:
        yield Change(kind=Kind.DROP_NOT_HOSTS, text="drop the list of excluded hosts")
    if request.properties:
        yield Change(kind=Kind.DROP_PROPERTIES, text=f"drop the properties {', '.join(request.properties)}")
    for step in plan.steps:
        if len(_siblings(request, step.path)) > 1:
            text = f"drop {step.level.type} {step.level.count.min}"
            yield Change(kind=Kind.DROP_LEVEL, path=step.path, text=text)


def _siblings(request: Request, path: Path) -> tuple[Level, ...]:
    return request.groups[path[0]].levels if len(path) == 2 else at(request, path[:-1]).inside


def _counts(request: Request, scene: Scene, root: Shape, fitter: Fitter) -> Iterator[Change]:
    """Fewer slots, fewer units: as many as there are, and if that is not enough, ever fewer."""
    plan = fitter.plan(scene.fold)
    if plan.missing or plan.unclear:
        return
    counter, part = fitter.view(scene.fold, root)
    for step in plan.steps:
        least = step.level.count.min
        if least == 1:
            continue
        likely = counter.total(part, step) if len(step.path) == 2 else _best_in_one(step, plan.steps, root)
        if step.leaf and step.mode == BYTES:
            likely = likely * least // step.need
        to = min(likely, least - 1)
        while to >= 1:
            yield Change(kind=Kind.COUNT, path=step.path, to=to, text=say_count(step.level, step.path, to))
            to = to // 2 if to < likely or to > 8 else to - 1


def _best_in_one(step: Step, steps: tuple[Step, ...], root: Shape) -> int:
    """The most of a leaf that lies in one vertex of the level above it; else just less than was asked."""
    if not step.leaf:
        return step.level.count.min - 1
    above = next(other for other in steps if other.path == step.path[:-1])
    known: dict[Shape, int] = {}
    best = 0
    for shape in _every(root):
        if shape.type == above.level.type:
            best = max(best, units_inside(shape, step, known))
    return best if not above.virtual else step.need - 1


def _every(root: Shape) -> Iterator[Shape]:
    seen = {root}
    stack = [root]
    while stack:
        shape = stack.pop()
        yield shape
        for kid, _ in shape.kids:
            if kid not in seen:
                seen.add(kid)
                stack.append(kid)


def _requirements(
    path: Path, asked: tuple[Requirement, ...], scene: Scene, root: Shape, fitter: Fitter, type: str
) -> Iterator[Change]:
    if not asked:
        return
    classes = frozenset(shape.cls for shape in _every(root) if not type or shape.type == type)
    if not path:
        classes = frozenset({root.cls})
    for number, requirement in enumerate(asked):
        for position, term in enumerate(requirement.terms):
            one = Requirement(requirement.subsystem, (term,))
            for value in values_found(fitter.facts, one, classes)[:MOST_VALUES]:
                change = _other(term, value, requirement)
                if change is not None:
                    kind, text = change
                    yield Change(kind=kind, path=path, requirement=number, term=position, to=value, text=text)
    for number, requirement in enumerate(asked):
        text = f"drop {say_requirement(requirement)}"
        yield Change(kind=Kind.DROP_REQUIREMENT, path=path, requirement=number, text=text)


def _other(term: Term, value: Scalar, requirement: Requirement) -> tuple[Kind, str] | None:
    about = f"{requirement.subsystem} {term.field}"
    if isinstance(term, Equals):
        return Kind.VALUE, f"{about} {value} instead of {term.value}"
    if isinstance(term, Runs):
        return Kind.VALUE, f"{about} {value} instead of {term.target}"
    if term.min is not None and not at_most(term.min, value):
        return Kind.BOUND, f"{about} >= {value} instead of {term.min}"
    if term.max is not None and not at_most(value, term.max):
        return Kind.BOUND, f"{about} <= {value} instead of {term.max}"
    return None
