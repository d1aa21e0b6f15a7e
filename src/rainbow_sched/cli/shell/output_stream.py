"""Job output to this terminal: cleaned when a person reads it, byte for byte when a program does."""

from __future__ import annotations

import codecs
import sys
from typing import BinaryIO, TextIO

from rainbow_sched.cli.render.terminal import Cleaner
from rainbow_sched.client.views import OutputChunk


class Sink:
    """One stream of a job into one stream of this process."""

    def __init__(self, stream: TextIO, *, raw: bool) -> None:
        self._binary: BinaryIO = stream.buffer
        self._stream = stream
        self._cleaner = None if raw or not stream.isatty() else Cleaner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        """Pass on what came."""
        if self._cleaner is None:
            self._binary.write(data)
            self._binary.flush()
            return
        self._stream.write(self._cleaner.feed(self._decoder.decode(data)))
        self._stream.flush()

    def finish(self) -> None:
        """Nothing more comes."""
        if self._cleaner is not None:
            self._stream.write(self._cleaner.feed(self._decoder.decode(b"", True)) + self._cleaner.finish())
            self._stream.flush()


class Printer:
    """A job's stdout to stdout, its stderr to stderr."""

    def __init__(self, *, raw: bool = False) -> None:
        self._sinks = {"stdout": Sink(sys.stdout, raw=raw), "stderr": Sink(sys.stderr, raw=raw)}

    def write(self, chunk: OutputChunk) -> None:
        """Print one piece."""
        self._sinks.get(chunk.stream, self._sinks["stdout"]).write(chunk.data)

    def finish(self) -> None:
        """Print what was kept back."""
        for sink in self._sinks.values():
            sink.finish()
