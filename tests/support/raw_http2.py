"""HTTP/2 by hand, for what no well-behaved client sends."""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass, field

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def _text(data: bytes) -> bytes:
    """A string literal of HPACK, not Huffman-coded."""
    if len(data) < 127:
        return bytes((len(data),)) + data
    rest, out = len(data) - 127, bytearray((127,))
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    out.append(rest)
    return bytes(out) + data


def block(headers: list[tuple[str, str]]) -> bytes:
    """A header block, every field a literal that is not kept."""
    return b"".join(b"\0" + _text(name.encode("latin-1")) + _text(value.encode("latin-1")) for name, value in headers)


def call_headers(path: str, **more: str) -> list[tuple[str, str]]:
    """The headers of a gRPC call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *((key.replace("_", "-"), value) for key, value in more.items()),
    ]


@dataclass
class Raw:
    """A connection that says exactly what it is told to."""

    port: int
    connection: socket.socket = field(init=False)
    stream: int = 1

    def __post_init__(self) -> None:
        self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.connection.sendall(PREFACE + frame(SETTINGS, 0, 0))

    def begin(self, headers: list[tuple[str, str]], *, end: bool = False) -> int:
        """Open a stream."""
        number, self.stream = self.stream, self.stream + 2
        self.connection.sendall(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), number, block(headers)))
        return number

    def message(self, stream: int, body: bytes = b"", *, compressed: int = 0, length: int | None = None) -> None:
        """One gRPC message, and the end of the stream."""
        size = len(body) if length is None else length
        self.connection.sendall(frame(DATA, END_STREAM, stream, struct.pack(">BI", compressed, size) + body))

    def answer(self, seconds: float = 5.0) -> bytes:
        """What comes back until the other side is silent or has hung up."""
        self.connection.settimeout(seconds)
        got = b""
        try:
            while data := self.connection.recv(65_536):
                got += data
                if b"grpc-status" in got:
                    break
        except TimeoutError:
            pass
        except ConnectionError:
            got += b" reset"
        return got

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


def status(answer: bytes) -> str:
    """The gRPC status in raw bytes; empty: there is none."""
    found = re.search(rb"grpc-status.{0,2}?(\d+)", answer, re.DOTALL)
    return found[1].decode() if found else ""
