"""Open a store by its URL."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rainbow_sched.model.errors import Invalid
from rainbow_sched.store.base import Store
from rainbow_sched.store.claim import Claim, Claimant
from rainbow_sched.store.engine import SqlStore
from rainbow_sched.store.processes import ProcessIdentity


async def open_store(url: str) -> Store:
    """Open the store at `sqlite:///FILE` or `postgresql://...` and migrate it to the current schema.

    Invalid: the URL, the folder or a permission is wrong. Unavailable: another server has the file open, or the
    database cannot be reached. Conflict: a newer version made the database.
    """
    return await asyncio.get_running_loop().run_in_executor(None, _open, url, None)


async def open_claimed(url: str) -> tuple[Store, Claim]:
    """Open the store and take the claim, which allows one server per database.

    ClaimTaken: another server still serves it after `claim.WAIT_SECONDS`. Closing the store releases the claim.
    """
    loop = asyncio.get_running_loop()
    claimant = Claimant(secrets.token_hex(8), ProcessIdentity.here())
    store = await loop.run_in_executor(None, _open, url, claimant)
    assert store.claim is not None
    store.claim.start(loop)
    return store, store.claim


def _open(url: str, claimant: Claimant | None) -> SqlStore:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) < 2:
            raise Invalid("a SQLite URL has the form sqlite:///FILE (sqlite:////PATH for an absolute path)")
        from rainbow_sched.store.sqlite import open_sqlite

        return open_sqlite(Path(unquote(rest[1:])).absolute(), claimant)
    if scheme in ("postgresql", "postgres"):
        from rainbow_sched.store.postgres import open_postgres  # the driver is optional

        return open_postgres(url, claimant)
    known = urlsplit(url).scheme if "://" in url else url[:40]
    raise Invalid(f"{known!r} is not a supported database: use sqlite:///FILE or postgresql://USER@HOST/NAME")
