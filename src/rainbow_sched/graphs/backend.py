"""The interface of graph backends, which store the clusters' graphs and match requests with them, and their table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, cast

from rainbow_sched.installation import missing
from rainbow_sched.model.binding import Binding, GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid, NotFound, Unsupported
from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.match import Explanation, Matches
from rainbow_sched.model.prepared_request import PreparedRequest

GROUP = "rainbow.graphs"
# Name -> "module:class". The module is imported when the backend is chosen, not before.
BACKENDS: Mapping[str, str] = {
    "memory": "rainbow_sched.graphs.memory:MemoryBackend",
    "cypher": "rainbow_sched.graphs.cypher.backend:CypherBackend",
}


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


def names() -> tuple[str, ...]:
    """Return the names of all built-in and installed backends."""
    return tuple(sorted({*BACKENDS, *(entry.name for entry in entry_points(group=GROUP))}))


def load(name: str) -> Callable[..., GraphBackend]:
    """Return the class of the backend `name`; raise `NotFound` or `Unsupported`."""
    target = BACKENDS.get(name)  # looking through all that is installed takes milliseconds
    if target is None:
        installed = {entry.name: entry.value for entry in entry_points(group=GROUP)}
        if name not in installed:
            raise NotFound(f"there is no graph backend {name!r}{did_you_mean(name, {**BACKENDS, **installed})}")
        target = installed[name]
    module, _, attribute = target.partition(":")
    try:
        return cast("Callable[..., GraphBackend]", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and name in BACKENDS:
            raise missing(error.name or "a package", "server", f"the graph backend {name!r}") from error
        raise Unsupported(f"the graph backend {name!r} does not load: {error}") from error


def open_backend(name: str, options: Mapping[str, str] | None = None) -> GraphBackend:
    """Create the backend `name` with its options."""
    made = load(name)
    try:
        return made(**(options or {}))
    except TypeError as error:
        raise Invalid(f"the graph backend {name!r} does not take these options: {error}") from None
