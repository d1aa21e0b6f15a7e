"""Print job output: without control sequences on a terminal, byte for byte elsewhere."""

from __future__ import annotations

import codecs
import sys
from typing import BinaryIO, TextIO

from rainbow_sched.cli.render.terminal import Cleaner
from rainbow_sched.client.jobs import StreamChunk


class StreamWriter:
    """Writes one stream of a job to one stream of this process."""

    def __init__(self, stream: TextIO, *, raw: bool) -> None:
        self._binary: BinaryIO = stream.buffer
        self._stream = stream
        self._cleaner = None if raw or not stream.isatty() else Cleaner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        if self._cleaner is None:
            self._binary.write(data)
            self._binary.flush()
            return
        self._stream.write(self._cleaner.feed(self._decoder.decode(data)))
        self._stream.flush()

    def finish(self) -> None:
        if self._cleaner is not None:
            self._stream.write(self._cleaner.feed(self._decoder.decode(b"", True)) + self._cleaner.finish())
            self._stream.flush()


class OutputPrinter:
    """Prints a job's stdout to stdout and its stderr to stderr."""

    def __init__(self, *, raw: bool = False) -> None:
        self._writers = {"stdout": StreamWriter(sys.stdout, raw=raw), "stderr": StreamWriter(sys.stderr, raw=raw)}

    def write(self, chunk: StreamChunk) -> None:
        self._writers.get(chunk.stream, self._writers["stdout"]).write(chunk.data)

    def finish(self) -> None:
        """Print buffered text."""
        for writer in self._writers.values():
            writer.finish()
