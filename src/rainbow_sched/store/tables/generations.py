"""Queries on the generations of the database, and on cluster reports after a restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rainbow_sched.model.generation import SKIPPED_ATTEMPTS, Cause, Generation, HistoryMark, ids_to_skip, is_lost
from rainbow_sched.store.records import ReportState, RestoreFinding, RestoreReport
from rainbow_sched.store.tables.rows import RowFormat, choice
from rainbow_sched.store.tables.table import FIRST_ATTEMPT, OLD_JOBS, Table

GENERATIONS = RowFormat(Generation, cause=choice(Cause))
REPORTS = RowFormat(RestoreReport, state=choice(ReportState))
FINDINGS = RowFormat(RestoreFinding)
_SKIPPED_COUNTERS = ("job", "event", "command", "cluster")


class GenerationTable(Table):
    """The generation queries of `base.Tx`."""

    def generations(self) -> list[Generation]:
        return GENERATIONS.all(self.db.rows("generations"))

    def has_lost(self, mark: HistoryMark) -> bool:
        return is_lost(mark, self.generations(), self.db.counter("event"))

    def begin_generation(self, id: str, at: float) -> Generation:
        number = max((one.number for one in self.generations()), default=0) + 1
        return self._begin(id, at, Cause.START, number=number, after_event=self.db.counter("event"))

    def begin_restore(
        self, id: str, at: float, seen: Sequence[HistoryMark] = (), cause: Cause = Cause.RESTORE
    ) -> Generation:
        event = self.db.counter("event")
        last = max((one.number for one in self.generations()), default=0)
        number = max(last, *(mark.generation for mark in seen), 0) + 1
        for counter in _SKIPPED_COUNTERS:
            self.db.allocate(counter, ids_to_skip(seen, event))
        self.db.allocate(FIRST_ATTEMPT, SKIPPED_ATTEMPTS * (number - last))
        self.db.allocate(OLD_JOBS, self.db.counter("job") - self.db.counter(OLD_JOBS))
        restore = self._begin(id, at, cause, number=number, after_event=event)
        self.db.change("expect_all_reports", generation=restore.number, state=ReportState.AWAITED.value)
        self.db.change("suspend_leases")
        return restore

    def _begin(self, id: str, at: float, cause: Cause, *, number: int, after_event: int) -> Generation:
        generation = Generation(
            number=number,
            id=id,
            at=at,
            cause=cause,
            after_event=after_event,
            old_jobs=self.db.counter(OLD_JOBS) if cause.restores else 0,
        )
        self.db.change("add_generation", **GENERATIONS.dump(generation))
        self.db.begin_generation(generation.number, id)
        return generation

    def old_jobs(self) -> int:
        return self.db.counter(OLD_JOBS)

    def restore_reports(self) -> list[RestoreReport]:
        return REPORTS.all(self.db.rows("restore_reports"))

    def update_restore_report(self, cluster_id: int, state: ReportState, why: str = "") -> None:
        self.db.change("update_restore_report", cluster_id=cluster_id, state=state.value, why=why)

    def resume_leases(self, cluster_id: int, until: float) -> None:
        self.db.change("resume_leases", cluster_id=cluster_id, until=until)

    def add_finding(self, finding: RestoreFinding) -> None:
        self.db.change("add_finding", seq=self.db.allocate("finding"), **FINDINGS.dump(finding))

    def findings(self, generation: int, after: int, limit: int) -> list[tuple[int, RestoreFinding]]:
        rows = self.db.rows("findings", generation=generation, after=after, limit=limit)
        return [(seq, FINDINGS.load(finding)) for seq, *finding in rows]

    def count_findings(self, generation: int) -> Mapping[str, int]:
        return {kind: int(count) for kind, count in self.db.rows("count_findings", generation=generation)}
