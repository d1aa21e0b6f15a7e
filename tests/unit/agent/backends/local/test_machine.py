"""The local backend's view of what is free, against arithmetic that is slow and obvious."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.base import Prices
from rainbow_sched.agent.backends.local.bids import PastRun, RunningJob, cost, starts_in, takes
from rainbow_sched.agent.backends.local.machine import Machine, Place, QueuedJob
from rainbow_sched.model.graph import Graph, Vertex
from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Count, Group, Level, Request
from tests.support import graph_builders, oracle
from tests.support.cases import over_seeds

small = st.integers(1, 4)


def a_machine(*nodes: int, memory: int = 0, gpus: int = 0, cpus: int = 64) -> Machine:
    """Nodes with so many cores each."""
    vertices, edges = [Vertex(id="c", type="cluster")], []
    for n, cores in enumerate(nodes):
        vertices.append(Vertex(id=f"n{n}", type="node"))
        edges.append(("c", f"n{n}"))
        for type, many in (("core", cores), ("gpu", gpus)):
            for i in range(many):
                vertices.append(Vertex(id=f"{type}{n}.{i}", type=type))
                edges.append((f"n{n}", f"{type}{n}.{i}"))
        if memory:
            vertices.append(Vertex(id=f"m{n}", type="memory", size=memory, unit="GiB"))
            edges.append((f"n{n}", f"m{n}"))
    return Machine(Graph.build(vertices, edges), range(cpus))


def free(machine: Machine) -> dict[int, int]:
    """The free units by leaf."""
    return {i: size - machine.taken[i] for i, size in machine.size.items()}


def slots(count: int, cores: int, *, duration: float | None = None, **more: int) -> Request:
    """So many slots of so many cores, each inside one node."""
    inside = [Level(type="core", count=Count(cores))]
    if "gpus" in more:
        inside.append(Level(type="gpu", count=Count(more["gpus"])))
    if "megabytes" in more:
        inside.append(Level(type="memory", count=Count(more["megabytes"]), unit="MiB"))
    level = Level(type="node", count=Count(count), shared=True, abstract=True, inside=tuple(inside))
    return Request(groups=(Group(levels=(level,)),), duration=duration)


@given(st.lists(small, min_size=1, max_size=4), small, small)
def test_slots_fit_exactly_when_the_nodes_hold_that_many(nodes, count, cores):
    room = sum(n // cores for n in nodes)
    assert (a_machine(*nodes).fit(slots(count, cores)) is not None) is (room >= count)


@given(st.lists(st.tuples(st.booleans(), small, small), max_size=30))
@settings(max_examples=100)
def test_no_core_is_given_twice_and_all_come_back(steps):
    machine = a_machine(4, 3, gpus=1, memory=2)
    running: list[Place] = []
    for begin, count, cores in steps:
        if begin:
            place = machine.take(slots(count, cores, gpus=1, megabytes=300))
            if place is not None:
                running.append(place)
                assert len(place.cpus) == count * cores
                assert place.memory == count * 300 << 20
        elif running:
            machine.release(running.pop(0))
        taken = [cpu for place in running for cpu in place.cpus]
        gpus = [gpu for place in running for gpu in place.gpus]
        assert len(taken) == len(set(taken)) == 7 - machine.count("core", free=True)
        assert len(gpus) == len(set(gpus)) <= 2
        assert min(free(machine).values()) >= 0
    for place in running:
        machine.release(place)
    assert free(machine) == machine.size
    assert machine.take(slots(1, 4)).cpus == (0, 1, 2, 3)


@over_seeds(400)
def test_what_is_taken_is_what_the_oracle_finds_room_for(seed):
    """The oracle tries everything; the machine takes the first fit, and so may wait where the oracle would not."""
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    request = graph_builders.random_request(rng, graph, asks=0)
    request = replace(request, hosts=(), not_hosts=(), properties=(), requires=())
    machine = Machine(graph)
    leaves = {graph.ids[i] for i in machine.leaves}
    used = {id: units for id, units in graph_builders.random_use(rng, graph).items() if id in leaves}
    scale = {id: factor(unit) or 1 if unit else 1 for id, unit in zip(graph.ids, graph.units, strict=True)}
    machine.occupy(Place(machine.held({id: units * scale[id] for id, units in used.items()})))
    before = free(machine)
    room = oracle.fits(graph, request, used=used)
    units = machine.fit(request)
    if units is not None:
        assert room is not False
        assert all(0 < taken <= before[i] for i, taken in units.items())
    place = machine.take(request)
    assert (place is None) is (units is None)
    if place is not None:
        machine.release(place)
    assert free(machine) == before


def test_an_abstract_level_that_the_machine_lacks_counts_on_the_machine_itself():
    """As for the server, which offers such a job."""
    rack = Level(type="rack", count=Count(2), abstract=True, inside=(Level(type="core", count=Count(2)),))
    request = Request(groups=(Group(levels=(rack,)),))
    assert sum(a_machine(3, 1).fit(request).values()) == 4
    assert a_machine(3).fit(request) is None


def test_a_whole_node_is_taken_with_all_that_is_in_it():
    machine = a_machine(2, 3)
    request = Request(groups=(Group(levels=(Level(type="node", count=Count(1)),)),))
    machine.take(slots(1, 1))
    place = machine.take(request)
    assert len(place.cpus) == 3
    assert machine.take(request) is None


def test_memory_is_counted_in_bytes_whatever_the_units():
    machine = a_machine(8, memory=1)
    assert machine.take(slots(1, 1, megabytes=1000)) is not None
    assert machine.take(slots(1, 1, megabytes=100)) is None
    assert "memory 1GiB" in machine.lacks(slots(1, 1, megabytes=2000))


def test_a_graph_larger_than_the_machine_is_run_without_binding():
    assert a_machine(8, cpus=2).take(slots(1, 8)).cpus == ()


def test_a_core_of_two_hardware_threads_gives_both():
    vertices = [Vertex(id="n", type="node")] + [
        Vertex(id=f"c{i}", type="core", metadata={"cpus": [i, i + 2]}) for i in range(2)
    ]
    machine = Machine(Graph.build(vertices, [("n", "c0"), ("n", "c1")]), range(4))
    first, second = machine.take(slots(1, 1)), machine.take(slots(1, 1))
    assert (first.cpus, second.cpus) == ((0, 2), (1, 3))


def test_without_a_past_a_job_is_thought_to_use_its_whole_limit():
    assert takes(100.0, 0.5, []) == 100.0


def test_with_a_past_a_job_is_thought_to_use_the_share_of_its_limit_that_others_did():
    past = [PastRun(10.0, 1.0)] * 8 + [PastRun(10.0, 9.0)] * 2
    assert takes(100.0, 0.5, past) == 10.0
    assert takes(100.0, 0.9, past) == 90.0


def test_a_job_that_outlived_the_short_ones_is_compared_with_the_long_ones():
    past = [PastRun(None, 1.0)] * 20 + [PastRun(None, 50.0)] * 5
    assert takes(None, 0.5, past) == 1.0
    assert takes(None, 0.5, past, elapsed=10.0) == 50.0


def test_a_bid_waits_for_enough_running_jobs_to_end_and_for_the_queue_before_it():
    machine = a_machine(2)
    running = [RunningJob(machine.take(slots(1, 1)), 100.0, 40.0), RunningJob(machine.take(slots(1, 1)), 30.0, 0.0)]
    assert starts_in(QueuedJob(slots(1, 1)), machine, running, [], [], 0.5) == 30.0
    assert starts_in(QueuedJob(slots(1, 2)), machine, running, [], [], 0.5) == 60.0
    queued = [QueuedJob(slots(1, 1, duration=500.0)), QueuedJob(slots(1, 1, duration=500.0))]
    assert starts_in(QueuedJob(slots(1, 1)), machine, running, queued, [], 0.5) == 530.0
    assert machine.count("core", free=True) == 0, "a bid takes nothing"


def test_a_bid_behind_a_job_of_unknown_length_names_no_time():
    machine = a_machine(1)
    running = [RunningJob(machine.take(slots(1, 1)), None, 5.0)]
    assert starts_in(QueuedJob(slots(1, 1)), machine, running, [], [], 0.5) is None


def test_the_cost_is_what_is_taken_times_its_price_times_the_hours():
    machine = a_machine(4, 4, gpus=2)
    prices = Prices(core_hour=0.5, node_hour=10.0, gpu_hour=2.0)
    assert cost(QueuedJob(slots(2, 3, gpus=1, duration=7200.0)), machine, prices) == 2 * (6 * 0.5 + 2 * 10.0 + 2 * 2.0)
    assert cost(QueuedJob(slots(1, 1)), machine, prices) is None
    assert cost(QueuedJob(slots(1, 1)), machine, Prices()) == 0.0
