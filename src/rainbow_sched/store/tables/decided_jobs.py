"""Many queued jobs brought where a decision sends them, in a few statements: the path of every batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rainbow_sched.model.errors import Conflict, Invalid
from rainbow_sched.model.job import Job, JobEvent, JobState, next_state
from rainbow_sched.store.records import DecidedJob
from rainbow_sched.store.tables.table import Table

_UPDATED = JobEvent.UPDATED.value


class DecidedJobTable(Table):
    """See `base.JobVerbs.apply_decisions`."""

    def apply_decisions(self, settled: Sequence[DecidedJob], at: float) -> None:
        if not settled:
            return
        states = [_state(one) for one in settled]
        clusters = self.cluster_ids({one.cluster for one in settled if one.cluster})
        texts = self.intern(one.decision.fleet for one in settled)
        attempts = [self._attempt(one) for one in settled]
        moved = self.db.change_many(
            "apply_decisions", [_job_row(one, n, at) for one, n in zip(settled, attempts, strict=True)]
        )
        if moved != len(settled):
            raise Conflict(f"{len(settled) - moved} of {len(settled)} jobs have moved on since they were read")
        offers = [
            (one.job.id, n, clusters[one.cluster], one.cluster, one.token, one.job.terms.priority, at)
            for one, n in zip(settled, attempts, strict=True)
            if one.cluster
        ]
        self.db.take("attempt", len(offers))
        seq = self.db.take("event", len(settled))
        with self.db.together():
            self.db.change_many(
                "move_labels",
                [
                    (state.value, one.job.id)
                    for one, (_, state) in zip(settled, states, strict=True)
                    if one.job.terms.labels
                ],
            )
            self.db.change_many("add_attempts", offers)
            self.db.change_many(
                "add_decisions",
                [
                    (
                        one.job.id,
                        n if one.cluster else 0,
                        at,
                        one.decision.own,
                        texts[one.decision.fleet][0],
                    )
                    for one, n in zip(settled, attempts, strict=True)
                ],
            )
            self.db.change_many(
                "add_events",
                [
                    (seq + i, one.job.id, at, event.value, state.value, n, "{}")
                    for i, (one, n, (event, state)) in enumerate(zip(settled, attempts, states, strict=True))
                ],
            )

    def _attempt(self, one: DecidedJob) -> int:
        job = one.job
        return self.next_attempt(job.id, job.attempt) if one.cluster else job.attempt

    def add_update_events(self, jobs: Sequence[Job], at: float, detail: Mapping[str, object]) -> list[Job]:
        for job in jobs:
            next_state(job.state, JobEvent.UPDATED)
        moved = self.db.change_many("touch_jobs", [(job.id, job.version) for job in jobs])
        if moved != len(jobs):
            raise Conflict(f"{len(jobs) - moved} of {len(jobs)} jobs have moved on since they were read")
        seq, told, kind = self.db.take("event", len(jobs)), json.dumps(dict(detail), separators=(",", ":")), _UPDATED
        self.db.change_many(
            "add_events",
            [(seq + i, job.id, at, kind, job.state.value, job.attempt, told) for i, job in enumerate(jobs)],
        )
        return [replace(job, version=job.version + 1) for job in jobs]


def _state(one: DecidedJob) -> tuple[JobEvent, JobState]:
    """The event and the state after it; raise if the job may not go there."""
    if bool(one.cluster) != bool(one.token) or bool(one.cluster) == (one.hold is not None):
        raise Invalid(f"job {one.job.id} is given to a cluster, under a token, or held for something")
    event = JobEvent.BOUND if one.cluster else JobEvent.HELD
    return event, next_state(one.job.state, event)


def _job_row(one: DecidedJob, n: int, at: float) -> tuple[object, ...]:
    state = JobState.BOUND if one.cluster else JobState.HELD
    hold = None if one.hold is None else one.hold.value
    return (state.value, hold, one.cluster, n, at, one.reason, one.job.id, one.job.version)
