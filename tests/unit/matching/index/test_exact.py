"""The memory backend agrees with trying everything, whatever order changes come in and whatever it has kept."""

from __future__ import annotations

from random import Random

import pytest

from rainbow_sched.graphs import memory
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.matching.index import suffix_counts
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.match import Fit
from tests.support import graph_builders, oracle
from tests.support.cases import over_seeds


def expected_fit(graph, request, subsystems, marks, used):
    """The oracle's answer, None if it gave up."""
    ever = oracle.fits(graph, request, subsystems, now=False)
    now = oracle.fits(graph, request, subsystems, marks, used)
    if ever is None or now is None:
        return None
    return Fit.NOW if now else Fit.LATER if ever else Fit.NEVER


def check(seed):
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    subsystems = [graph_builders.random_subsystem(rng, graph)] if rng.random() < 0.7 else []
    request = graph_builders.random_request(rng, graph)
    marks, used = graph_builders.random_marks(rng, graph), graph_builders.random_use(rng, graph)
    expected = expected_fit(graph, request, subsystems, marks, used)
    backend = MemoryBackend()
    backend.put("c", graph)
    backend.match(prepare(request))  # kept, and repaired after each change
    changes = [lambda: backend.mark("c", marks), lambda: backend.use("c", used)]
    changes += [lambda subsystem=subsystem: backend.put_subsystem("c", subsystem) for subsystem in subsystems]
    rng.shuffle(changes)
    for change in changes:
        change()
    found = backend.match(prepare(request)).fit("c")
    assert found is not Fit.UNKNOWN
    if expected is not None:
        assert found is expected
    fresh = MemoryBackend()
    fresh.put("c", graph)
    for subsystem in subsystems:
        fresh.put_subsystem("c", subsystem)
    fresh.use("c", used)
    fresh.mark("c", marks)
    assert fresh.match(prepare(request)).fit("c") is found
    fresh._index.slots = lambda request: None  # all is left to the exact matcher
    assert backend.match(prepare(request)).verdict("c") == fresh.match(prepare(request)).verdict("c")


@over_seeds(500)
def test_now_later_and_never_are_what_trying_everything_says(seed):
    check(seed)


@over_seeds(125)
def test_suffix_counts_give_the_same_answers_as_rows(seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_counts, "MIN_ROWS", 0)
        check(seed)


@over_seeds(25)
def test_a_fleet_in_motion_answers_as_one_built_anew(seed):
    rng = Random(seed)
    graphs = {name: graph_builders.random_graph(rng) for name in "abcd"}
    backend = MemoryBackend()
    requests = [graph_builders.random_request(rng, graphs["a"]) for _ in range(4)]
    marks: dict[str, dict[str, Mark]] = {name: {} for name in graphs}
    used: dict[str, dict[str, int]] = {name: {} for name in graphs}
    for name, graph in graphs.items():
        backend.put(name, graph)
    for _ in range(6):
        name = rng.choice("abcd")
        if rng.random() < 0.2:
            backend.remove(name)
            graphs[name], marks[name], used[name] = graph_builders.random_graph(rng), {}, {}
            backend.put(name, graphs[name])
        fresh_marks = graph_builders.random_marks(rng, graphs[name])
        marks[name] |= fresh_marks
        used[name] = graph_builders.random_use(rng, graphs[name])
        backend.mark(name, fresh_marks)
        backend.use(name, used[name])
        anew = MemoryBackend()
        for each, graph in graphs.items():
            anew.put(each, graph)
            anew.mark(each, marks[each])
            anew.use(each, used[each])
        for request in requests:
            assert list(backend.match(prepare(request))) == list(anew.match(prepare(request)))


def test_what_is_released_is_as_if_it_had_never_been_placed():
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=3, cores=4, gpus=2, sockets=2))
    request = graph_builders.a_request(
        graph_builders.slots(3, graph_builders.a_level("core", 4), graph_builders.a_level("gpu", 2), exclusive=True)
    )
    backend.place("c", "job", prepare(request))
    assert backend.match(prepare(request)).fit("c") is Fit.LATER
    backend.release("c", "job")
    assert backend.match(prepare(request)).fit("c") is Fit.NOW
    assert not any(len(table) for table in backend._index.moved.values())


def test_slots_are_counted_as_they_are_when_they_are_asked_for():
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=8, cores=4))
    request = graph_builders.a_request(graph_builders.slots(1, graph_builders.a_level("core", 4)))
    before = backend.match(prepare(request))
    assert before.verdict("c").slots_now == 8
    backend.place("c", "job", prepare(request))
    assert backend.match(prepare(request)) is before  # the answer is still true, and kept
    assert (before.verdict("c").slots_now, before.verdict("c").slots_ever) == (7, 8)


def test_no_slots_are_counted_where_the_cluster_itself_does_not_have_what_is_required():
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=8, cores=4))
    wanted = graph_builders.a_request(
        graph_builders.slots(2, graph_builders.a_level("core", 4)),
        requires=graph_builders.requires("soft", "name", "x"),
    )
    verdict = backend.match(prepare(wanted)).verdict("c")
    assert (verdict.fit, verdict.slots_now, verdict.slots_ever) == (Fit.NEVER, 0, 0)


def test_a_fleet_of_one_shape_is_a_few_rows():
    backend = MemoryBackend()
    graph = graph_builders.a_graph(nodes=500, cores=8, racks=5)
    for i in range(20):
        backend.put(f"c{i}", graph)
    assert len(backend._index.ever["node"]) == 20


def test_asking_some_clusters_gives_what_asking_all_gives():
    backend = MemoryBackend()
    for i in range(8):
        backend.put(f"c{i}", graph_builders.a_graph(nodes=2 + i, cores=4, racks=2))
    request = graph_builders.a_request(
        graph_builders.a_level("rack", 1, graph_builders.a_level("node", 3, graph_builders.a_level("core", 4)))
    )
    some = {name: backend.match(prepare(request), [name]).fit(name) for name in backend.clusters()}
    whole = backend.match(prepare(request))
    assert some == {name: whole.fit(name) for name in backend.clusters()}
    assert set(some.values()) == {Fit.NOW, Fit.NEVER}


def used_now(backend, cluster):
    """What placed jobs take, as a manager would report it."""
    state = backend._states[cluster]
    ids = state.fold.graph.ids
    return {ids[i]: units for i, units in state.taken.items()}


@over_seeds(166)
def test_after_places_and_releases_kept_answers_are_those_of_a_fleet_that_reports_the_same_use(seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "MAX_UNINDEXED_VERTICES", seed % 8)  # now and then the index learns of changes unasked
        check_places(seed, graph_builders.random_request)


@over_seeds(100)
def test_answers_that_count_slots_are_kept_only_while_they_are_true(seed):
    check_places(seed, slots_somewhere)


def slots_somewhere(rng, graph):
    """Slots that share a host, or that lie anywhere, of leaves with and without units."""
    leaves = [graph_builders.a_level("core", rng.randint(1, 3))]
    if rng.random() < 0.3:
        leaves.append(graph_builders.a_level("gpu", 1))
    if rng.random() < 0.3:
        leaves.append(
            graph_builders.a_level("memory", 1, unit="GB")
            if rng.random() < 0.5
            else graph_builders.a_level("memory", 400, unit="MB")
        )
        leaves = leaves[-rng.randint(1, 2) :]
    host, abstract = rng.choice((("node", False), ("slot", True), ("socket", True)))
    return graph_builders.a_request(graph_builders.slots(rng.randint(1, 4), *leaves, host=host, abstract=abstract))


def check_places(seed, a_request):
    rng = Random(seed)
    graphs = {name: graph_builders.random_graph(rng) for name in ("a", "b")}
    requests = [a_request(rng, graphs["a"]) for _ in range(3)]
    backend, live = MemoryBackend(), []
    for name, graph in graphs.items():
        backend.put(name, graph)
    for step in range(10):
        name = rng.choice("ab")
        kind = rng.random()
        if live and kind < 0.3:
            backend.release(*live.pop(rng.randrange(len(live))))
        elif kind < 0.4:
            backend.mark(name, graph_builders.random_marks(rng, graphs[name]))
        else:
            backend.place(name, f"job{step}", prepare(rng.choice(requests)))
            live.append((name, f"job{step}"))
        request = rng.choice(requests)
        fresh = MemoryBackend()
        for other, graph in graphs.items():
            fresh.put(other, graph)
            state = backend._states[other]
            fresh.mark(other, {state.fold.graph.ids[i]: Mark.DOWN for i in state.down})
            fresh.use(other, used_now(backend, other))
        expected, found = fresh.match(prepare(request)), backend.match(prepare(request))
        assert {n: found.fit(n) for n in "ab"} == {n: expected.fit(n) for n in "ab"}


def test_one_host_that_loses_several_slots_is_counted_anew():
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=1, cores=4))
    wanted = graph_builders.a_request(graph_builders.slots(2, graph_builders.a_level("core", 1)))
    assert backend.match(prepare(wanted)).fit("c") is Fit.NOW
    backend.place(
        "c", "job", prepare(graph_builders.a_request(graph_builders.slots(1, graph_builders.a_level("core", 3))))
    )
    assert backend.match(prepare(wanted)).fit("c") is Fit.LATER


def test_what_is_released_before_the_index_learns_of_it_leaves_no_trace():
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=1, cores=4))
    whole = graph_builders.a_request(
        graph_builders.a_level("node", 1, graph_builders.a_level("core", 4), exclusive=True)
    )
    backend.place(
        "c", "job", prepare(graph_builders.a_request(graph_builders.slots(1, graph_builders.a_level("core", 2))))
    )
    backend.release("c", "job")
    assert backend.match(prepare(whole)).fit("c") is Fit.NOW
    assert not any(len(table) for table in backend._index.moved.values())


def test_a_vertex_of_which_more_is_used_than_there_is_comes_back_whole():
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=1, cores=4))
    half, all_of_it = (
        graph_builders.a_request(graph_builders.slots(1, graph_builders.a_level("core", cores))) for cores in (2, 4)
    )
    backend.place("c", "job", prepare(half))
    backend.use("c", {"node0-core": 4})  # the manager counts the job, too
    assert backend.match(prepare(half)).fit("c") is Fit.LATER
    backend.release("c", "job")
    assert backend.match(prepare(half)).fit("c") is Fit.LATER
    backend.use("c", {})
    assert backend.match(prepare(all_of_it)).fit("c") is Fit.NOW


def test_an_answer_that_was_searched_for_is_found_for_clusters_that_came_later():
    backend = MemoryBackend()
    request = graph_builders.a_request(
        graph_builders.a_level("rack", 1, graph_builders.a_level("node", 2, graph_builders.a_level("core", 4)))
    )
    for i in range(40):
        backend.put(f"c{i:02}", graph_builders.a_graph(nodes=2 + i % 3, cores=4, racks=2))
        assert backend.match(prepare(request)).fit(f"c{i:02}") is (Fit.NOW if i % 3 else Fit.NEVER)


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (
            graph_builders.slots(3, graph_builders.a_level("memory", 400, unit="MB")),
            graph_builders.a_level("memory", 3, unit="GB"),
        ),
        (
            graph_builders.slots(1, graph_builders.a_level("core", 1), host="slot", abstract=True),
            graph_builders.a_level("core", 4),
        ),
        (
            graph_builders.slots(2, graph_builders.a_level("core", 1), host="slot", abstract=True),
            graph_builders.a_level("core", 3),
        ),
    ],
)
def test_one_job_can_take_the_room_of_several_slots(asked, taken):
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=1, cores=4, memory=4))
    wanted = graph_builders.a_request(asked)
    assert backend.match(prepare(wanted)).fit("c") is Fit.NOW
    backend.place("c", "job", prepare(graph_builders.a_request(graph_builders.slots(1, taken))))
    assert backend.match(prepare(wanted)).fit("c") is Fit.LATER
