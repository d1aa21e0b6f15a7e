"""Digests of the graph and subsystems that the agent has registered, kept in its state directory."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rainbow_sched.agent.setup.options import keep
from rainbow_sched.discovery.finder import DiscoveredCluster
from rainbow_sched.graphs.formats.jgf.writer import subsystem_to_jgf, to_jgf

GRAPH_FILE, TOLD_FILE = "graph.json", "told.json"


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """Digests of the registered graph and subsystems."""

    graph: str = ""
    subsystems: Mapping[str, str] = field(default_factory=dict)

    def with_subsystem(self, name: str, digest: str) -> RegisteredState:
        """Return a copy with one subsystem set, or removed for an empty digest."""
        kept = {**self.subsystems, name: digest}
        return replace(self, subsystems={one: value for one, value in kept.items() if value})


@dataclass(frozen=True, slots=True)
class ClusterDocuments:
    """A cluster's graph and subsystems as JGF."""

    graph: str
    subsystems: Mapping[str, str]

    def told(self) -> RegisteredState:
        return RegisteredState(digest(self.graph), {name: digest(text) for name, text in self.subsystems.items()})


def texts(found: DiscoveredCluster) -> ClusterDocuments:
    return ClusterDocuments(to_jgf(found.graph), {one.name: subsystem_to_jgf(one) for one in found.subsystems})


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class RegisteredStateFile:
    """The registered state on disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self) -> RegisteredState | None:
        """Return the stored state; None if this agent has registered nothing, empty if the file is damaged."""
        with contextlib.suppress(FileNotFoundError):
            try:
                return RegisteredState(**json.loads((self._directory / TOLD_FILE).read_text()))
            except (ValueError, TypeError):
                return RegisteredState()
        return None

    def keep_graph(self, text: str) -> None:
        """Store the graph, in which the next start runs jobs. Called before the server has it."""
        keep(self._directory, GRAPH_FILE, text)

    def write(self, told: RegisteredState) -> None:
        keep(self._directory, TOLD_FILE, json.dumps(asdict(told)))
