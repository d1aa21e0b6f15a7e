"""What the server was told that the cluster is, by digest, kept in the state directory: only a change is told again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rainbow_sched.agent.setup.options import keep
from rainbow_sched.discovery.finder import Found
from rainbow_sched.graphs.formats.jgf.writer import subsystem_to_jgf, to_jgf

GRAPH_FILE, TOLD_FILE = "graph.json", "told.json"


@dataclass(frozen=True, slots=True)
class Told:
    """The graph and the subsystems that were found here and sent, each by digest."""

    graph: str = ""
    subsystems: Mapping[str, str] = field(default_factory=dict)

    def with_subsystem(self, name: str, digest: str) -> Told:
        """The same with one more; an empty digest: with one less."""
        kept = {**self.subsystems, name: digest}
        return replace(self, subsystems={one: value for one, value in kept.items() if value})


@dataclass(frozen=True, slots=True)
class Texts:
    """A cluster as it is sent."""

    graph: str
    subsystems: Mapping[str, str]

    def told(self) -> Told:
        """What the server has been told once all of it is sent."""
        return Told(digest(self.graph), {name: digest(text) for name, text in self.subsystems.items()})


def texts(found: Found) -> Texts:
    """What was found, as JGF."""
    return Texts(to_jgf(found.graph), {one.name: subsystem_to_jgf(one) for one in found.subsystems})


def digest(text: str) -> str:
    """Equal for equal texts only."""
    return hashlib.sha256(text.encode()).hexdigest()


class ToldFile:
    """Where it is kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self) -> Told | None:
        """What was told, or None if nothing was found and sent from here; a damaged file counts as "all is new"."""
        with contextlib.suppress(FileNotFoundError):
            try:
                return Told(**json.loads((self._directory / TOLD_FILE).read_text()))
            except (ValueError, TypeError):
                return Told()
        return None

    def keep_graph(self, text: str) -> None:
        """Keep the graph itself: the next start runs jobs within it. Before the server is told, lest it be lost."""
        keep(self._directory, GRAPH_FILE, text)

    def write(self, told: Told) -> None:
        """Note what the server has by now."""
        keep(self._directory, TOLD_FILE, json.dumps(asdict(told)))
