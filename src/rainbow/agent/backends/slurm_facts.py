"""What a Slurm cluster reports of itself now and then: free nodes, cores and gpus, queue, marks, what others use."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

from rainbow.agent.backends.slurm_jobs import SlurmJob
from rainbow.agent.values import Facts, Phase
from rainbow.agent.wrapper import write_whole
from rainbow.discover.slurm import SlurmNode
from rainbow.discover.slurm_state import Holding, merge_marks, totals, used_by_others
from rainbow.model.errors import Invalid
from rainbow.model.graph import Graph


class MarkedNodes:
    """Nodes that were once reported as not up, kept on disk: only of those is `up` ever said, so that a mark that an
    operator set in Rainbow on another node stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.names: set[str] = set()
        with contextlib.suppress(FileNotFoundError, ValueError):
            self.names = set(json.loads(path.read_text()))

    def add(self, marks: Mapping[str, str]) -> None:
        """Remember those."""
        if not self.names.issuperset(marks):
            self.names.update(marks)
            write_whole(self._path, sorted(self.names))


def make_facts(
    graph: Graph,
    nodes: Sequence[SlurmNode],
    own: Iterable[tuple[SlurmJob, int]],
    marked: MarkedNodes,
    state: Mapping[str, object],
    unreachable: Container[str] = (),
) -> Facts:
    """The facts; `own` are our running jobs, each with its gpus per node, `state` what else is to be said."""
    known = {name: None for name, type in zip(graph.names, graph.types, strict=True) if type == "node"}
    marks = merge_marks(marked.names, nodes, known, unreachable)
    marked.add(marks)
    used = used_by_others(graph, nodes, [_holding(job, gpus) for job, gpus in own if job.phase is Phase.RUNNING])
    return Facts(manager="slurm", state={**totals(nodes, unreachable), **state}, marks=marks, used=used)


def _holding(job: SlurmJob, gpus: int) -> Holding:
    try:
        hosts = tuple(job.hosts())
    except Invalid:
        hosts = ()  # a list of nodes too long for its field: what it holds counts as taken by others
    many = max(1, len(hosts) or job.nodes)
    return Holding(nodes=hosts, cpus=-(-job.cpus // many), memory=-(-job.memory // many), gpus=gpus)
