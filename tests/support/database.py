"""An empty database with the current schema, created once per test process and copied."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rainbow_sched.store.factory import open_store

NAME = "rainbow.db"
_made: list[bytes] = []


async def put_empty_database(folder: Path) -> None:
    """Copy one into `folder`, unless there is one; migrating each time would cost 50 ms."""
    if (folder / NAME).exists():
        return
    if not _made:
        with tempfile.TemporaryDirectory() as here:
            store = await open_store(f"sqlite:///{here}/{NAME}")
            await store.close()
            _made.append((Path(here) / NAME).read_bytes())
    (folder / NAME).touch(mode=0o600)
    (folder / NAME).write_bytes(_made[0])
