"""Store the decisions on many queued jobs in a few statements per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rainbow_sched.model.errors import Conflict, Invalid
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobEvent, JobState, next_state
from rainbow_sched.store.records import DecidedJob
from rainbow_sched.store.tables.table import Table, to_json

_UPDATED = JobEvent.UPDATED.value


class DecidedJobTable(Table):
    """`apply_decisions` and `add_update_events` of `base.Tx`."""

    def apply_decisions(self, decided: Sequence[DecidedJob], at: float) -> None:
        if not decided:
            return
        states = [_state(one) for one in decided]
        clusters = self.cluster_ids({one.cluster for one in decided if one.cluster})
        texts = self.intern(one.decision.fleet for one in decided)
        attempts = [self._attempt(one) for one in decided]
        moved = self.db.change_many(
            "apply_decisions", [_job_row(one, n, at) for one, n in zip(decided, attempts, strict=True)]
        )
        if moved != len(decided):
            raise Conflict(f"{len(decided) - moved} of {len(decided)} jobs have changed since they were read")
        offers = [
            (one.job.id, n, clusters[one.cluster], one.cluster, one.token, one.job.terms.priority, at)
            for one, n in zip(decided, attempts, strict=True)
            if one.cluster
        ]
        self.db.allocate("attempt", len(offers))
        seq = self.db.allocate("event", len(decided))
        with self.db.pipeline():
            self.db.change_many(
                "move_labels",
                [
                    (state.value, one.job.id)
                    for one, (_, state) in zip(decided, states, strict=True)
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
                    for one, n in zip(decided, attempts, strict=True)
                ],
            )
            self.db.change_many(
                "add_events",
                [
                    (seq + i, one.job.id, at, event.value, state.value, n, "{}")
                    for i, (one, n, (event, state)) in enumerate(zip(decided, attempts, states, strict=True))
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
            raise Conflict(f"{len(jobs) - moved} of {len(jobs)} jobs have changed since they were read")
        seq, text = self.db.allocate("event", len(jobs)), to_json(dict(detail))
        self.db.change_many(
            "add_events",
            [(seq + i, job.id, at, _UPDATED, job.state.value, job.attempt, text) for i, job in enumerate(jobs)],
        )
        return [replace(job, version=job.version + 1) for job in jobs]


def _state(one: DecidedJob) -> tuple[JobEvent, JobState]:
    """Return the event and the state after it; raise an error if the transition is illegal."""
    if bool(one.cluster) != bool(one.token) or bool(one.cluster) == (one.hold is not None):
        raise Invalid(f"job {one.job.id} needs either a cluster and a token, or a hold")
    event = JobEvent.BOUND if one.cluster else JobEvent.HELD
    return event, next_state(one.job.state, event)


def _job_row(one: DecidedJob, n: int, at: float) -> tuple[object, ...]:
    state = JobState.BOUND if one.cluster else JobState.HELD
    hold = None if one.hold is None else one.hold.value
    return (state.value, hold, one.cluster, n, at, one.reason, one.job.id, one.job.version)
