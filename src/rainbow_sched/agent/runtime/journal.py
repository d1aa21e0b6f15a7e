"""The agent's journal: a file of checked lines, safe on disk before anything happens because of them.

Each line is the CRC-32 of the rest in hex, a space, and one JSON object. A crash can cut
the last line short: such a tail was never acted upon and is cut off, and said so. A bad
line with good ones after it is damage, and the journal is refused: an agent that has
forgotten something must not guess.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from rainbow_sched.client.private_files import sync_folder
from rainbow_sched.model.errors import Conflict, Corrupt

MODE = 0o600
COMPACT_ABOVE = 8 * 1024 * 1024  # bytes


class Journal:
    """One open journal. Only one process at a time can have it."""

    def __init__(self, directory: Path, *, sync: bool = True) -> None:
        """Lock `directory`, read what is there; `sync=False` is for tests that need no disk."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = directory / "journal"
        self.truncated = 0  # bytes of a cut-off last line that were dropped
        self._sync = sync
        self._compacted = 0  # bytes after the last compaction
        self._lock = _locked(directory / "lock")
        try:
            self.fresh = not self.path.exists()
            self.records = self._read()
            self._file = self._opened()
            if not self.records:
                self.records = [{"kind": "open", "id": secrets.token_hex(8)}]
                self.append(self.records)
                sync_folder(directory)
            self.id = str(self.records[0].get("id", ""))  # tells a restarted agent from a second one
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

    def _opened(self) -> IO[bytes]:
        return os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, MODE), "wb", buffering=0)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def is_long(self) -> bool:
        """True if it has grown so much since the last compaction that another is worth its while."""
        return self.size > max(COMPACT_ABOVE, 2 * self._compacted)

    def append(self, records: Iterable[Mapping[str, object]]) -> None:
        """Write records and return when they are safe on disk; when that fails, the file is as it was."""
        data = memoryview(b"".join(map(line, records)))
        before = self.size
        try:
            while data:  # an unbuffered write may be partial
                data = data[self._file.write(data) :]
            if self._sync:
                os.fdatasync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), before)  # half a line before good ones would count as damage
            raise

    def compact(self, records: Iterable[Mapping[str, object]]) -> None:
        """Replace the whole journal by these records, in one step that a crash cannot split."""
        beside = self.path.with_suffix(".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, MODE), "wb") as file:
            file.write(line({"kind": "open", "id": self.id}))
            file.writelines(map(line, records))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
        sync_folder(self.path.parent)
        self._file.close()
        self._file = self._opened()
        self._compacted = self.size

    def close(self) -> None:
        """Let another process have it."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def line(record: Mapping[str, object]) -> bytes:
    """One record as it stands in the file."""
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def parse(data: bytes, name: str) -> tuple[list[dict[str, object]], int]:
    """The records in `data`, and how many bytes of it are good; raise Corrupt for damage before the last line."""
    records: list[dict[str, object]] = []
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        record = _record(data[at:end]) if end >= 0 else None
        if record is None:
            if end < 0 or end == len(data) - 1:
                return records, at  # the crash came in the middle of the last write
            raise Corrupt(
                f"line {len(records) + 1} of the journal {name} is damaged, with good lines after it; "
                "restore it from a backup, or move the file away: the server will then ask what the manager still "
                "knows, and count the rest as failed with outcome unknown"
            )
        records.append(record)
        at = end + 1
    return records, at


def _record(text: bytes) -> dict[str, object] | None:
    """The record in one line, or None if it does not add up."""
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


def _locked(path: Path) -> IO[bytes]:
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = file.read(32).decode(errors="replace").strip() or "unknown"
        file.close()
        raise Conflict(
            f"another agent (process {holder}) works with {path.parent}; give this one a --state-dir of its own"
        ) from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n".encode())
    file.flush()
    return file
