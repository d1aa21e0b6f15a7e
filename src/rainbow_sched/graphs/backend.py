"""What a graph backend does: keep every cluster's graphs and answer which clusters a request fits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rainbow_sched.model.binding import Binding, GroupHosts, NodeRules
from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.match import Explanation, Matches
from rainbow_sched.model.request import Request


@dataclass(frozen=True, slots=True)
class TypeTotal:
    """How many vertices of a type, how much in all, and how much of that is free now."""

    vertices: int
    size: int
    free: int
    unit: str = ""  # of `size` and `free`: bytes for memory, else the graph's own


@dataclass(frozen=True, slots=True)
class Summary:
    """A cluster in numbers: totals per type, its subsystems, and how often it changed."""

    cluster: str
    totals: Mapping[str, TypeTotal] = field(default_factory=dict)
    subsystems: tuple[str, ...] = ()
    version: int = 0


class GraphBackend(Protocol):
    """The plugin point. Unknown clusters and vertices raise `NotFound`; bad graphs cannot be built."""

    @property
    def name(self) -> str:
        """The name it is chosen by in the configuration."""

    @property
    def version(self) -> int:
        """Grows with every change of any cluster."""

    def clusters(self) -> tuple[str, ...]:
        """Names of all clusters, sorted."""

    def version_of(self, cluster: str) -> int:
        """The overall version at the cluster's last change."""

    def put(self, cluster: str, graph: Graph) -> None:
        """Add a cluster or replace its graph; marks, use, places and subsystems of the old graph are forgotten."""

    def put_subsystem(self, cluster: str, subsystem: Subsystem) -> None:
        """Add a subsystem or replace the one of that name."""

    def drop_subsystem(self, cluster: str, name: str) -> None:
        """Remove a subsystem with all its vertices."""

    def remove(self, cluster: str) -> None:
        """Forget a cluster and everything about it."""

    def mark(self, cluster: str, marks: Mapping[str, Mark]) -> None:
        """Say of vertices (by id) that they are down, drained or up again; it holds for all below them."""

    def use(self, cluster: str, used: Mapping[str, int]) -> None:
        """Replace the manager's report of used units by vertex id; a used vertex with things inside is used whole."""

    def place(self, cluster: str, key: str, request: Request, hosts: Sequence[str] = ()) -> bool:
        """Take what a placed job needs out of *now*; False if only a part of it fitted. Same input, same vertices.

        `hosts`: where its manager runs it, whatever it requires; names that are no hosts of the graph are left out.
        """

    def release(self, cluster: str, key: str) -> None:
        """Give back what `place` took under `key`; an unknown key is nothing."""

    def set_node_rules(self, cluster: str, rules: NodeRules | None) -> None:
        """Say what the cluster's manager can be told about nodes; kept when its graph is replaced.

        With rules, a request cannot use what is inside a host of which only a part meets it, unless the manager is
        told the requirement itself. None (as a cluster begins): nodes are not enforced there, and all can be used.
        """

    def binding(self, cluster: str, request: Request) -> Binding:
        """Where the request may run, by the whole graph; unbound for a cluster without node rules."""

    def concrete_hosts(self, cluster: str, request: Request, key: str = "") -> tuple[GroupHosts, ...]:
        """The hosts of one placement of the whole request within its binding, group by group; empty: none was found.

        What is placed under `key` is not counted. Of a cluster without node rules: empty.
        """

    def match(self, request: Request, clusters: Collection[str] | None = None) -> Matches:
        """Which of the clusters (all, if None) the request fits now, later, never."""

    def explain(self, request: Request, clusters: Collection[str] | None = None) -> list[Explanation]:
        """The same with reasons, smallest changes and what was met where; costs more."""

    def summary(self, cluster: str) -> Summary:
        """The cluster in numbers."""
