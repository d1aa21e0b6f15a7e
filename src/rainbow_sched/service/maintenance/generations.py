"""Generations of a database, and which clusters have not reported since a restore."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.model.generation import Cause, Generation, HistoryMark, sign_mark
from rainbow_sched.model.job import Terms
from rainbow_sched.store.base import ReportState, RestoreReport, Tx

MARK_KEY = "mark.key"  # meta key of the secret that signs agents' marks


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationHistory:
    """The generation of the database, and the reports that are missing after a restore."""

    now: Generation
    key: bytes = field(repr=False)
    restore: Generation | None = None  # the newest one
    copied_at: float = 0.0  # when the newest event before that restore happened
    own_after: int | None = None  # events after this one are in no lost history
    clusters: Mapping[str, RestoreReport] = field(default_factory=dict)  # reports of that restore, by name
    reported: bool = True  # False: a cluster has reported since jobs were last released

    def signed_mark(self, last_event: int) -> str:
        """Return the mark that agents store."""
        return sign_mark(HistoryMark(self.now.number, self.now.id, last_event), self.key)

    def is_old(self, job_id: int) -> bool:
        """Return True if the job may have been handed out in a lost history."""
        return self.restore is not None and job_id <= self.restore.old_jobs

    def awaits(self, cluster: str) -> bool:
        """Return True if the cluster has not reported what it was given since the copy was made, and still may."""
        row = self.clusters.get(cluster)
        return row is not None and row.state.holds_jobs

    def waiting_for(self, terms: Terms, besides: str = "") -> list[str]:
        """Return the clusters that have not reported and may have received a job with these terms."""
        return self._among(lambda row: row.state.holds_jobs, terms, besides)

    def given_up(self, terms: Terms) -> list[str]:
        """Return the clusters that will never report and may have received a job with these terms."""
        return self._among(lambda row: row.state is ReportState.GIVEN_UP, terms, "")

    def after(self, reports: Iterable[RestoreReport]) -> GenerationHistory:
        """Return the history after these clusters have reported."""
        return replace(self, clusters={**self.clusters, **{row.cluster: row for row in reports}}, reported=False)

    def _among(self, which: Callable[[RestoreReport], bool], terms: Terms, besides: str) -> list[str]:
        rows = (row for row in self.clusters.values() if which(row) and row.cluster != besides)
        return [row.cluster for row in rows if could_place(terms, row.cluster)]


def could_place(terms: Terms, cluster: str) -> bool:
    """Return whether a job with these terms could be placed on a cluster, whatever its graph was."""
    return (
        _named(terms.only_clusters, cluster)
        and _named(terms.opened, cluster)
        and not (terms.not_clusters and _named(terms.not_clusters, cluster))
    )


def _named(patterns: Sequence[str], cluster: str) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(cluster, pattern) for pattern in patterns)


def _started_on_copy(generations: Sequence[Generation], restore: Generation | None) -> int | None:
    """Return the newest event when the server started on a copy without noticing it."""
    if restore is None or restore.cause is not Cause.NOTICED:
        return None
    starts = [one.after_event for one in generations if one.cause is Cause.START and one.number < restore.number]
    return starts[-1] if starts else None


def begin(tx: Tx, id: str, key: str, now: float) -> None:
    """Record the start of a server."""
    if tx.meta(MARK_KEY) is None:
        tx.set_meta(MARK_KEY, key)
    tx.begin_generation(id, now)


def newest_mark(tx: Tx) -> HistoryMark | None:
    """Return the newest mark of the database; None if no server has served it."""
    generations = tx.generations()
    return HistoryMark(generations[-1].number, generations[-1].id, tx.last_seq()) if generations else None


def read(tx: Tx) -> GenerationHistory:
    """Read the history from the store."""
    generations = tx.generations()
    restores = [one for one in generations if one.cause.restores]
    restore = restores[-1] if restores else None
    copied = tx.events(restore.after_event - 1, 1) if restore is not None else []
    return GenerationHistory(
        now=generations[-1],
        key=bytes.fromhex(tx.meta(MARK_KEY) or ""),
        restore=restore,
        copied_at=copied[0].at if copied else 0.0,
        own_after=_started_on_copy(generations, restore),
        clusters={row.cluster: row for row in tx.restore_reports()} if restores else {},
        reported=False,
    )
