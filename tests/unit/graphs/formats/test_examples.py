"""The example clusters, as the demo and the documents use them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rainbow_sched.graphs.formats.reader import read, read_subsystem
from rainbow_sched.graphs.tree import draw

ROOT = Path(__file__).parents[4]
CLUSTERS = ROOT / "examples" / "clusters"


@pytest.mark.parametrize(("cluster", "subsystem"), [("perl", "software"), ("birch", "io"), ("desk", "software")])
def test_every_example_cluster_reads_with_its_subsystem(cluster: str, subsystem: str) -> None:
    graph = read((CLUSTERS / cluster / "graph.json").read_bytes())
    found = read_subsystem(subsystem, graph, (CLUSTERS / cluster / f"{subsystem}.json").read_bytes())
    assert found.vertices
    assert len(draw(graph).splitlines()) <= 6


def test_the_examples_are_one_in_each_form() -> None:
    forms = [json.loads((CLUSTERS / name / "graph.json").read_text()) for name in ("perl", "birch", "desk")]
    assert "rainbow" in forms[0]
    assert isinstance(forms[1]["graph"]["nodes"], list)
    assert isinstance(forms[2]["graph"]["nodes"], dict)


def test_the_examples_in_the_document_read_as_they_stand() -> None:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "graphs.md").read_text(), re.DOTALL)
    compact, subsystem, jgf = (block.encode() for block in blocks)
    graph = read(compact)
    assert len(graph) == 1 + 4 + 64 * 70
    assert len(read_subsystem("software", graph, subsystem).vertices) == 3
    assert read(jgf).names == ["perl", "n0"]
