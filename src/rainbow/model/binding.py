"""Which hosts a job may run on: what was matched is where it runs."""

from __future__ import annotations

from dataclasses import dataclass

from rainbow.model.errors import Invalid
from rainbow.model.hostlist import collapse, expand
from rainbow.model.request import Equals, Requirement

NAMING_FIELDS = frozenset({"name", "model", "feature", "partition"})  # fields by which managers name things


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
    subsystems: frozenset[str] = frozenset()  # requirements on these, by equality, are passed on in its own words
    groups: bool = False  # groups of one job may be bound to different hosts


def passed_on(requirement: Requirement, rules: NodeRules) -> bool:
    """Return True if the agent hands this requirement to its manager; any other is kept by the allowed hosts."""
    return (
        requirement.subsystem in rules.subsystems
        and not requirement.below
        and all(isinstance(term, Equals) for term in requirement.terms)
        and any(term.field in NAMING_FIELDS for term in requirement.terms)
    )
