"""Selection policies: the built-in ones and those of installed packages.

A package adds a policy with the entry point group `rainbow.policies`: a name and a factory that
builds a `Policy` from its options. `installed()` reads the entry points once per process and keeps
the error of each that fails to load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import NamedTuple

from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.selection.policies.constraint import ConstraintPolicy
from rainbow_sched.selection.policies.contract import Policy, PolicyError, PolicyFactory, Ranked, Ranking, UnknownPolicy
from rainbow_sched.selection.policies.standard_policies import (
    AtRandom,
    ByFreeSlots,
    ByPrediction,
    First,
    Least,
    Weighted,
    without_options,
)

__all__ = [
    "POLICIES",
    "Listed",
    "Policy",
    "PolicyError",
    "PolicyFactory",
    "PolicyTable",
    "Ranked",
    "Ranking",
    "UnknownPolicy",
    "built_in",
    "installed",
]

GROUP = "rainbow.policies"
MAX_CACHED_POLICIES = 256  # bounds the memory of the cache
POLICIES: Mapping[str, PolicyFactory] = MappingProxyType(
    {
        "random": without_options("random", AtRandom()),
        "first": First.from_options,
        "least": Least.from_options,
        "spread": without_options("spread", ByFreeSlots(emptiest=True)),
        "pack": without_options("pack", ByFreeSlots(emptiest=False)),
        "constraint": ConstraintPolicy.from_options,
        "start": without_options("start", ByPrediction("start")),
        "cost": without_options("cost", ByPrediction("cost")),
        "weighted": Weighted.from_options,
    }
)


class Listed(NamedTuple):
    """A policy as `rainbow plugins` shows it."""

    name: str
    origin: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The policies of one process, by name."""

    factories: Mapping[str, PolicyFactory]
    origins: Mapping[str, str] = field(default_factory=dict)  # packages of the policies that are not built in
    broken: Mapping[str, str] = field(default_factory=dict)  # name -> load error
    _built: dict[tuple[object, ...], Policy] = field(default_factory=dict, init=False, compare=False)  # built-in ones

    def build(self, name: str, options: Mapping[str, str]) -> Policy:
        """Build a policy for one decision; raise UnknownPolicy, Invalid for its options, or PolicyError.

        Built-in policies hold no state, so they are cached by their options.
        """
        key = (name, *options.items())
        policy = self._built.get(key)
        if policy is not None:
            return policy
        factory = self.factories.get(name)
        if factory is not None:
            try:
                policy = factory(options)
                if factory is POLICIES.get(name):
                    if len(self._built) >= MAX_CACHED_POLICIES:
                        self._built.clear()
                    self._built[key] = policy
                return policy
            except (RainbowError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a plugin may raise anything
                raise PolicyError(f"policy {name!r} cannot be built: {type(error).__name__}: {error}") from error
        if name in self.broken:
            raise UnknownPolicy(f"policy {name!r} is installed but does not load: {self.broken[name]}")
        raise UnknownPolicy(f"there is no policy {name!r}{did_you_mean(name, self.factories)}")

    def wants_slots(self, name: str, options: Mapping[str, str]) -> bool:
        """Return False if the policy declares that it does not use slot counts."""
        return bool(getattr(self.build(name, options), "wants_slots", True))

    def listing(self) -> list[Listed]:
        """Return every policy, sorted by name, with its origin and load error."""
        listed = [Listed(name, self.origins.get(name, "built in")) for name in self.factories]
        listed += [Listed(name, self.origins.get(name, "?"), error) for name, error in self.broken.items()]
        return sorted(listed)


def built_in() -> PolicyTable:
    """Return a table of the built-in policies alone."""
    return PolicyTable(POLICIES)


def installed(points: Iterable[EntryPoint] | None = None) -> PolicyTable:
    """Return the built-in policies and those of the entry points, by default those of installed packages."""
    factories, origins, broken = dict(POLICIES), dict[str, str](), dict[str, str]()
    if points is None:
        points = entry_points(group=GROUP)
    for point in sorted(points, key=lambda point: point.name):
        name, origin = point.name, point.dist.name if point.dist else point.value
        if name in factories:
            clash = f"{name} of {origin}"
            broken[clash] = f"the name is already used by {origins.get(name, 'a built-in policy')}"
            origins[clash] = origin
            continue
        origins[name] = origin
        try:
            factories[name] = point.load()
        except Exception as error:  # importing a plugin may raise anything
            broken[name] = f"{type(error).__name__}: {error}"
    return PolicyTable(MappingProxyType(factories), MappingProxyType(origins), MappingProxyType(broken))
