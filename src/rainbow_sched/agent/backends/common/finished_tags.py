"""Tags of jobs that are over and told, though their manager still lists them. Kept on disk, the oldest go first."""

from __future__ import annotations

from collections.abc import KeysView
from itertools import islice
from pathlib import Path

KEPT = 20_000


class Tombstones:
    """The tags; the file has them in the order they were laid down."""

    def __init__(self, path: Path, kept: int = KEPT) -> None:
        self._path, self._kept = path, kept
        self._tags: dict[str, None] = {}  # the oldest first

    @property
    def tags(self) -> KeysView[str]:
        """All of them."""
        return self._tags.keys()

    def read(self) -> None:
        """Take over what an earlier agent left."""
        try:
            self._tags = dict.fromkeys(self._path.read_text().split())
        except FileNotFoundError:
            return
        self._cut_if_long()

    def __contains__(self, tag: str) -> bool:
        return tag in self._tags

    def add(self, tag: str) -> None:
        """Lay one down. Losing it in a crash is harmless: the job is then told once more."""
        if tag not in self._tags:
            self._tags[tag] = None
            with self._path.open("a") as file:
                file.write(f"{tag}\n")
            self._cut_if_long()

    def _cut_if_long(self) -> None:
        if len(self._tags) > 2 * self._kept:
            self._tags = dict.fromkeys(islice(self._tags, len(self._tags) - self._kept, None))
            self._path.write_text("".join(f"{tag}\n" for tag in self._tags))
