"""The interface of graph backends: store the clusters' graphs and match requests with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rainbow_sched.model.binding import Binding, GroupHosts, NodeRules
from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.match import Explanation, Matches
from rainbow_sched.model.prepared_request import PreparedRequest


@dataclass(frozen=True, slots=True)
class TypeTotal:
    """The number, total size and free size of the vertices of a type."""

    vertices: int
    size: int
    free: int
    unit: str = ""  # of `size` and `free`: bytes for memory, else the graph's own


@dataclass(frozen=True, slots=True)
class Summary:
    """A cluster's totals per type, its subsystems, and its version."""

    cluster: str
    totals: Mapping[str, TypeTotal] = field(default_factory=dict)
    subsystems: tuple[str, ...] = ()
    version: int = 0


class GraphBackend(Protocol):
    """The plugin interface. Unknown clusters and vertices raise `NotFound`."""

    @property
    def version(self) -> int:
        """Return the version; every change of any cluster increases it."""

    def clusters(self) -> tuple[str, ...]:
        """Return the names of all clusters, sorted."""

    def put(self, cluster: str, graph: Graph) -> None:
        """Add a cluster or replace its graph; this deletes marks, use, placements and subsystems of the old graph."""

    def put_subsystem(self, cluster: str, subsystem: Subsystem) -> None:
        """Add a subsystem or replace the one with its name."""

    def drop_subsystem(self, cluster: str, name: str) -> None:
        """Remove a subsystem with all its vertices."""

    def remove(self, cluster: str) -> None:
        """Remove a cluster and all its data."""

    def mark(self, cluster: str, marks: Mapping[str, Mark]) -> None:
        """Mark vertices (by id) and everything below them as down, drained or up."""

    def use(self, cluster: str, used: Mapping[str, int]) -> None:
        """Replace the manager's report of used units by vertex id; a used vertex with children is used whole."""

    def place(self, cluster: str, key: str, request: PreparedRequest, hosts: Sequence[str] = ()) -> bool:
        """Subtract a placed job from *now*; return False if only a part of it fits. Equal input takes equal vertices.

        `hosts`: where its manager runs it, regardless of its requirements; unknown names are ignored.
        """

    def release(self, cluster: str, key: str) -> None:
        """Undo `place` for `key`; ignore an unknown key."""

    def set_node_rules(self, cluster: str, rules: NodeRules | None) -> None:
        """Set the cluster's node rules, which remain when its graph is replaced.

        With rules, a request cannot use the inside of a host of which only some parts meet it, unless the manager is
        told the requirement itself. None (the initial value): nodes are not enforced, and all can be used.
        """

    def binding(self, cluster: str, request: PreparedRequest) -> Binding:
        """Return the hosts that the request may run on, by the whole graph; unbound without node rules."""

    def concrete_hosts(self, cluster: str, request: PreparedRequest, key: str = "") -> tuple[GroupHosts, ...]:
        """Return the hosts of one complete placement within the binding, by group; empty if none is found.

        The job placed under `key` is ignored. Without node rules the result is empty.
        """

    def match(self, request: PreparedRequest, clusters: Collection[str] | None = None) -> Matches:
        """Return which of the clusters (None: all) the request fits now, later or never."""

    def explain(self, request: PreparedRequest, clusters: Collection[str] | None = None) -> list[Explanation]:
        """Match with reasons, smallest changes and met requirements; slower than `match`."""

    def summary(self, cluster: str) -> Summary:
        """Return the cluster's summary."""
