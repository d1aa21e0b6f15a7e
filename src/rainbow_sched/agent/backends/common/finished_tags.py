"""Tags of finished jobs that the manager still lists, in a file of bounded size."""

from __future__ import annotations

from collections.abc import KeysView
from itertools import islice
from pathlib import Path

MAX_TAGS = 20_000


class FinishedTags:
    """A set of tags; the file has them oldest first."""

    def __init__(self, path: Path, max_tags: int = MAX_TAGS) -> None:
        self._path, self._max_tags = path, max_tags
        self._tags: dict[str, None] = {}  # oldest first

    @property
    def tags(self) -> KeysView[str]:
        return self._tags.keys()

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
