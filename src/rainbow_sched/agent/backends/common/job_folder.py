"""The directory of one job: output, record of the submission, start marker."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.local.wrapper import write_whole
from rainbow_sched.protocol.messages import STREAMS

STARTED, RECORD, CANCEL = "started", "record.json", "cancel"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a private file."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)


def script(path: Path, text: str) -> list[str]:
    """Write a script and return its command: by its interpreter line, or else the shell."""
    write(path, text, mode=0o700)
    return [str(path)] if text.startswith("#!") else ["/bin/sh", str(path)]


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class JobFolder:
    """The directory of one job, with its output."""

    def __init__(self, root: Path, tag: str) -> None:
        self.tag = tag
        self.path = root / tag

    def outputs(self) -> tuple[Path, Path]:
        """Return the files of stdout and stderr."""
        return self.path / STREAMS[0], self.path / STREAMS[1]

    def sizes(self) -> tuple[int, int]:
        stdout, stderr = self.outputs()
        return size(stdout), size(stderr)

    def read(self, stream: str, offset: int, limit: int) -> bytes:
        """Return a piece of output; empty if there is no file."""
        try:
            with self.outputs()[STREAMS.index(stream)].open("rb") as file:
                file.seek(offset)
                return file.read(limit)
        except FileNotFoundError:
            return b""

    def text(self, name: str) -> str | None:
        """Return the text of a file without the end of its last line; None if there is no file."""
        try:
            return (self.path / name).read_text().strip()
        except FileNotFoundError:
            return None

    def make_work(self, launch: Launch) -> str:
        """Return the job's working directory; make the one that is used if the launch names none."""
        own = self.path / "work"
        own.mkdir(mode=0o700, exist_ok=True)
        return launch.request.cwd or str(own)

    def request_end(self) -> None:
        """Note that Rainbow ended the job."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / CANCEL).touch(mode=0o600)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRecord:
    """The record of a submission, written before the manager is called and again with the job's id."""

    key: str = ""  # random per submission
    asked: float = 0.0  # seconds since the epoch
    native: str = ""  # the manager's id
    duration: float | None = None
    only: str = ""  # hostlist of allowed nodes; empty: any


RecordT = TypeVar("RecordT", bound=SubmitRecord)


class BatchFolder(JobFolder, Generic[RecordT]):
    """The directory of a job in a batch system. The agent writes the record; the rest is for nodes that see it."""

    record_type: type[RecordT]

    def create(self, record: RecordT) -> None:
        """Make the directory with the record."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.put(record)

    def put(self, record: RecordT) -> None:
        write_whole(self.path / RECORD, asdict(record))

    def record(self) -> RecordT | None:
        text = self.text(RECORD)
        return None if text is None else self.record_type(**json.loads(text))

    def recorded(self) -> RecordT:
        """Return the record, or an empty one."""
        return self.record() or self.record_type()

    def begun(self) -> str | None:
        """Return the manager's id of the job that started, or None."""
        return self.text(STARTED)

    def end_requested(self) -> bool:
        """Return True if Rainbow ended the job."""
        return (self.path / CANCEL).exists()

    def change_marker(self) -> tuple[object, ...]:
        """Return values that change when a running job writes output or ends."""
        return self.sizes()
