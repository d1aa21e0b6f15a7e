"""Open the database that a URL names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rainbow.model.errors import Invalid
from rainbow.store.base import Store


async def open_store(url: str) -> Store:
    """The store at `sqlite:///FILE` or `postgresql://...`, brought to this program's schema.

    Invalid: the URL, the folder or a permission is wrong. Unavailable: another server has the
    file, or the database cannot be reached. Conflict: a newer program made the database.
    """
    return await asyncio.get_running_loop().run_in_executor(None, _open, url)


def _open(url: str) -> Store:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) < 2:
            raise Invalid("a SQLite database is written sqlite:///FILE (sqlite:////PATH for an absolute path)")
        from rainbow.store.sqlite import open_sqlite

        return open_sqlite(Path(unquote(rest[1:])).absolute())
    if scheme in ("postgresql", "postgres"):
        from rainbow.store.postgres import open_postgres  # not everybody has the driver

        return open_postgres(url)
    known = urlsplit(url).scheme if "://" in url else url[:40]
    raise Invalid(f"{known!r} is not a database this program knows: use sqlite:///FILE or postgresql://USER@HOST/NAME")
