"""Journal writes off the event loop: pending records are flushed in one batch, long journals are compacted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rainbow_sched.agent.core.events import RecordStored, WriteJournal
from rainbow_sched.agent.runtime.journal import Journal

log = logging.getLogger("rainbow.agent")
RETRY_SECONDS = 5.0  # seconds between retries of a failed write
_LOG_TEXTS = {
    "offer": "accepted",
    "native": "submitted",
    "adopt": "found in the manager",
    "cancel": "end requested",
    "absent": "never accepted here",
}


@dataclass(frozen=True, slots=True)
class _Compaction:
    records: list[dict[str, object]]


class JournalWriter:
    """A queue of records to write, in order."""

    def __init__(self, journal: Journal, stored: Callable[[RecordStored], None]) -> None:
        """Call `stored` for each record that is on disk."""
        self._journal, self._stored = journal, stored
        self._queue: asyncio.Queue[WriteJournal | _Compaction] = asyncio.Queue()
        self._unprocessed = 0  # records whose `stored` event the state has not processed yet
        self._compacting = False

    def write(self, command: WriteJournal) -> None:
        self._unprocessed += 1
        self._queue.put_nowait(command)

    def note_processed(self) -> None:
        """Note that the state has processed one stored record."""
        self._unprocessed -= 1

    def compact_if_long(self, records: Callable[[], list[dict[str, object]]]) -> None:
        """Replace a long journal by `records`, when the state has processed everything written."""
        if self._unprocessed == 0 and not self._compacting and self._journal.is_long:
            self._compacting = True
            self._queue.put_nowait(_Compaction(records()))

    async def run(self) -> None:
        """Write until cancelled. A failed write is retried; nothing that waits for the record happens meanwhile."""
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._write_batch(batch)
            for _ in batch:
                self._queue.task_done()

    async def _write_batch(self, batch: list[WriteJournal | _Compaction]) -> None:
        for item in batch:
            if isinstance(item, _Compaction):  # queued before the writes in this batch
                await self._retry(partial(self._journal.compact, item.records))
                self._compacting = False
        writes = [item for item in batch if isinstance(item, WriteJournal)]
        if writes:
            await self._retry(partial(self._journal.append, [write.record for write in writes]))
        for write in writes:
            _log_record(write)
            self._stored(RecordStored(write.ref, write.kind))

    async def _retry(self, work: Callable[[], None]) -> None:
        while True:
            try:
                return await asyncio.to_thread(work)
            except OSError as problem:
                log.error("cannot write the journal (%s); no jobs are started until it succeeds", problem)
                await asyncio.sleep(RETRY_SECONDS)

    async def drain(self, seconds: float) -> None:
        """Wait until everything is on disk, for at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            log.error("the last journal records could not be written")


def _log_record(write: WriteJournal) -> None:
    result = write.record.get("result")
    if write.kind == "end" and isinstance(result, dict):
        state, reason = result["state"], result["reason"]
        log.info("%s: %s%s", write.ref.tag, state, f" ({reason})" if reason not in ("", state) else "")
    elif write.kind in _LOG_TEXTS:
        log.info("%s: %s", write.ref.tag, _LOG_TEXTS[write.kind])
