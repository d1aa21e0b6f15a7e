"""Files that hold secrets: written whole or not at all, and used only while nobody else can read them."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from rainbow_sched.model.errors import Invalid

PRIVATE = 0o600


def write_whole(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Write a file with its mode from the first moment, whole or not at all; when this returns it outlives a crash."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = path.resolve()  # a symbolic link stays one
    descriptor, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
        sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        raise


def sync_folder(path: Path) -> None:
    """Make sure that the names of a folder, as they are now, outlive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_to_others(path: Path) -> bool:
    """True if other users of the machine may read or change the file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def check_private(path: Path) -> None:
    """Refuse a secret that others on this machine can read or change."""
    try:
        exposed = open_to_others(path)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    if exposed:
        raise Invalid(f"{path} holds a secret and others on this machine can read it; run: chmod 600 {path}")
