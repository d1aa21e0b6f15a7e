"""Bulk queries for a server start: all waiting jobs and live attempts, a million in seconds."""

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
    """The queries of `base.Tx` for a server start."""

    def queued_ids(self, limit: int, after: int = 0) -> list[int]:
        return [id for (id,) in self.db.rows("ids_queued", limit=limit, after=after)]

    def waiting(self, hold: Hold, limit: int, after: int = 0) -> list[WaitingJob]:
        rows = self.db.rows("waiting", hold=hold.value, limit=limit, after=after)
        specs = self._specs(spec for _, spec, _, _, _ in rows)
        jobs = []
        for id, spec, _, terms, owner in rows:
            priority, shared = _shared_terms(terms)
            jobs.append(WaitingJob(id, priority, specs[spec][1], shared, owner))
        return jobs

    def count_held(self, hold: Hold) -> int:
        return int(self.db.rows("count_held", hold=hold.value)[0][0])

    def placed_attempts(self, cluster: str) -> list[PlacedAttempt]:
        id = self.cluster_id(cluster)
        attempts: list[PlacedAttempt] = []
        for state in reversed(LIVE) if id is not None else ():  # running attempts before waiting ones
            rows = self.db.rows("placed_attempts", cluster_id=id, state=state.value)
            specs = self._specs(spec for _, _, _, spec, *_ in rows)
            for job, token, at, spec, check, owner, nodes in rows:
                number, text = specs[spec]
                attempts.append(PlacedAttempt(job, token, at, text if number == check else None, owner, nodes))
        return attempts

    def _specs(self, ids: Iterable[int]) -> dict[int, tuple[int | None, str]]:
        """Return stored specs by id, each with its check number, which is None for a damaged one."""
        wanted = set(ids)
        specs: dict[int, tuple[int | None, str]] = dict.fromkeys(wanted, (None, ""))
        for part in batches(sorted(wanted)):
            for id, digest, body in self.db.rows("texts_by_ids", ids=part):
                number = check_number(bytes(digest)) if intact(digest, body) else None
                specs[id] = number, decoded(body)
        return specs


@lru_cache(maxsize=8192)
def _shared_terms(text: str) -> tuple[int, Terms]:
    """Return a job's priority, and its terms without priority and labels, which arrays and sweeps share."""
    if '"labels"' not in text and '"priority"' not in text:
        return 0, terms_of(text)
    fields = json.loads(text)
    fields.pop("labels", None)
    priority = fields.pop("priority", 0)
    return priority, terms_of(json.dumps(fields))
