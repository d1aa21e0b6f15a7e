"""Host binding: the hosts that each group of a job may run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hostlist import collapse, expand
from rainbow_sched.model.reasons import MixedHosts
from rainbow_sched.model.request import Equals, Requirement

NAMING_FIELDS = frozenset({"name", "model", "feature", "partition"})  # fields that a manager knows by name
HOST = "node"  # vertex type that managers know by name
WRONG_NODES = "wrong-nodes"  # reason code: the manager allocated nodes that the offer did not allow


@dataclass(frozen=True, slots=True)
class GroupHosts:
    """The hosts on which one group of a request may run, in the graph's order."""

    group: int  # position in `Request.groups`
    hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.group < 0:
            raise Invalid(f"the position of a group must be 0 or more, not {self.group}")
        if not self.hosts:
            raise Invalid(f"group {self.group} has no hosts")

    @property
    def hostlist(self) -> str:
        """Return the hosts as a compressed hostlist (RFC 29); raise `Invalid` if a name cannot be written in one."""
        text = collapse(self.hosts)
        if text is None:
            raise Invalid(f"these hosts cannot be written as a hostlist: {', '.join(self.hosts)[:200]}")
        return text

    @classmethod
    def parse(cls, group: int, hostlist: str) -> GroupHosts:
        """Read a compressed hostlist; raise `Invalid`."""
        return cls(group, tuple(expand(hostlist)))


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The placement constraints that a cluster's agent can pass to its manager."""

    hosts: bool = False  # jobs run only on the hosts in their offer
    subsystems: frozenset[str] = frozenset()  # the agent passes required names of these as options of the manager
    groups: bool = False  # groups of one job may be bound to different hosts
    one_group: str = ""  # why the manager accepts only one group; empty: it accepts several, or this is unknown
    merges: bool = False  # with `one_group`: groups with equal slots run as one group (`model/group_merge.py`)

    def to_json(self) -> dict[str, Any]:
        """Return the rules as JSON values."""
        values = {"hosts": self.hosts, "subsystems": sorted(self.subsystems), "groups": self.groups}
        return {**values, "one_group": self.one_group, "merges": self.merges} if self.one_group else values

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> NodeRules:
        """Read the result of `to_json`."""
        one_group, merges = str(raw.get("one_group", "")), bool(raw.get("merges", False))
        return cls(bool(raw["hosts"]), frozenset(raw["subsystems"]), bool(raw["groups"]), one_group, merges)


def is_passed_on(requirement: Requirement, rules: NodeRules) -> bool:
    """Return True if the agent passes the names in this requirement to its manager."""
    return (
        requirement.subsystem in rules.subsystems
        and not requirement.below
        and all(isinstance(term, Equals) for term in requirement.terms)
        and any(term.field in NAMING_FIELDS for term in requirement.terms)
    )


def is_passed_on_fully(requirement: Requirement, rules: NodeRules) -> bool:
    """Return True if the agent passes all of the requirement; else the list of allowed hosts enforces the rest."""
    return is_passed_on(requirement, rules) and all(term.field in NAMING_FIELDS for term in requirement.terms)


NO_NODE_RULES = NodeRules()  # of an agent that announces none: it does not bind jobs to hosts


@dataclass(frozen=True, slots=True)
class Binding:
    """The hosts of one cluster that a request may run on. A group without an entry may run on any host."""

    hosts: tuple[GroupHosts, ...] = ()
    uniform: bool = True  # all parts of all groups may run on the same hosts
    by_group: bool = True  # all parts of one group may run on the same hosts
    mixed: tuple[MixedHosts, ...] = ()  # hosts left out because the manager cannot select the right parts of them
    impossible: str = ""  # why no list of hosts can express the requirements

    @property
    def binds(self) -> bool:
        """Return True if only an agent with `NodeRules.hosts` can enforce the binding."""
        return bool(self.hosts or self.mixed or self.impossible or not self.by_group)


UNBOUND = Binding()
