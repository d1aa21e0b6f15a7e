"""The exact fit agrees with trying everything, on generated graphs and requests."""

from __future__ import annotations

from random import Random

from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shapes
from tests.support import graph_builders, oracle
from tests.support.cases import over_seeds


def folded(graph, subsystems):
    """The facts of the subsystems, and the graph folded with them."""
    facts, shapes = Facts(), Shapes()
    return facts, Fold(Structure(graph, shapes), subsystems, facts, shapes)


@over_seeds(600)
def test_the_whole_graph_fits_exactly_when_trying_everything_finds_a_way(seed):
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    subsystems = [graph_builders.random_subsystem(rng, graph)] if rng.random() < 0.7 else []
    request = graph_builders.random_request(rng, graph)
    if request.hosts or request.not_hosts:
        return
    expected = oracle.fits(graph, request, subsystems, now=False)
    facts, fold = folded(graph, subsystems)
    found = Fitter(request, facts).fits(fold, fold.root)
    assert found is not None
    if expected is not None:
        assert found == expected


@over_seeds(60)
def test_one_matcher_answers_for_clusters_of_all_kinds_as_one_of_its_own(seed):
    rng = Random(seed)
    facts, shapes = Facts(), Shapes()
    sizes = [(rng.choice((0, 2)), rng.choice((0, 8)), rng.choice((0, 2))) for _ in range(4)]
    graphs = [graph_builders.a_graph(gpus=gpus, memory=memory, sockets=sockets) for gpus, memory, sockets in sizes]
    request = graph_builders.random_request(rng, rng.choice(graphs))
    folds = []
    for graph in [*graphs, *graphs]:
        subsystems = [graph_builders.random_subsystem(rng, graph)] if rng.random() < 0.5 else []
        folds.append(Fold(Structure(graph, shapes), subsystems, facts, shapes))
    together = Fitter(request, facts)
    for fold in folds:
        alone = Fitter(request, facts)
        assert together.fits(fold, fold.root) == alone.fits(fold, fold.root)
        assert together.slots(fold, fold.root) == alone.slots(fold, fold.root)


def test_one_matcher_plans_anew_for_a_cluster_with_other_types_or_units():
    facts, shapes = Facts(), Shapes()
    graphs = [graph_builders.a_graph(gpus=gpus, memory=memory) for gpus, memory in ((0, 0), (2, 0), (0, 8), (2, 8))]
    folds = [Fold(Structure(graph, shapes), [], facts, shapes) for graph in graphs]
    for types in (["gpu"], ["memory"], ["gpu", "memory"], ["core"]):
        request = graph_builders.a_request(*(graph_builders.a_level(type, 1) for type in types))
        for order in (folds, folds[::-1]):
            together = Fitter(request, facts)
            found = [together.fits(fold, fold.root) for fold in order]
            assert found == [all(type in fold.graph.types for type in types) for fold in order]


@over_seeds(100)
def test_a_search_that_runs_out_of_steps_says_so_and_is_never_wrong(seed):
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    request = graph_builders.a_request(*(graph_builders.random_level(rng) for _ in range(3)))
    facts, fold = folded(graph, [])
    certain = Fitter(request, facts).fits(fold, fold.root)
    hasty = Fitter(request, facts, steps=25).fits(fold, fold.root)
    assert hasty in (certain, None)


def test_too_much_work_is_unknown_not_guessed():
    graph = graph_builders.a_graph(nodes=4, cores=5)
    request = graph_builders.a_request(
        *(graph_builders.slots(2, graph_builders.a_level("core", cores)) for cores in (3, 2, 4))
    )
    facts, fold = folded(graph, [])
    assert Fitter(request, facts, steps=3).fits(fold, fold.root) is None
    assert Fitter(request, facts).fits(fold, fold.root) == oracle.fits(graph, request, now=False)


def test_the_slots_of_one_host_that_is_split_into_sockets_are_counted_exactly():
    graph = graph_builders.a_graph(nodes=1, cores=12, sockets=3)
    two_sockets = graph_builders.slots(1, graph_builders.a_level("socket", 2, graph_builders.a_level("core", 1)))
    facts, fold = folded(graph, [])
    assert Fitter(graph_builders.a_request(two_sockets), facts).slots(fold, fold.root) == 6
