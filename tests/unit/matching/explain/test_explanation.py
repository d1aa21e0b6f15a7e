"""Explaining a fleet at once gives each cluster what it gets when it is explained alone."""

from __future__ import annotations

from random import Random

from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from tests.support import graph_builders
from tests.support.cases import over_seeds


@over_seeds(60)
def test_clusters_that_are_alike_are_explained_as_each_one_alone(seed):
    rng = Random(seed)
    graphs = [graph_builders.random_graph(rng) for _ in range(2)]
    backend = MemoryBackend()
    for i in range(8):
        graph = graphs[i % 2]
        backend.put(f"c{i}", graph)
        if rng.random() < 0.8:
            backend.put_subsystem(f"c{i}", graph_builders.random_subsystem(rng, graph))
        if rng.random() < 0.2:
            backend.use(f"c{i}", graph_builders.random_use(rng, graph))
    request = graph_builders.random_request(rng, graphs[0])
    together = backend.explain(prepare(request))
    alone = [backend.explain(prepare(request), [name])[0] for name in backend.clusters()]
    assert together == alone


@over_seeds(100)
def test_slots_read_from_the_tables_are_those_that_the_matcher_counts(seed):
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    backend = MemoryBackend()
    for name in ("a", "b"):
        backend.put(name, graph)
        backend.put_subsystem(name, graph_builders.random_subsystem(rng, graph))
        backend.use(name, graph_builders.random_use(rng, graph))
        backend.mark(name, graph_builders.random_marks(rng, graph))
    for _ in range(3):
        request = graph_builders.random_request(rng, graph)
        verdicts = [backend.match(prepare(request)).verdict(name) for name in ("a", "b")]
        assert [found.verdict for found in backend.explain(prepare(request))] == verdicts
