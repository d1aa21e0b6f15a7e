"""Old finished jobs and everything that is known of them, removed in small steps."""

from __future__ import annotations

from collections.abc import Sequence

from rainbow_sched.store.tables.table import LOOKUPS, Table

_ORDER = (  # a job goes last: the others refer to it
    "remove_labels",
    "remove_waits",
    "remove_awaited",
    "remove_commands",
    "remove_output",
    "remove_decisions",
    "remove_events",
    "remove_attempts",
    "remove_jobs",
)


class RetentionTable(Table):
    """See `base.RetentionVerbs`."""

    def remove_finished(self, before: float, limit: int) -> int:
        ids = [id for (id,) in self.db.rows("ids_to_remove", before=before, limit=min(limit, LOOKUPS))]
        if not ids:
            return 0
        for owner, seq in self.db.rows("last_events", ids=ids):
            self.db.change("raise_horizon", owner=owner, seq=seq)
        for query in _ORDER:
            self.db.change(query, ids=ids)
        return len(ids)

    def count_finished(self) -> int:
        return int(self.db.rows("count_finished")[0][0])

    def horizon(self, owners: Sequence[str] | None = None) -> int:
        if owners is None:
            return int(self.db.rows("horizon")[0][0])
        return int(self.db.rows("horizon_of", owners=list(owners))[0][0]) if owners else 0
