"""What every group of verbs stands on: a session, interned texts, and the JSON of small values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from rainbow_sched.model.errors import Corrupt, NotFound
from rainbow_sched.store.session import Session

T = TypeVar("T")
CLUSTERS = "ids of clusters by name"  # what a session knows of them; a change of clusters forgets it
FIRST_ATTEMPT = "first_attempt"  # counter: jobs that are older than the last restore get attempts above this number
OLD_JOBS = "old_jobs"  # counter: the highest id that such a job can have
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
        known: dict[str, int] = self.db.known.setdefault(CLUSTERS, {})
        unknown = sorted({name for name in names if name not in known})
        for part in batches(unknown):
            known.update((name, id) for name, id in self.db.rows("cluster_ids", names=part))
        for name in unknown:
            if name not in known:
                raise NotFound(f"no cluster is named {name!r}; see the list of clusters")
        return known

    def next_attempt(self, job_id: int, last: int) -> int:
        """The number of a job's next attempt; after a restore, above every number that may have been given before."""
        if job_id <= self.db.counter(OLD_JOBS):
            (given,) = self.db.rows("last_attempt", job=job_id)[0]
            last = max(last, self.db.counter(FIRST_ATTEMPT), given)
        return last + 1

    def intern(self, texts: Iterable[str]) -> Mapping[str, tuple[int, int]]:
        """Keep each text once: its id and its check number."""
        lasting = self.db.lasting_texts
        wanted = dict.fromkeys(texts)
        kept = {text: lasting[text] for text in wanted if text in lasting}
        if len(kept) < len(wanted):
            kept |= self._intern([text for text in wanted if text not in kept])
        return kept

    def _intern(self, texts: Sequence[str]) -> dict[str, tuple[int, int]]:
        digests = {text: hashlib.sha256(encoded(text)).digest() for text in texts}
        known: dict[bytes, int] = {}
        for part in batches(list(digests.values())):
            known.update((bytes(digest), id) for digest, id in self.db.rows("texts_by_digest", digests=part))
        fresh = [(text, digest) for text, digest in digests.items() if digest not in known]
        if fresh:
            first = self.db.take("text", len(fresh))
            self.db.change_many(
                "add_texts", [(id, digest, encoded(text)) for id, (text, digest) in enumerate(fresh, first)]
            )
            known.update((digest, id) for id, (_, digest) in enumerate(fresh, first))
        kept = {text: (known[digest], check_number(digest)) for text, digest in digests.items()}
        for text, (id, check) in kept.items():
            if id <= self.db.committed("text"):
                self.db.lasting_texts.remember(text, id, check)
        return kept


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
