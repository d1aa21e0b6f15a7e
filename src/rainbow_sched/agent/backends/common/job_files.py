"""What every backend does with the files of a job: write a script, measure output, read a piece of it."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that is nobody else's to read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)


def script(path: Path, text: str) -> list[str]:
    """Write a script; how to run it: by its interpreter line, or without one by the shell."""
    write(path, text, mode=0o700)
    return [str(path)] if text.startswith("#!") else ["/bin/sh", str(path)]


def size(path: Path) -> int:
    """Bytes of output so far."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def piece(path: Path, offset: int, limit: int) -> bytes:
    """A piece of output; nothing where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""
