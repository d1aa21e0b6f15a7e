"""Queries on events, decisions, output, the last response to each agent, and the deletion of old jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.job import Event
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store.named_sql import Value
from rainbow_sched.store.tables.rows import MAPPING, RowFormat, choice
from rainbow_sched.store.tables.table import MAX_VALUES_PER_LIST, Table, checked, decoded

_EVENT_QUERIES = {  # by whether a job and owners are given
    (False, False): "events",
    (False, True): "events_of_owners",
    (True, False): "events_of_job",
    (True, True): "events_of_job_and_owners",
}
_DELETIONS = (  # jobs last, because the other rows refer to them
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


EVENTS = RowFormat(Event, kind=choice(JobEvent), state=choice(JobState), detail=MAPPING)


class _SyncRow(NamedTuple):
    """The columns of the query `sync`."""

    epoch: str
    seq: int
    answer: bytes


class HistoryTable(Table):
    """The history queries of `base.Tx`."""

    def events(
        self, after_seq: int, limit: int, *, job: int | None = None, owners: Sequence[str] | None = None
    ) -> list[Event]:
        if owners is not None and not owners:
            return []
        query = _EVENT_QUERIES[job is not None, owners is not None]
        return EVENTS.all(self.db.rows(query, after=after_seq, limit=limit, job=job, owners=list(owners or ())))

    def last_seq(self) -> int:
        return self.db.counter("event")

    def put_decision(self, job_id: int, n: int, at: float, record: StoredDecision) -> None:
        text = self.intern([record.fleet])[record.fleet][0]
        self.db.change("add_decisions", job=job_id, n=n, at=at, own=record.own, record=text)

    def decision(self, job_id: int, n: int | None = None) -> StoredDecision | None:
        records = [record for number, _, record in self.decisions(job_id) if n in (None, number)]
        return records[-1] if records else None

    def decisions(self, job_id: int) -> list[tuple[int, float, StoredDecision]]:
        """Return every decision of a job: (attempt, time, record)."""
        return [
            (n, at, StoredDecision(own, decoded(checked(digest, body, f"decision {n} of job {job_id}"))))
            for n, at, own, digest, body in self.db.rows("decisions", job=job_id)
        ]

    def append_output(self, job_id: int, n: int, stream: str, offset: int, data: bytes, at: float) -> None:
        end = self.output_size(job_id, n, stream)
        if offset < end:  # resent, possibly in other pieces: store only the new bytes
            data, offset = data[end - offset :], end
        if data:
            self.db.change(
                "add_output", job=job_id, n=n, stream=stream, start=offset, length=len(data), data=data, at=at
            )

    def output(self, job_id: int, n: int, stream: str, offset: int, limit: int) -> bytes:
        covering = self.db.row("output_before", job=job_id, n=n, stream=stream, offset=offset)
        if covering is None or sum(covering) <= offset:
            return b""
        pieces: list[bytes] = []
        position = covering[0]
        of: dict[str, Value] = {"job": job_id, "n": n, "stream": stream}
        for start, data in self.db.rows("output_from", **of, first=covering[0], end=offset + limit):
            if start != position:
                break
            pieces.append(bytes(data))
            position += len(data)
        skip = offset - covering[0]
        return b"".join(pieces)[skip : skip + limit]

    def output_size(self, job_id: int, n: int, stream: str) -> int:
        row = self.db.row("output_end", job=job_id, n=n, stream=stream)
        return 0 if row is None else int(row[0])

    def next_output(self, job_id: int, n: int, stream: str, offset: int) -> int | None:
        covering = self.db.row("output_before", job=job_id, n=n, stream=stream, offset=offset)
        if covering is not None and sum(covering) > offset:
            return offset
        row = self.db.row("output_after", job=job_id, n=n, stream=stream, offset=offset)
        return None if row is None else int(row[0])

    def cut_output(self, job_id: int, n: int, stream: str, start: int, end: int) -> None:
        of: dict[str, Value] = {"job": job_id, "n": n, "stream": stream}
        first = self.db.row("output_before", **of, offset=start)
        low = start if first is None or sum(first) <= start else int(first[0])
        pieces = self.db.rows("output_from", **of, first=low, end=end)
        self.db.change("drop_output", **of, first=low, end=end)
        for at, data in pieces:
            if at < start:
                self._restore_output(of, at, bytes(data)[: start - at])
            if at + len(data) > end:
                self._restore_output(of, end, bytes(data)[end - at :])

    def _restore_output(self, of: dict[str, Value], start: int, data: bytes) -> None:
        self.db.change("add_output", **of, start=start, length=len(data), data=data, at=0.0)

    def stored_sync(self, cluster: str, epoch: str, seq: int) -> bytes | None:
        last = self._last_sync(self.cluster_id(cluster))
        return bytes(last.answer) if last is not None and (last.epoch, last.seq) == (epoch, seq) else None

    def store_sync(self, cluster: str, epoch: str, seq: int, answer: bytes) -> None:
        id = self.cluster_ids([cluster])[cluster]
        before = self._last_sync(id)
        if before is not None and before.epoch != epoch:
            self.db.change("add_past_epoch", cluster_id=id, epoch=before.epoch)
        self.db.change("store_sync", cluster_id=id, epoch=epoch, seq=seq, answer=answer)

    def agent_epoch(self, cluster: str) -> str | None:
        last = self._last_sync(self.cluster_id(cluster))
        return None if last is None else last.epoch

    def epoch_is_over(self, cluster: str, epoch: str) -> bool:
        return bool(self.rows_of_cluster("past_epoch", cluster, epoch=epoch))

    def _last_sync(self, cluster_id: int | None) -> _SyncRow | None:
        row = None if cluster_id is None else self.db.row("sync", cluster_id=cluster_id)
        return None if row is None else _SyncRow._make(row)

    def remove_finished(self, before: float, limit: int) -> int:
        ids = [id for (id,) in self.db.rows("ids_to_remove", before=before, limit=min(limit, MAX_VALUES_PER_LIST))]
        if not ids:
            return 0
        for owner, seq in self.db.rows("last_events", ids=ids):
            self.db.change("raise_horizon", owner=owner, seq=seq)
        for query in _DELETIONS:
            self.db.change(query, ids=ids)
        return len(ids)

    def count_finished(self) -> int:
        return int(self.db.rows("count_finished")[0][0])

    def horizon(self, owners: Sequence[str] | None = None) -> int:
        if owners is None:
            return int(self.db.rows("horizon")[0][0])
        return int(self.db.rows("horizon_of", owners=list(owners))[0][0]) if owners else 0
