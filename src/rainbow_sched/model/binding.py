"""Which hosts a job may run on: what was matched is where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hostlist import collapse, expand
from rainbow_sched.model.reasons import MixedHosts
from rainbow_sched.model.request import Equals, Request, Requirement

NAMING_FIELDS = frozenset({"name", "model", "feature", "partition"})  # fields by which managers name things
HOST = "node"  # the type of the vertices that managers know by name
WRONG_NODES = "wrong-nodes"  # code of a report: the manager gave other nodes than the offer allowed


@dataclass(frozen=True, slots=True)
class GroupHosts:
    """The hosts on which one group of a request may run, in the graph's order."""

    group: int  # position in `Request.groups`
    hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.group < 0:
            raise Invalid(f"a group's position is 0 or more, not {self.group}")
        if not self.hosts:
            raise Invalid(f"group {self.group} is bound to no host")

    @property
    def hostlist(self) -> str:
        """The hosts as one compressed hostlist (RFC 29); raise `Invalid` for a name that no hostlist can hold."""
        text = collapse(self.hosts)
        if text is None:
            raise Invalid(f"these hosts cannot be written as a hostlist: {', '.join(self.hosts)[:200]}")
        return text

    @classmethod
    def parse(cls, group: int, hostlist: str) -> GroupHosts:
        """Read the wire form; raise `Invalid`."""
        return cls(group, tuple(expand(hostlist)))


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What a cluster's agent can tell its manager about the nodes of a job."""

    hosts: bool = False  # jobs run only on the hosts that their offer names
    subsystems: frozenset[str] = frozenset()  # names required of these are passed on in its own words
    groups: bool = False  # groups of one job may be bound to different hosts
    one_group: str = ""  # why the manager cannot be given several groups; empty: it can, or the agent does not say
    merges: bool = False  # with `one_group`: groups whose slots are alike are run as one (`model/group_merge.py`)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        told = {"hosts": self.hosts, "subsystems": sorted(self.subsystems), "groups": self.groups}
        return {**told, "one_group": self.one_group, "merges": self.merges} if self.one_group else told

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> NodeRules:
        """From what `to_json` wrote."""
        one_group, merges = str(raw.get("one_group", "")), bool(raw.get("merges", False))
        return cls(bool(raw["hosts"]), frozenset(raw["subsystems"]), bool(raw["groups"]), one_group, merges)


def is_passed_on(requirement: Requirement, rules: NodeRules) -> bool:
    """Return True if the agent hands the names in this requirement to its manager."""
    return (
        requirement.subsystem in rules.subsystems
        and not requirement.below
        and all(isinstance(term, Equals) for term in requirement.terms)
        and any(term.field in NAMING_FIELDS for term in requirement.terms)
    )


def is_passed_on_fully(requirement: Requirement, rules: NodeRules) -> bool:
    """Return True if these names are all that is required; whatever else is required is kept by the allowed hosts."""
    return is_passed_on(requirement, rules) and all(term.field in NAMING_FIELDS for term in requirement.terms)


NO_NODE_RULES = NodeRules()  # of an agent that announces nothing: it binds no job to hosts


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a request may run in one cluster. A group without an entry may run on any host."""

    hosts: tuple[GroupHosts, ...] = ()
    uniform: bool = True  # all groups, and all parts of each, may run on the same hosts
    by_group: bool = True  # all parts of one group may run on the same hosts
    mixed: tuple[MixedHosts, ...] = ()  # hosts that are left out because the manager cannot be told what to use there
    impossible: str = ""  # why no list of hosts can stand for what is required

    @property
    def binds(self) -> bool:
        """True if the manager has to be told something that only an agent with `NodeRules.hosts` tells it."""
        return bool(self.hosts or self.mixed or self.impossible or not self.by_group)


UNBOUND = Binding()


def may_bind(request: Request) -> bool:
    """True if a request says anything that a list of hosts could have to stand for."""
    if request.hosts or request.not_hosts or request.properties:
        return True
    return any(level.requires for level in request.walk())
