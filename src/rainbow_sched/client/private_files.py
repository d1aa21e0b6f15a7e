"""Files with secrets: written atomically, and rejected if other users can read them."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from rainbow_sched.model.errors import Invalid

PRIVATE_MODE = 0o600
OTHERS = stat.S_IRWXG | stat.S_IRWXO  # permissions of the group and of all


def write_whole(path: Path, data: bytes, mode: int = PRIVATE_MODE) -> None:
    """Write a file atomically and durably; it has `mode` from its creation."""
    import tempfile  # most commands write no file

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = path.resolve()  # keep a symbolic link
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
    """Make the file names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_private(path: Path) -> None:
    """Raise Invalid if other users of this machine can read or change the file."""
    try:
        exposed = path.stat().st_mode & OTHERS
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    if exposed:
        raise Invalid(f"{path} holds a secret and others on this machine can read it; run: chmod 600 {path}")
