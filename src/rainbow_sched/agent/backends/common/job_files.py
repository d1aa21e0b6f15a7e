"""Files of a job: write scripts, read output."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a private file."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)


def script(path: Path, text: str) -> list[str]:
    """Write a script and return its command: by its interpreter line, or else the shell."""
    write(path, text, mode=0o700)
    return [str(path)] if text.startswith("#!") else ["/bin/sh", str(path)]


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def piece(path: Path, offset: int, limit: int) -> bytes:
    """Return a piece of output; empty if there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""
