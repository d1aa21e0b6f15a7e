"""Read a graph in any supported format: JGF, compact or Flux R, plain or compressed."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping

from rainbow_sched.graphs.formats.compact import from_compact, from_compact_subsystem
from rainbow_sched.graphs.formats.flux_r import from_flux_r
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import Graph, Subsystem

MAX_TOTAL = 2**62  # so that no sum over a cluster overflows
_EITHER_WRAPPER = 32 + zlib.MAX_WBITS  # gzip or zlib, told by the first bytes
_MAX_SMALL_TEXT = 64 << 20  # compact and R documents are small; a JGF of this size is read in pieces
_STEP = 1 << 20
_OTHER_FORM = re.compile(rb"\s*\{\s*\"(rainbow|version|execution|scheduling)\"\s*:")


def read(data: bytes, limits: GraphLimits = DEFAULT) -> Graph:
    """Read a cluster's graph; raise `Invalid` or `TooLarge`."""
    text = inflate(data, limits)
    document = None
    if len(text) > _MAX_SMALL_TEXT:
        text = _large_jgf(text)
    else:
        document = _small_document(text)
    if document is None:
        from rainbow_sched.graphs.formats.jgf.reader import read_graph  # with numpy, which plain R does not need

        graph = read_graph(text, limits)
    elif "rainbow" in document:
        graph = from_compact(document, limits)
    else:
        graph = from_flux_r(document, limits)
    if sum(graph.sizes) > MAX_TOTAL:
        raise TooLarge(f"the sizes of a graph's vertices are at most {MAX_TOTAL} together; use a larger unit")
    return graph


def read_subsystem(name: str, graph: Graph, data: bytes, limits: GraphLimits = DEFAULT) -> Subsystem:
    """Read a subsystem of the cluster with this graph, as JGF or compact."""
    text = inflate(data, limits)
    document = _small_document(text) if len(text) <= _MAX_SMALL_TEXT else None
    if document is not None and "rainbow" in document:
        return from_compact_subsystem(name, graph, document, limits)
    from rainbow_sched.graphs.formats.jgf import reader

    return reader.read_subsystem(name, graph, text, limits)


def inflate(data: bytes, limits: GraphLimits = DEFAULT) -> bytes:
    """Decompress gzip or zlib data; raise `TooLarge` as soon as the limit is exceeded."""
    looks_like_zlib = len(data) > 2 and data[0] == 0x78 and (data[0] << 8 | data[1]) % 31 == 0
    if data[:2] != b"\x1f\x8b" and not looks_like_zlib:
        return data
    machine = zlib.decompressobj(_EITHER_WRAPPER)
    parts: list[bytes] = []
    size = 0
    try:
        while data and not machine.eof:
            parts.append(machine.decompress(data, _STEP))
            data = machine.unconsumed_tail
            size += len(parts[-1])
            if size > limits.text:
                raise TooLarge(f"a graph is at most {limits.text} bytes of JSON after decompression")
        if not machine.eof:
            raise Invalid("the compressed graph is cut short")
    except zlib.error as error:
        raise Invalid(f"the compressed graph cannot be read: {error}") from None
    return b"".join(parts)


def _large_jgf(text: bytes) -> bytes:
    """Return the JGF in a large text: the text itself, or the `scheduling` part of an R."""
    if not _OTHER_FORM.match(text):
        return text
    from rainbow_sched.graphs.formats.jgf.parts import scheduling_of

    found = scheduling_of(text)
    if found is None:
        raise TooLarge(f"a compact graph, or an R without a graph, is at most {_MAX_SMALL_TEXT} bytes")
    return found


def _small_document(text: bytes) -> Mapping[str, object] | None:
    """Return the document if it is compact or R; None if it is JGF."""
    if b'"rainbow"' not in text and b'"execution"' not in text:
        return None
    try:
        document = json.loads(text)
    except RecursionError:
        raise TooLarge("the JSON is nested too deeply") from None
    except ValueError as error:
        raise Invalid(f"the text is not JSON: {error}") from None
    if not isinstance(document, Mapping) or "graph" in document:
        return None
    return document if "rainbow" in document or "execution" in document else None
