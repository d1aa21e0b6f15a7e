"""Graphs in whatever form they arrive."""

from __future__ import annotations

import contextlib
import gzip
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.formats import reader
from rainbow_sched.graphs.formats.jgf.values import GraphLimits
from rainbow_sched.graphs.formats.jgf.writer import subsystem_to_jgf, to_jgf
from rainbow_sched.graphs.formats.reader import inflate, read, read_subsystem
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import Subsystem, Vertex
from tests.support.compact_writer import to_compact, to_compact_subsystem
from tests.support.graph_cases import a_gpu_cluster, in_shape

GRAPH = a_gpu_cluster()
FORMS = {
    "dict": to_jgf(GRAPH).encode(),
    "list": in_shape(to_jgf(GRAPH), "list").encode(),
    "compact": json.dumps(to_compact(GRAPH)).encode(),
    "R": json.dumps({"version": 1, "execution": {}, "scheduling": json.loads(to_jgf(GRAPH))}).encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrap", [bytes, gzip.compress, zlib.compress])
def test_every_form_is_recognised_plain_and_compressed(form: str, wrap) -> None:
    assert read(wrap(FORMS[form])) == GRAPH


def test_large_texts_are_recognised_without_reading_them_as_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_SMALL_TEXT", 10)
    for form in ("dict", "list", "R"):
        assert read(FORMS[form]) == GRAPH
    for text in (FORMS["compact"], b'{"version":1,"execution":{}}', b'{"version":' + b"[" * 10_000):
        with pytest.raises(TooLarge):
            read(text)


def test_subsystems_are_recognised_as_jgf_and_compact() -> None:
    vertex = Vertex(id="soft1", type="package", metadata={"version": "2"})
    subsystem = Subsystem.build("soft", GRAPH.positions(), [vertex], [(GRAPH.ids[0], "soft1")])
    for text in (subsystem_to_jgf(subsystem), json.dumps(to_compact_subsystem(subsystem, GRAPH))):
        assert read_subsystem("soft", GRAPH, gzip.compress(text.encode())) == subsystem


def test_a_value_named_rainbow_does_not_make_a_graph_compact() -> None:
    text = '{"graph":{"nodes":{"0":{"metadata":{"rainbow":"execution"}}}}}'
    assert read(text.encode()).metadata == {0: {"rainbow": "execution"}}


def test_a_decompression_bomb_is_refused_on_the_way() -> None:
    bomb = zlib.compress(b" " * (64 << 20), 9)
    assert len(bomb) < 100_000
    with pytest.raises(TooLarge, match="decompression"):
        inflate(bomb, GraphLimits(text=1 << 20))


def test_compressed_bytes_cut_short_or_broken_are_refused() -> None:
    data = gzip.compress(FORMS["dict"])
    for broken in (data[:-12], data[:40], data[:30] + b"xxxx" + data[34:]):
        with pytest.raises(Invalid):
            read(broken)


@given(form=st.sampled_from(sorted(FORMS)), data=st.data())
@settings(max_examples=75, deadline=None)
def test_mutated_documents_are_read_or_refused_and_nothing_else(form: str, data: st.DataObject) -> None:
    text = bytearray(FORMS[form])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b"{", b'"', b"[0-9", b"1e9", b"null", b"-1"]))
        )
        text[at : at + data.draw(st.integers(0, 2))] = new
    with contextlib.suppress(Invalid):
        assert len(read(bytes(text), GraphLimits(vertices=10_000)))
