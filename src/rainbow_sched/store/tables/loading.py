"""What a server reads when it starts: every job that waits and every attempt that lives, a million in seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from rainbow_sched.model.attempt import LIVE
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.store.records import PlacedAttempt, WaitingJob
from rainbow_sched.store.tables.rows import terms_of
from rainbow_sched.store.tables.table import Table, batches, check_number, decoded, intact


class LoadingTable(Table):
    """See `base.LoadingVerbs`."""

    def queued_ids(self, limit: int, after: int = 0) -> list[int]:
        return [id for (id,) in self.db.rows("ids_queued", limit=limit, after=after)]

    def waiting(self, hold: Hold, limit: int, after: int = 0) -> list[WaitingJob]:
        rows = self.db.rows("waiting", hold=hold.value, limit=limit, after=after)
        specs = self._specs(spec for _, spec, _, _, _ in rows)
        found = []
        for id, spec, _, terms, owner in rows:
            priority, shared = _without_own(terms)
            found.append(WaitingJob(id, priority, specs[spec][1], shared, owner))
        return found

    def count_held(self, hold: Hold) -> int:
        return int(self.db.rows("count_held", hold=hold.value)[0][0])

    def placed_attempts(self, cluster: str) -> list[PlacedAttempt]:
        id = self.cluster_id(cluster)
        found: list[PlacedAttempt] = []
        for state in reversed(LIVE) if id is not None else ():  # what runs has its place before what waits
            rows = self.db.rows("placed_attempts", cluster_id=id, state=state.value)
            specs = self._specs(spec for _, _, _, spec, *_ in rows)
            for job, token, at, spec, check, owner, nodes in rows:
                number, text = specs[spec]
                found.append(PlacedAttempt(job, token, at, text if number == check else None, owner, nodes))
        return found

    def _specs(self, ids: Iterable[int]) -> dict[int, tuple[int | None, str]]:
        """Stored requests by number, each with its check number; None for one that is damaged."""
        wanted = set(ids)
        specs: dict[int, tuple[int | None, str]] = dict.fromkeys(wanted, (None, ""))
        for part in batches(sorted(wanted)):
            for id, digest, body in self.db.rows("texts_by_ids", ids=part):
                number = check_number(bytes(digest)) if intact(digest, body) else None
                specs[id] = number, decoded(body)
        return specs


@lru_cache(maxsize=8192)
def _without_own(text: str) -> tuple[int, Terms]:
    """A job's priority, and its terms without that and without labels: arrays and sweeps share the rest."""
    if '"labels"' not in text and '"priority"' not in text:
        return 0, terms_of(text)
    said = json.loads(text)
    said.pop("labels", None)
    priority = said.pop("priority", 0)
    return priority, _shared(json.dumps(said))


@lru_cache(maxsize=8192)
def _shared(text: str) -> Terms:
    return terms_of(text)
