"""Tags of jobs that are over and told, though their manager still lists them. Kept on disk, the oldest go first."""

from __future__ import annotations

from pathlib import Path

KEPT = 20_000


class Tombstones:
    """The tags; the file has them in the order they were laid down."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.tags: set[str] = set()

    def read(self) -> None:
        """Take over what an earlier agent left; a long file is cut."""
        try:
            lines = self._path.read_text().split()
        except FileNotFoundError:
            return
        kept = lines[-KEPT:]
        self.tags = set(kept)
        if len(lines) > 2 * KEPT:
            self._path.write_text("".join(f"{tag}\n" for tag in kept))

    def __contains__(self, tag: str) -> bool:
        return tag in self.tags

    def add(self, tag: str) -> None:
        """Lay one down. Losing it in a crash is harmless: the job is then told once more."""
        if tag not in self.tags:
            self.tags.add(tag)
            with self._path.open("a") as file:
                file.write(f"{tag}\n")
