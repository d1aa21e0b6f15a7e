"""Open the database that a URL names."""

from __future__ import annotations

from rainbow.model.errors import Invalid
from rainbow.store.base import Store


async def open_store(url: str) -> Store:
    """The store at `sqlite:///FILE` or `postgresql://...`, brought to this program's schema."""
    raise Invalid(f"{url.split(':')[0]!r} is not a database this program knows: use sqlite:///FILE or postgresql://...")
