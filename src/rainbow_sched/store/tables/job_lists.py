"""Paged lists and counts of jobs, and all waiting jobs and live attempts for a server that starts.

Each paged list is read from one range of one index, newest first. A filter on several states or owners becomes several
ranges, each limited to the page's length, and the newest of all are returned: one range over several states would have
to be sorted.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from rainbow_sched.model.attempt import LIVE
from rainbow_sched.model.job import Hold, Job, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store.named_sql import Value
from rainbow_sched.store.records import JobSelection, PlacedAttempt, WaitingJob
from rainbow_sched.store.tables.jobs import JobTable
from rainbow_sched.store.tables.rows import job_of, terms_of
from rainbow_sched.store.tables.table import batches, check_number, decoded, intact

MAX_RANGES = 100  # more ranges than this are read as one and filtered
CLOCK_SLACK_SECONDS = 60.0  # ids increase with time, except for a clock that is set back by at most this


@dataclass(slots=True)
class _Where:
    """Named conditions and their values."""

    conditions: list[str] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)

    def also(self, condition: str, **values: Value) -> _Where:
        return _Where([*self.conditions, condition], {**self.values, **values})


class JobListTable(JobTable):
    """Lists and counts of jobs, and the bulk queries of a server start, which read a million rows in seconds."""

    def list_jobs(self, which: JobSelection, *, after: int | None = None, limit: int) -> list[Job]:
        if which.ids is not None and not which.ids:
            return []
        ids: set[int] = set()
        for where in self._ranges(which):
            ids.update(self._newest(where, which, after, limit))
        rows = self.job_rows(sorted(ids, reverse=True)[:limit])
        return sorted((job_of(row, check=False) for row in rows), key=lambda job: -job.id)

    def count_jobs(self, which: JobSelection) -> dict[JobState, int]:
        if which.ids is not None and not which.ids:
            return {}
        where = self._common(which)
        if which.states:
            where = where.also("where_states", states=sorted(s.value for s in which.states))
        if which.owners:
            where = where.also("where_owners", owners=sorted(which.owners))
        if which.labels:
            jobs: list[Job] = []
            while page := self.list_jobs(which, after=jobs[-1].id if jobs else None, limit=1000):
                jobs += page
            states = [job.state for job in jobs]
            return {state: states.count(state) for state in JobState if state in states}
        text = f"{self.db.text('count_of_jobs')} {self._and(where)} {self.db.text('by_state')}"
        return {JobState(state): count for state, count in self.db.rows_of(text, where.values)}

    def _ranges(self, which: JobSelection) -> list[_Where]:
        common = self._common(which)
        states = sorted(s.value for s in which.states)
        owners = sorted(which.owners)
        if which.labels and states and which.ids is None:
            labelled = [common.also("where_label_state", state=s) for s in states]
            return [where.also("where_owners", owners=owners) if owners else where for where in labelled]
        if which.ids is not None or which.labels or len(owners) * (len(states) or len(JobState)) > MAX_RANGES:
            where = common.also("where_states", states=states) if states else common
            return [where.also("where_owners", owners=owners) if owners else where]
        if not states and (owners or which.cluster or which.name):
            states = [s.value for s in JobState]
        by_state = [common.also("where_state", state=s) for s in states] or [common]
        if not owners:
            return by_state
        return [where.also("where_owner", owner=o) for where, o in itertools.product(by_state, owners)]

    def _common(self, which: JobSelection) -> _Where:
        where = _Where()
        if which.cluster:
            where = where.also("where_cluster_too" if which.name else "where_cluster", cluster=which.cluster)
        if which.name:
            where = where.also("where_name", name=which.name)
        if which.ids is not None:
            where = where.also("where_ids", ids=sorted(which.ids))
        if which.since is not None:
            first = self._first_id_since(which.since - CLOCK_SLACK_SECONDS)
            where = where.also("where_from", since=which.since, first=first)
        return where

    def _newest(self, where: _Where, which: JobSelection, after: int | None, limit: int) -> set[int]:
        if not which.labels:
            if after is not None:
                where = where.also("where_below", after=after)
            return self._ids("ids_of_jobs", where, "newest", limit=limit)
        labels = list(which.labels.items())
        if len(labels) == 1:
            return self._ids_labelled(where, *labels[0], after=after, limit=limit)
        matching: set[int] = set()
        while len(matching) < limit:  # the first label selects the range; the others are checked page by page
            page = self._ids_labelled(where, *labels[0], after=after, limit=max(limit, 1000))
            if not page:
                break
            after = min(page)
            jobs = (job_of(row, check=False) for row in self.job_rows(sorted(page)))
            matching |= {job.id for job in jobs if which.labels.items() <= job.terms.labels.items()}
        return matching

    def _ids_labelled(self, where: _Where, key: str, value: str, *, after: int | None, limit: int) -> set[int]:
        if after is not None:
            where = where.also("where_label_below", after=after)
        return self._ids("ids_of_labelled", where, "newest_labelled", limit=limit, label_key=key, label_value=value)

    def _ids(self, head: str, where: _Where, tail: str, **values: Value) -> set[int]:
        text = f"{self.db.text(head)} {self._and(where)} {self.db.text(tail)}"
        return {id for (id,) in self.db.rows_of(text, {**where.values, **values})}

    def _and(self, where: _Where) -> str:
        return " AND ".join(self.db.text(name) for name in where.conditions) or "1 = 1"

    def _first_id_since(self, time: float) -> int:
        """Return the lowest id submitted at `time` or later, by binary search: ids increase with time."""
        low, high = 1, self.db.counter("job") + 1
        while low < high:
            middle = (low + high) // 2
            row = self.db.row("submitted_from", id=middle)
            id, submitted_at = row or (middle, time)
            if submitted_at >= time:
                high = middle
            else:
                low = id + 1
        return low

    def queued_ids(self, limit: int, after: int = 0) -> list[int]:
        """Return ids of QUEUED jobs above id `after`, in order."""
        return [id for (id,) in self.db.rows("ids_queued", limit=limit, after=after)]

    def waiting(self, hold: Hold, limit: int, after: int = 0) -> list[WaitingJob]:
        """Return HELD jobs with this `hold` above id `after`, by id."""
        rows = self.db.rows("waiting", hold=hold.value, limit=limit, after=after)
        specs = self._specs(spec for _, spec, _, _, _ in rows)
        jobs = []
        for id, spec, _, terms, owner in rows:
            priority, shared = _shared_terms(terms)
            jobs.append(WaitingJob(id, priority, specs[spec][1], shared, owner))
        return jobs

    def count_held(self, hold: Hold) -> int:
        """Count the HELD jobs with this `hold`."""
        return int(self.db.rows("count_held", hold=hold.value)[0][0])

    def placed_attempts(self, cluster: str) -> list[PlacedAttempt]:
        """Return the live attempts of a cluster with their specs: running ones first, then in leasing order."""
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
