"""What every group of verbs stands on: a session, interned texts, and the JSON of small values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TypeVar

from rainbow.model.errors import Corrupt, NotFound
from rainbow.store.session import Session

T = TypeVar("T")
LASTING = 10_000  # texts whose ids are remembered
LOOKUPS = 500  # values per IN list; both databases take thousands


class Table:
    """Verbs on one session."""

    def __init__(self, db: Session) -> None:
        self.db = db

    def cluster_id(self, name: str) -> int | None:
        """The id of the live cluster of that name."""
        row = self.db.row("cluster_id", name=name)
        return None if row is None else int(row[0])

    def cluster_ids(self, names: Iterable[str]) -> dict[str, int]:
        """The ids of live clusters; NotFound if one is missing."""
        wanted = sorted(set(names))
        found: dict[str, int] = {}
        for part in batches(wanted):
            found.update((name, id) for name, id in self.db.rows("cluster_ids", names=part))
        for name in wanted:
            if name not in found:
                raise NotFound(f"no cluster is named {name!r}; see the list of clusters")
        return found

    def intern(self, texts: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Keep each text once: its id and its check number."""
        digests = {text: hashlib.sha256(encoded(text)).digest() for text in dict.fromkeys(texts)}
        lasting = self.db.lasting_texts
        known = {digest: lasting[digest] for digest in digests.values() if digest in lasting}
        for part in batches([digest for digest in digests.values() if digest not in known]):
            for digest, id in self.db.rows("texts_by_digest", digests=part):
                known[bytes(digest)] = id
                if id <= self.db.committed("text"):
                    self._remember(bytes(digest), id)
        fresh = [(text, digest) for text, digest in digests.items() if digest not in known]
        if fresh:
            first = self.db.take("text", len(fresh))
            self.db.change_many(
                "add_texts", [(id, digest, encoded(text)) for id, (text, digest) in enumerate(fresh, first)]
            )
            known.update((digest, id) for id, (_, digest) in enumerate(fresh, first))
        return {text: (known[digest], check_number(digest)) for text, digest in digests.items()}

    def _remember(self, digest: bytes, id: int) -> None:
        """Texts are never taken away: what is committed need not be looked up again."""
        if len(self.db.lasting_texts) >= LASTING:
            self.db.lasting_texts.clear()
        self.db.lasting_texts[digest] = id


def encoded(text: str) -> bytes:
    """A text as it is kept, byte for byte."""
    return text.encode("utf-8", "surrogatepass")


def decoded(body: bytes) -> str:
    """The text that `encoded` kept; what is damaged stays visible instead of failing."""
    try:
        return bytes(body).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return bytes(body).decode("utf-8", "backslashreplace")


def check_number(digest: bytes) -> int:
    """The part of a digest that is kept beside a reference to the text."""
    return int.from_bytes(digest[:8], "big", signed=True)


def intact(digest: bytes | None, body: bytes | None) -> bool:
    """True if `body` is what was hashed when it was written."""
    return digest is not None and body is not None and hashlib.sha256(body).digest() == bytes(digest)


def checked(digest: bytes | None, body: bytes | None, what: str) -> bytes:
    """`body` if it is intact; raise Corrupt if not."""
    if body is None or not intact(digest, body):
        raise Corrupt(f"{what} does not hash to what was written; it is not used: restore it from a backup")
    return bytes(body)


def batches(items: list[T]) -> Iterable[list[T]]:
    """`items` in parts short enough for one IN list."""
    return (items[i : i + LOOKUPS] for i in range(0, len(items), LOOKUPS))


def to_json(value: Mapping[str, object] | tuple[str, ...]) -> str:
    """A small value as text."""
    return json.dumps(value, separators=(",", ":"))
