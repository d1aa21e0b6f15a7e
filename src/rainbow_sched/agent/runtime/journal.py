"""The agent's journal: checksummed records, on disk before they take effect.

Each line has the CRC-32 of the rest in hex, a space, and one JSON object. An incomplete last line is from a crash and
has had no effect; it is cut off and logged. A damaged line before complete ones is refused: an agent with gaps in its
journal cannot know which jobs it has started. Pending records are written off the event loop, in one batch.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias

from rainbow_sched.agent.core.events import RecordStored, WriteJournal
from rainbow_sched.client.private_files import sync_folder, write_whole
from rainbow_sched.model.errors import Conflict, Corrupt

log = logging.getLogger("rainbow.agent")
FILE_MODE = 0o600
COMPACT_ABOVE_BYTES = 8 * 1024 * 1024  # a longer journal is written anew without the attempts that are over
RETRY_SECONDS = 5.0  # seconds between retries of a failed write
_LOG_TEXTS = {
    "offer": "accepted",
    "native": "submitted",
    "adopt": "found in the manager",
    "cancel": "end requested",
    "absent": "never accepted here",
}


class Journal:
    """An open journal, locked by this process."""

    def __init__(self, directory: Path) -> None:
        """Lock `directory` and read the journal."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = directory / "journal"
        self.truncated = 0  # bytes cut off from an incomplete last line
        self._compacted = 0  # size after the last compaction
        self._lock = _lock_file(directory / "lock")
        try:
            self.fresh = not self.path.exists()
            self.records = self._read()
            self._file = self._open_file()
            if not self.records:
                self.records = [{"kind": "open", "id": secrets.token_hex(8)}]
                self.append(self.records)
                sync_folder(directory)
            self.id = str(self.records[0].get("id", ""))  # distinguishes a restarted agent from a second one
        except BaseException:
            self._lock.close()
            raise

    def _read(self) -> list[dict[str, object]]:
        if self.fresh:
            return []
        data = self.path.read_bytes()
        records, good = parse(data, str(self.path))
        self.truncated = len(data) - good
        if self.truncated:
            with self.path.open("r+b") as file:
                file.truncate(good)
                os.fsync(file.fileno())
        return records

    def _open_file(self) -> IO[bytes]:
        return os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE), "wb", buffering=0)

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    @property
    def is_long(self) -> bool:
        """Return True if the journal has grown enough since the last compaction."""
        return self.size > max(COMPACT_ABOVE_BYTES, 2 * self._compacted)

    def append(self, records: Iterable[Mapping[str, object]]) -> None:
        """Append records and return when they are on disk; on failure the file is unchanged."""
        append(self._file, b"".join(map(line, records)))

    def compact(self, records: Iterable[Mapping[str, object]]) -> None:
        write_whole(self.path, b"".join(map(line, [{"kind": "open", "id": self.id}, *records])))
        self._file.close()
        self._file = self._open_file()
        self._compacted = self.size

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def append(file: IO[bytes], lines: bytes) -> None:
    """Append to an unbuffered file and return when the lines are on disk; on failure the file is unchanged."""
    before, data = os.fstat(file.fileno()).st_size, memoryview(lines)
    try:
        while data:  # an unbuffered write may be partial
            data = data[file.write(data) :]
        os.fdatasync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), before)  # half a line before complete ones would count as damage
        raise


def line(record: Mapping[str, object]) -> bytes:
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def parse(data: bytes, name: str) -> tuple[list[dict[str, object]], int]:
    """Return the records in `data` and the number of valid bytes; raise Corrupt for damage before the last line."""
    records: list[dict[str, object]] = []
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        record = _record(data[at:end]) if end >= 0 else None
        if record is None:
            if end < 0 or end == len(data) - 1:
                return records, at  # the crash cut off the last write
            raise Corrupt(
                f"line {len(records) + 1} of the journal {name} is damaged, with good lines after it; "
                "restore it from a backup, or move the file away: jobs that the manager no longer knows then count as "
                "failed with outcome unknown"
            )
        records.append(record)
        at = end + 1
    return records, at


def _record(text: bytes) -> dict[str, object] | None:
    """Return the record of a line, or None if its checksum does not match."""
    if len(text) < 10 or text[8:9] != b" ":
        return None
    body = text[9:]
    try:
        if int(text[:8], 16) != zlib.crc32(body):
            return None
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _lock_file(path: Path) -> IO[bytes]:
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = file.read(32).decode(errors="replace").strip() or "unknown"
        file.close()
        raise Conflict(
            f"another agent (process {holder}) uses {path.parent}; give this one its own --state-dir"
        ) from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n".encode())
    file.flush()
    return file


Compaction: TypeAlias = list[dict[str, object]]  # the records that replace a long journal


class JournalWriter:
    """A queue of records to write, in order."""

    def __init__(self, journal: Journal, stored: Callable[[RecordStored], None]) -> None:
        """Call `stored` for each record that is on disk."""
        self._journal, self._stored = journal, stored
        self._queue: asyncio.Queue[WriteJournal | Compaction] = asyncio.Queue()
        self._unprocessed = 0  # records whose `stored` event the state has not processed yet
        self._compacting = False

    def write(self, command: WriteJournal) -> None:
        self._unprocessed += 1
        self._queue.put_nowait(command)

    def note_processed(self) -> None:
        """Note that the state has processed one stored record."""
        self._unprocessed -= 1

    def compact_if_long(self, records: Callable[[], Compaction]) -> None:
        """Replace a long journal by `records`, when the state has processed everything written."""
        if self._unprocessed == 0 and not self._compacting and self._journal.is_long:
            self._compacting = True
            self._queue.put_nowait(records())

    async def run(self) -> None:
        """Write until cancelled. A failed write is retried; nothing that waits for the record happens meanwhile."""
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._write_batch(batch)
            for _ in batch:
                self._queue.task_done()

    async def _write_batch(self, batch: list[WriteJournal | Compaction]) -> None:
        for item in batch:
            if isinstance(item, list):  # a compaction, queued before the writes in this batch
                await self._retry(partial(self._journal.compact, item))
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
