"""The storage format of graphs in the database: compact, hashed and deterministic.

A packed graph is four bytes of magic, the SHA-256 and the length of the content, and the
compressed content: a line of JSON that describes the blobs, and one blob per column, as indexes into a list
of distinct texts. Data that does not match its hash raises `Corrupt`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.graph import NOTHING, Graph, Subsystem, Vertex

_GRAPH, _SUBSYSTEM = b"RbG1", b"RbS1"
_HEAD = struct.Struct("<4s32sQ")
_LEVEL = 3  # columns are so regular that higher levels only cost time
_MAX_CONTENT = 2 << 30


def pack(graph: Graph) -> bytes:
    """Encode a graph."""
    head, blobs = dict[str, Any](), list[bytes]()
    _put_ids(head, blobs, graph.ids)
    for column in ("names", "types", "units"):
        _put_texts(head, blobs, column, getattr(graph, column))
    _put_numbers(head, blobs, "parents", _steps(graph.parents))
    _put_numbers(head, blobs, "sizes", graph.sizes)
    _put_numbers(head, blobs, "described", _steps(sorted(graph.metadata)))
    about = [_plain(graph.metadata[i]) for i in sorted(graph.metadata)]
    _put_texts(head, blobs, "metadata", about)
    return _seal(_GRAPH, json.dumps(head).encode() + b"\n" + b"".join(blobs))


def unpack(data: bytes) -> Graph:
    """Decode the result of `pack`; raise `Corrupt`."""
    content = _open(_GRAPH, data)
    try:
        columns = _Columns(content)
        known = [json.loads(text) for text in columns.distinct("metadata")]
        described = itertools.accumulate(columns.numbers("described"))
        return Graph(
            ids=columns.ids(),
            names=columns.texts("names"),
            types=columns.texts("types"),
            parents=array("i", itertools.accumulate(columns.numbers("parents"))),
            sizes=array("q", columns.numbers("sizes")),
            units=columns.texts("units"),
            metadata={i: known[which] for i, which in zip(described, columns.numbers("metadata"), strict=True)},
        )
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise Corrupt(f"the stored graph cannot be read: {error}") from error


def pack_subsystem(subsystem: Subsystem) -> bytes:
    """Encode a subsystem; equal lists of attached nodes are written once."""
    lists = {hosts: k for k, hosts in enumerate(dict.fromkeys(subsystem.hangs_on))}
    content = {
        "name": subsystem.name,
        "vertices": [[v.id, v.type, v.name, v.size, v.unit, dict(v.metadata)] for v in subsystem.vertices],
        "parents": subsystem.parents,
        "lists": list(lists),
        "hangs": [lists[hosts] for hosts in subsystem.hangs_on],
    }
    return _seal(_SUBSYSTEM, _plain(content).encode())


def unpack_subsystem(data: bytes) -> Subsystem:
    """Decode the result of `pack_subsystem`; raise `Corrupt`."""
    try:
        content = json.loads(_open(_SUBSYSTEM, data))
        lists = [tuple(hosts) for hosts in content["lists"]]
        return Subsystem(
            name=content["name"],
            vertices=tuple(
                Vertex(id=id, type=type, name=name, size=size, unit=unit, metadata=metadata or NOTHING)
                for id, type, name, size, unit, metadata in content["vertices"]
            ),
            parents=tuple(content["parents"]),
            hangs_on=tuple(lists[k] for k in content["hangs"]),
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Corrupt(f"the stored subsystem cannot be read: {error}") from error


def _seal(magic: bytes, content: bytes) -> bytes:
    return _HEAD.pack(magic, hashlib.sha256(content).digest(), len(content)) + zlib.compress(content, _LEVEL)


def _open(magic: bytes, data: bytes) -> bytes:
    if len(data) < _HEAD.size:
        raise Corrupt("these bytes are no packed graph")
    found, expected, length = _HEAD.unpack_from(data)
    if found != magic or length > _MAX_CONTENT:
        raise Corrupt(f"these bytes are no packed graph: they begin with {found!r} instead of {magic!r}")
    try:
        machine = zlib.decompressobj()
        content = machine.decompress(data[_HEAD.size :], length + 1)
    except zlib.error as error:
        raise Corrupt(f"the stored graph cannot be read: {error}") from error
    whole = machine.eof and not machine.unused_data and len(content) == length
    if not whole or hashlib.sha256(content).digest() != expected:
        raise Corrupt("the stored graph does not hash to what was written")
    return content


def _plain(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)


def _steps(numbers: Sequence[int]) -> Iterable[int]:
    """Return the differences of neighbours; parents and positions grow slowly, so that these compress well."""
    return itertools.chain(numbers[:1], map(operator.sub, numbers[1:], numbers[:-1]))


def _put_numbers(head: dict[str, Any], blobs: list[bytes], column: str, numbers: Iterable[int]) -> None:
    held = array("q", numbers)
    low, high = (min(held), max(held)) if held else (0, 0)
    code = next(
        code for code, bits in (("b", 7), ("h", 15), ("i", 31), ("q", 63)) if -(1 << bits) <= low and high < 1 << bits
    )
    narrow = held if code == "q" else array(code, held)
    if sys.byteorder == "big":
        narrow.byteswap()
    blobs.append(narrow.tobytes())
    head[column] = {"code": code, "bytes": len(blobs[-1])}


def _put_texts(head: dict[str, Any], blobs: list[bytes], column: str, texts: Sequence[str]) -> None:
    distinct = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    _put_numbers(head, blobs, column, map(distinct.__getitem__, texts))
    blobs.append(json.dumps(list(distinct), separators=(",", ":")).encode())
    head[column]["texts"] = len(blobs[-1])


def _put_ids(head: dict[str, Any], blobs: list[bytes], ids: Sequence[str]) -> None:
    """Write ids that are plain numbers, the common case, as numbers, and others as texts."""
    if all(map(str.isdecimal, ids)) and all(map(str.isascii, ids)) and max(map(len, ids)) < 18:
        numbers = array("q", map(int, ids))
        if list(map(str, numbers)) == list(ids):
            _put_numbers(head, blobs, "ids", _steps(numbers))
            return
    _put_texts(head, blobs, "ids", ids)


class _Columns:
    """Read the blobs of each column."""

    def __init__(self, content: bytes) -> None:
        line = content.index(b"\n")
        self._head: Mapping[str, Mapping[str, Any]] = json.loads(content[:line])
        self._parts: dict[str, tuple[memoryview, memoryview]] = {}
        at, view = line + 1, memoryview(content)
        for column, about in self._head.items():
            middle = at + about["bytes"]
            end = middle + about.get("texts", 0)
            self._parts[column] = (view[at:middle], view[middle:end])
            at = end

    def numbers(self, column: str) -> array[int]:
        found = array(self._head[column]["code"], bytes(self._parts[column][0]))
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def distinct(self, column: str) -> list[str]:
        found: list[str] = json.loads(bytes(self._parts[column][1]))
        return found

    def texts(self, column: str) -> list[str]:
        return list(map(self.distinct(column).__getitem__, self.numbers(column)))

    def ids(self) -> list[str]:
        if "texts" in self._head["ids"]:
            return self.texts("ids")
        return list(map(str, itertools.accumulate(self.numbers("ids"))))
