"""A transaction: all tables on one session."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rainbow_sched.store.tables.access import AccessTable
from rainbow_sched.store.tables.attempts import AttemptTable
from rainbow_sched.store.tables.clusters import ClusterTable
from rainbow_sched.store.tables.generations import GenerationTable
from rainbow_sched.store.tables.history import HistoryTable
from rainbow_sched.store.tables.job_batches import JobBatchTable
from rainbow_sched.store.tables.job_lists import JobListTable


class SqlTx(
    ClusterTable,
    JobBatchTable,
    JobListTable,
    AttemptTable,
    HistoryTable,
    AccessTable,
    GenerationTable,
):
    """`base.Tx` on a SQL database."""

    def savepoint(self) -> AbstractContextManager[None]:
        return self.db.savepoint()

    def meta(self, key: str) -> str | None:
        row = self.db.row("meta", key=key)
        return None if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        self.db.change("set_meta", key=key, value=value)

    def sizes(self) -> dict[str, int]:
        return {
            "jobs": self.db.counter("job"),
            "attempts": self.db.counter("attempt"),
            "events": self.db.counter("event"),
            "audit": self.db.counter("audit"),
            "clusters": int(self.db.rows("count_clusters")[0][0]),
            "bytes": int(self.db.rows("database_bytes")[0][0]),
        }
