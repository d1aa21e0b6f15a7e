"""Queries on attempts, leases and commands."""

from __future__ import annotations

import dataclasses

from rainbow_sched.model.attempt import Attempt, AttemptState, is_allowed
from rainbow_sched.model.errors import Conflict, Corrupt, NotFound
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.store.records import Command
from rainbow_sched.store.session import Row
from rainbow_sched.store.tables.jobs import JobTable
from rainbow_sched.store.tables.rows import ATTEMPTS, RowFormat, job_of

_CHANGES = ATTEMPTS.without("job", "n", "cluster", "token", "state", "created_at")
COMMANDS = RowFormat(Command)
DAMAGED = "the stored request is damaged: its hash does not match; submit the job again"


class AttemptTable(JobTable):
    """The attempt queries of `base.Tx`."""

    def add_attempt(self, job: Job, cluster: str, token: str, at: float, *, n: int | None = None) -> Attempt:
        cluster_id = self.cluster_ids([cluster])[cluster]
        n = self.next_attempt(job.id, job.attempt) if n is None else n
        if self.attempt(job.id, n) is not None:
            raise Conflict(f"job {job.id} has an attempt {n} already; read it again")
        self.db.allocate("attempt")
        self.db.change(
            "add_attempts",
            job=job.id,
            n=n,
            cluster_id=cluster_id,
            cluster=cluster,
            token=token,
            priority=job.terms.priority,
            created_at=at,
        )
        return Attempt(job=job.id, n=n, cluster=cluster, token=token, state=AttemptState.OFFERED, created_at=at)

    def attempt(self, job_id: int, n: int) -> Attempt | None:
        return ATTEMPTS.one(self.db.rows("attempt", job=job_id, n=n))

    def attempts(self, job_id: int) -> list[Attempt]:
        return ATTEMPTS.all(self.db.rows("attempts", job=job_id))

    def live_attempts(self, cluster: str) -> list[Attempt]:
        return ATTEMPTS.all(self.rows_of_cluster("live_attempts", cluster))

    def attempts_in(self, cluster: str, state: AttemptState, limit: int | None = None) -> list[Attempt]:
        query = "attempts_in" if limit is None else "some_attempts_in"
        return ATTEMPTS.all(self.rows_of_cluster(query, cluster, state=state.value, limit=limit))

    def count_live(self, cluster: str) -> dict[AttemptState, int]:
        return {AttemptState(state): int(count) for state, count in self.rows_of_cluster("count_live", cluster)}

    def update_attempt(self, attempt: Attempt, state: AttemptState, at: float, **changes: object) -> Attempt:
        if unknown := changes.keys() - _CHANGES.columns:
            raise TypeError(f"an attempt's {', '.join(sorted(unknown))} cannot be changed")
        live = state.live
        stays = live and state is attempt.state
        if not stays and not is_allowed(attempt.state, state):
            raise Conflict(f"attempt {attempt.tag} is {attempt.state} and cannot become {state}")
        if not live:
            changes.setdefault("ended_at", at)
        elif state is AttemptState.ACCEPTED and attempt.accepted_at is None:
            changes.setdefault("accepted_at", at)
        elif state is AttemptState.RUNNING and attempt.started_at is None:
            changes.setdefault("started_at", at)
        new = dataclasses.replace(attempt, **changes, state=state)  # type: ignore[arg-type]  # names checked above
        touched = self.db.change(
            "update_attempt",
            job=attempt.job,
            n=attempt.n,
            before=attempt.state.value,
            token=attempt.token,
            state=state.value,
            live=int(live),
            **_CHANGES.dump(new),
        )
        if not touched:
            raise Conflict(f"attempt {attempt.tag} has changed since it was read; read it again")
        return new

    def lease(
        self, cluster: str, limit: int, holder: str, until: float, *, now: float | None = None
    ) -> list[tuple[Attempt, Job]]:
        id = self.cluster_ids([cluster])[cluster]
        leased: list[tuple[Attempt, Job]] = []
        while len(leased) < limit:
            taken = self._take_offers(id, limit - len(leased), holder, until, now)
            rows = {row[0]: row for row in self.job_rows([attempt.job for attempt in taken])}
            for attempt in taken:
                try:
                    leased.append((attempt, job_of(rows[attempt.job], check=True)))
                except Corrupt:
                    at = attempt.created_at if now is None else now
                    self.update_attempt(attempt, AttemptState.WITHDRAWN, at, reason=DAMAGED)
                    self.update_job(job_of(rows[attempt.job], check=False), JobEvent.FAILED, at, reason=DAMAGED)
            if len(leased) == len(taken) or not taken:
                break
        return leased

    def _take_offers(self, cluster_id: int, limit: int, holder: str, until: float, now: float | None) -> list[Attempt]:
        rows: list[Row] = []
        if now is not None and now < until:
            rows = self.db.returning(
                "lease_lapsed", cluster_id=cluster_id, limit=limit, holder=holder, until=until, now=now
            )
        if len(rows) < limit:
            rows += self.db.returning(
                "lease_offered", cluster_id=cluster_id, limit=limit - len(rows), holder=holder, until=until
            )
        taken = [(-priority, ATTEMPTS.load(columns)) for priority, *columns in rows]
        taken.sort(key=lambda one: (one[0], one[1].job))
        return [attempt for _, attempt in taken]

    def was_received(self, cluster: str) -> bool:
        return bool(self.rows_of_cluster("received", cluster))

    def lapsed(self, now: float, limit: int) -> list[Attempt]:
        return ATTEMPTS.all(self.db.rows("lapsed", now=now, limit=limit))

    def add_command(self, attempt: Attempt, kind: str, at: float) -> int:
        pending = self.db.row("open_command", job=attempt.job, n=attempt.n, kind=kind)
        if pending is not None:
            (id,) = pending
            return int(id)
        id = self.db.allocate("command")
        if not self.db.change("add_command", id=id, job=attempt.job, n=attempt.n, kind=kind, at=at):
            raise NotFound(f"there is no attempt {attempt.tag}")
        return id

    def commands(self, cluster: str) -> list[Command]:
        return COMMANDS.all(self.rows_of_cluster("commands", cluster))

    def ack_command(self, id: int) -> None:
        self.db.change("ack_command", id=id)
