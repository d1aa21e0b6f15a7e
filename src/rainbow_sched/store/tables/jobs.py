"""Queries on single jobs and their state transitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from rainbow_sched.model.errors import Conflict, NotFound
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobEvent, JobState, next_state
from rainbow_sched.store.records import Dependency
from rainbow_sched.store.session import Row
from rainbow_sched.store.tables.rows import JOBS, job_of, terms_text
from rainbow_sched.store.tables.table import Table, batches, to_json

_CHANGES = JOBS.without(
    "id", "owner", "name", "state", "spec", "source", "terms", "client_token", "submitted_at", "version"
)
_CHANGEABLE = {"name", "terms", *_CHANGES.columns}  # `_store_terms` stores the first two


class JobTable(Table):
    """The job queries of `base.Tx`."""

    def job(self, id: int) -> Job | None:
        rows = self.job_rows([id])
        return job_of(rows[0], check=True) if rows else None

    def jobs(self, ids: Sequence[int]) -> list[Job]:
        return sorted((job_of(row, check=True) for row in self.job_rows(ids)), key=lambda job: job.id)

    def job_rows(self, ids: Sequence[int]) -> list[Row]:
        """Return the rows of these jobs, unordered."""
        return [row for part in batches(list(ids)) for row in self.db.rows("jobs_by_ids", ids=part)]

    def jobs_by_tokens(self, owner: str, tokens: Sequence[str]) -> dict[str, Job]:
        wanted = sorted({token for token in tokens if token})
        parts = (self.db.rows("jobs_by_tokens", owner=owner, tokens=part) for part in batches(wanted))
        found = [job_of(row, check=False) for rows in parts for row in rows]
        return {job.client_token: job for job in found}

    def update_job(
        self, job: Job, event: JobEvent, at: float, *, detail: Mapping[str, object] | None = None, **changes: object
    ) -> Job:
        if unknown := changes.keys() - _CHANGEABLE:
            raise TypeError(f"a job's {', '.join(sorted(unknown))} cannot be changed")
        state = next_state(job.state, event)
        if state is not JobState.HELD:
            changes.setdefault("hold", None)
        if state.terminal and not job.ended_at:
            changes.setdefault("ended_at", at)
        new = dataclasses.replace(job, **changes, state=state, version=job.version + 1)  # type: ignore[arg-type]  # names checked above
        self._store(job, new)
        seq = self.db.allocate("event")
        self.db.change(
            "add_events",
            seq=seq,
            job=job.id,
            at=at,
            kind=event.value,
            state=state.value,
            attempt=new.attempt,
            detail=to_json(dict(detail)) if detail else "{}",
        )
        return new

    def _store(self, old: Job, new: Job) -> None:
        values = _CHANGES.dump(new)
        touched = self.db.change("update_job", id=old.id, version=old.version, state=new.state.value, **values)
        if not touched:
            if not self.job_rows([old.id]):
                raise NotFound(f"there is no job {old.id}")
            raise Conflict(f"job {old.id} has changed since it was read; read it again")
        if new.terms != old.terms or new.name != old.name:
            self._store_terms(new)
        elif new.state is not old.state and new.terms.labels:
            self.db.change("move_labels", job=new.id, state=new.state.value)

    def _store_terms(self, job: Job) -> None:
        terms = job.terms
        self.db.change(
            "update_terms",
            id=job.id,
            name=job.name,
            terms=terms_text(terms),
            start_after=terms.start_after,
            deadline=terms.deadline,
        )
        self.db.change("update_priority", job=job.id, priority=terms.priority)
        self.db.change("drop_labels", job=job.id)
        self.db.change_many(
            "add_labels", [(key, value, job.id, job.state.value) for key, value in terms.labels.items()]
        )

    def due_jobs(self, now: float, limit: int) -> list[Job]:
        due = self.db.rows("ids_past_deadline", now=now, limit=limit) + self.db.rows(
            "ids_to_start", now=now, limit=limit
        )
        ids = list(dict.fromkeys(id for (id,) in due))[:limit]
        return sorted((job_of(row, check=False) for row in self.job_rows(ids)), key=lambda job: job.id)

    def dependencies(self, job_id: int) -> list[Dependency]:
        return [Dependency(kind, job) for kind, job in self.db.rows("dependencies", job=job_id)]

    def waiters(self, job_id: int, after: int, limit: int) -> list[int]:
        return [job for (job,) in self.db.rows("waiters", job=job_id, after=after, limit=limit)]

    def add_unsettled(self, jobs: Iterable[tuple[int, int]]) -> None:
        self.db.change_many("add_unsettled", list(jobs))

    def take_unsettled(self) -> list[tuple[int, int]]:
        taken = [(job, after) for job, after in self.db.rows("unsettled")]
        if taken:
            self.db.change("drop_unsettled")
        return taken
