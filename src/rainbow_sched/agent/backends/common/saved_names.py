"""Names that the agent keeps on disk: nodes that were reported as not up, and tags of finished jobs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path

from rainbow_sched.agent.backends.local.wrapper import write_whole
from rainbow_sched.model.graph import Mark

MAX_TAGS = 20_000  # tags; bounds the size of the file


class MarkedNodes:
    """Nodes that were once reported as not up.

    Only for these is `up` reported, so that a mark that an operator set in Rainbow on another node is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()
        with contextlib.suppress(FileNotFoundError, ValueError):
            self._names = set(json.loads(path.read_text()))

    def report(self, not_up: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
        """Return the marks to report of the known nodes: those not up, and `up` for others that were marked before."""
        marks = {name: not_up.get(name, str(Mark.UP)) for name in known if name in not_up or name in self._names}
        if not self._names.issuperset(marks):
            self._names.update(marks)
            write_whole(self._path, sorted(self._names))
        return marks


class FinishedTags:
    """Tags of finished jobs that the manager still lists, in a file of bounded size, oldest first."""

    def __init__(self, path: Path, max_tags: int = MAX_TAGS) -> None:
        self._path, self._max_tags = path, max_tags
        self._tags: dict[str, None] = {}  # oldest first

    def read(self) -> None:
        """Read the tags of an earlier process."""
        try:
            self._tags = dict.fromkeys(self._path.read_text().split())
        except FileNotFoundError:
            return
        self._truncate()

    def __contains__(self, tag: str) -> bool:
        return tag in self._tags

    def add(self, tag: str) -> None:
        """Add a tag. If a crash loses it, the job is reported once more."""
        if tag not in self._tags:
            self._tags[tag] = None
            with self._path.open("a") as file:
                file.write(f"{tag}\n")
            self._truncate()

    def _truncate(self) -> None:
        if len(self._tags) > 2 * self._max_tags:
            self._tags = dict.fromkeys(islice(self._tags, len(self._tags) - self._max_tags, None))
            self._path.write_text("".join(f"{tag}\n" for tag in self._tags))
