"""The base class of all tables: a session, cluster ids, and texts stored once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from rainbow_sched.model.errors import Corrupt, NotFound
from rainbow_sched.store.named_sql import Value
from rainbow_sched.store.session import Row, Session

T = TypeVar("T")
KNOWN_CLUSTERS = "ids and rules of clusters by name"  # key in the session's cache; a change of either deletes it
FIRST_ATTEMPT = "first_attempt"  # counter: jobs from before the last restore get attempts above this number
OLD_JOBS = "old_jobs"  # counter: the highest id that such a job can have
_ENCODER = json.JSONEncoder(separators=(",", ":"))
MAX_VALUES_PER_LIST = 500  # of an IN list; both databases accept thousands


class Table:
    def __init__(self, db: Session) -> None:
        self.db = db

    def cluster_id(self, name: str) -> int | None:
        """Return the id of the live cluster of that name."""
        row = self.db.row("cluster_id", name=name)
        return None if row is None else int(row[0])

    def rows_of_cluster(self, query: str, cluster: str, **values: Value) -> list[Row]:
        """Return the rows of a query about the live cluster of that name; none if there is no such cluster."""
        id = self.cluster_id(cluster)
        return [] if id is None else self.db.rows(query, cluster_id=id, **values)

    def cluster_ids(self, names: Collection[str]) -> dict[str, int]:
        """Return the ids of live clusters; raise NotFound if one is missing."""
        known = self.live_clusters(names)
        return {name: known[name][0] for name in names}

    def live_clusters(self, names: Collection[str]) -> Mapping[str, tuple[int, Mapping[str, object]]]:
        """Return ids and rules of at least these live clusters; raise NotFound if one is missing."""
        known: dict[str, tuple[int, Mapping[str, object]]] = self.db.cache.setdefault(KNOWN_CLUSTERS, {})
        unknown = sorted(name for name in names if name not in known)
        for part in batches(unknown):
            known.update(
                (name, (id, json.loads(rules))) for name, id, rules in self.db.rows("live_clusters", names=part)
            )
        for name in unknown:
            if name not in known:
                raise NotFound(f"no cluster is named {name!r}; see the list of clusters")
        return known

    def next_attempt(self, job_id: int, last: int) -> int:
        """Return the number of a job's next attempt; after a restore, above every number that may have been used."""
        if job_id <= self.db.counter(OLD_JOBS):
            (given,) = self.db.rows("last_attempt", job=job_id)[0]
            last = max(last, self.db.counter(FIRST_ATTEMPT), given)
        return last + 1

    def intern(self, texts: Iterable[str]) -> Mapping[str, tuple[int, int]]:
        """Store each text once; return the id and check number of each."""
        cache = self.db.text_ids
        wanted = dict.fromkeys(texts)
        ids = {text: cache[text] for text in wanted if text in cache}
        if len(ids) < len(wanted):
            ids |= self._intern([text for text in wanted if text not in ids])
        return ids

    def _intern(self, texts: Sequence[str]) -> dict[str, tuple[int, int]]:
        digests = {text: hashlib.sha256(encoded(text)).digest() for text in texts}
        known: dict[bytes, int] = {}
        for part in batches(list(digests.values())):
            known.update((bytes(digest), id) for digest, id in self.db.rows("texts_by_digest", digests=part))
        fresh = [(text, digest) for text, digest in digests.items() if digest not in known]
        if fresh:
            first = self.db.allocate("text", len(fresh))
            self.db.change_many(
                "add_texts", [(id, digest, encoded(text)) for id, (text, digest) in enumerate(fresh, first)]
            )
            known.update((digest, id) for id, (_, digest) in enumerate(fresh, first))
        ids = {text: (known[digest], check_number(digest)) for text, digest in digests.items()}
        for text, (id, check) in ids.items():
            if id <= self.db.committed("text"):
                self.db.text_ids.remember(text, id, check)
        return ids


def encoded(text: str) -> bytes:
    """Encode a text for storage; unpaired surrogates survive."""
    return text.encode("utf-8", "surrogatepass")


def decoded(body: bytes) -> str:
    """Decode a stored text; damaged bytes are shown as escapes instead of failing."""
    try:
        return bytes(body).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return bytes(body).decode("utf-8", "backslashreplace")


def check_number(digest: bytes) -> int:
    """Return the part of a digest that is stored with each reference to the text."""
    return int.from_bytes(digest[:8], "big", signed=True)


def intact(digest: bytes | None, body: bytes | None) -> bool:
    """Return True if `body` has the digest that was stored with it."""
    return digest is not None and body is not None and hashlib.sha256(body).digest() == bytes(digest)


def checked(digest: bytes | None, body: bytes | None, what: str) -> bytes:
    """Return `body`; raise Corrupt if its digest does not match."""
    if body is None or not intact(digest, body):
        raise Corrupt(f"{what} is damaged: its hash does not match; restore it from a backup")
    return bytes(body)


def batches(items: list[T]) -> Iterable[list[T]]:
    """Split `items` into parts for one IN list each."""
    return (items[i : i + MAX_VALUES_PER_LIST] for i in range(0, len(items), MAX_VALUES_PER_LIST))


def to_json(value: Mapping[str, object] | tuple[object, ...]) -> str:
    return _ENCODER.encode(value)
