"""Which clusters one explanation serves: equal graphs, all free, whose subsystems say the same to the request."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from rainbow.model.request import Request, Requirement
from rainbow.scheduler.explain_scene import Scene
from rainbow.scheduler.fold_facts import Fact, Facts


class Alike:
    """Tells clusters apart only by what an explanation of one request can mention."""

    def __init__(self, request: Request, facts: Facts) -> None:
        self._facts = facts
        self._named = bool(request.hosts or request.not_hosts)
        self._asked = [*request.requires, *(each for level in request.walk() for each in level.requires)]
        self._fields: dict[str, set[str] | None] = {}  # by subsystem; None: all of a fact matters
        for requirement in self._asked:
            self._note(requirement)
        self._said: dict[int, Hashable] = {}
        self._met: dict[int, Hashable] = {}

    def _note(self, requirement: Requirement) -> None:
        known = self._fields.setdefault(requirement.subsystem, set())
        if requirement.below or known is None:
            self._fields[requirement.subsystem] = None
        else:
            known.update(term.field for term in requirement.terms)

    def key(self, scene: Scene, *, fits: bool) -> Hashable | None:
        """Equal for clusters with equal explanations; None if the cluster is a case of its own.

        Where the request fits, it matters what is met; where it does not, which values are there.
        """
        if self._named or scene.now is not scene.ever:
            return None
        fold = scene.fold
        present = tuple(known.name for known in fold.subsystems if known.name in self._fields)
        if not self._fields:
            return fold.structure, (), ()
        says = self._meets if fits else self._says
        return fold.structure, present, tuple((vertex, says(cls)) for vertex, cls in fold.hung_classes())

    def _meets(self, cls: int) -> Hashable:
        """Which requirements a class of facts meets."""
        known = self._met.get(cls)
        if known is None:
            known = self._met[cls] = tuple(self._facts.holds(asked, cls) for asked in self._asked)
        return known

    def _says(self, cls: int) -> Hashable:
        """What a class of facts says to the request."""
        known = self._said.get(cls)
        if known is None:
            facts = (self._facts.facts[number] for number in self._facts.classes[cls])
            known = self._said[cls] = frozenset(self._of(facts))
        return known

    def _of(self, facts: Iterable[Fact]) -> Iterable[Hashable]:
        for fact in facts:
            if fact.subsystem in self._fields:
                fields = self._fields[fact.subsystem]
                if fields is None:
                    yield fact.number
                else:  # as text, because Python holds 1, 1.0 and True for equal
                    yield fact.subsystem, *(repr(fact.fields.get(field)) for field in sorted(fields))
