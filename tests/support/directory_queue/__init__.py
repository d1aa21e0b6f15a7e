"""A small batch system, and a backend for it that shows what a new manager gives to `BatchBackend`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

PROGRAM = Path(__file__).with_name("dirq")


class DirectoryQueue:
    """An instance of the batch system."""

    def __init__(self, home: Path, nodes: Mapping[str, int]) -> None:
        self.home = home
        home.mkdir(parents=True)
        (home / "nodes.json").write_text(json.dumps(dict(nodes)))

    def stop(self) -> None:
        """Nothing answers any more; jobs continue."""
        (self.home / "nodes.json").rename(self.home / "stopped.json")

    def start(self) -> None:
        """Answer again."""
        (self.home / "stopped.json").rename(self.home / "nodes.json")
