"""How to choose among the clusters that fit: the built-in policies, and those that others install.

A package adds a policy by the entry point group `rainbow.policies`: a name and a factory that
builds a `Policy` from its options. `installed()` reads them once, when a process starts; one
that cannot be loaded is kept with its cause, so that naming it tells why it is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import NamedTuple

from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.identity_cache import IdentityCache
from rainbow_sched.selection.policies import constraint, predicted, simple
from rainbow_sched.selection.policies.contract import Policy, PolicyError, PolicyFactory, Ranked, Ranking, UnknownPolicy

__all__ = [
    "BUILT_IN",
    "POLICIES",
    "Listed",
    "Policy",
    "PolicyError",
    "PolicyFactory",
    "PolicyTable",
    "Ranked",
    "Ranking",
    "UnknownPolicy",
    "installed",
]

GROUP = "rainbow.policies"
POLICIES: Mapping[str, PolicyFactory] = MappingProxyType(
    {
        "random": simple.AtRandom.from_options,
        "first": simple.First.from_options,
        "least": simple.Least.from_options,
        "spread": simple.spread,
        "pack": simple.pack,
        "constraint": constraint.Constraint.from_options,
        "start": predicted.Earliest.from_options,
        "cost": predicted.Cheapest.from_options,
        "weighted": predicted.Weighted.from_options,
    }
)


_built_in = IdentityCache(lambda name, options: POLICIES[name](options))


class Listed(NamedTuple):
    """One line of `rainbow plugins`."""

    name: str
    origin: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The policies that one process knows, by name."""

    factories: Mapping[str, PolicyFactory]
    origins: Mapping[str, str] = field(default_factory=dict)  # the package of each that is not built in
    broken: Mapping[str, str] = field(default_factory=dict)  # name -> why it could not be loaded
    _last: dict[str, tuple[Mapping[str, str], Policy]] = field(default_factory=dict, init=False, compare=False)

    def build(self, name: str, options: Mapping[str, str]) -> Policy:
        """A policy for one decision; raise UnknownPolicy, Invalid for its options, or PolicyFault.

        Built-in ones are kept, since they keep nothing of a decision themselves.
        """
        last = self._last.get(name)
        if last is not None and last[0] is options:  # as for most jobs
            return last[1]
        factory = self.factories.get(name)
        if factory is not None:
            try:
                if factory is not POLICIES.get(name):
                    return factory(options)
                self._last[name] = options, (built := _built_in(name, options))
                return built
            except RainbowError:
                raise
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # the edge to other people's code: whatever it raises is a typed error here
                raise PolicyError(f"policy {name!r} cannot be built: {type(error).__name__}: {error}") from error
        if name in self.broken:
            raise UnknownPolicy(f"policy {name!r} is installed, but does not load: {self.broken[name]}")
        raise UnknownPolicy(f"there is no policy {name!r}{did_you_mean(name, self.factories)}")

    def wants_slots(self, name: str, options: Mapping[str, str]) -> bool:
        """True unless the policy says that it does not look at how many slots would fit."""
        return bool(getattr(self.build(name, options), "wants_slots", True))

    def listing(self) -> list[Listed]:
        """Every policy by name, with where it comes from and, if it does not load, why."""
        found = [Listed(name, self.origins.get(name, "built in")) for name in self.factories]
        found += [Listed(name, self.origins.get(name, "?"), error) for name, error in self.broken.items()]
        return sorted(found)


BUILT_IN = PolicyTable(POLICIES)


def installed(found: Iterable[EntryPoint] | None = None) -> PolicyTable:
    """The built-in policies and those of installed packages (`found`: these entry points instead)."""
    factories, origins, broken = dict(POLICIES), dict[str, str](), dict[str, str]()
    points = entry_points(group=GROUP) if found is None else found
    for point in sorted(points, key=lambda point: point.name):
        name, origin = point.name, point.dist.name if point.dist else point.value
        if name in factories:
            clash = f"{name} of {origin}"
            broken[clash], origins[clash] = f"the name is taken by {origins.get(name, 'a built-in policy')}", origin
            continue
        origins[name] = origin
        try:
            factories[name] = point.load()
        except Exception as error:  # the edge to other people's code: whatever its import raises, the rest works
            broken[name] = f"{type(error).__name__}: {error}"
    return PolicyTable(MappingProxyType(factories), MappingProxyType(origins), MappingProxyType(broken))
