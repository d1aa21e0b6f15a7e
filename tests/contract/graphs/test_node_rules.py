"""Every backend binds a request to hosts, and uses nothing that a manager cannot be told."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.graph import Graph, Mark, Vertex
from rainbow_sched.model.match import Fit
from rainbow_sched.model.reasons import MixedHosts
from rainbow_sched.model.request import Group, Request, Requirement, Within
from tests.support.graph_builders import a_graph, a_level, a_request, a_subsystem, requires, slots

HOSTS = NodeRules(hosts=True)
TELLS_KIND = NodeRules(hosts=True, subsystems=frozenset({"kind"}))


def put(backend: GraphBackend, rules: NodeRules | None = HOSTS) -> Graph:
    """Three nodes of two sockets with a gpu each: an a100 in both of node1, in one of node2, in none of node0."""
    graph = a_graph(nodes=3, cores=4, gpus=2, sockets=2, properties={1: ["fast"]})
    backend.put("c", graph)
    hung: dict[str, dict[str, object]] = {
        "node1-socket0-gpu,node1-socket1-gpu,node2-socket0-gpu": {"model": "a100"},
        "node0-socket0-gpu": {"model": "v100"},
    }
    backend.put_subsystem("c", a_subsystem(graph, "kind", hung))
    backend.put_subsystem("c", a_subsystem(graph, "io", {"node2": {"model": "nvme", "tb": 4}}))
    backend.set_node_rules("c", rules)
    return graph


def gpus(count: int = 1) -> Request:
    return a_request(slots(count, a_level("gpu", 1, requires=requires("kind", "model", "a100"))))


NVME = requires("io", "model", "nvme")


def test_a_request_is_bound_to_the_hosts_that_meet_it(backend: GraphBackend) -> None:
    put(backend)
    wants_io = a_request(slots(1, a_level("core", 1), requires=NVME))
    assert backend.binding("c", prepare(wants_io)).hosts == (GroupHosts(0, ("node2",)),)
    assert backend.binding("c", prepare(gpus())).hosts == (GroupHosts(0, ("node1",)),)
    fast = a_request(a_level("core", 1), properties=("fast",))
    assert backend.binding("c", prepare(fast)).hosts == (GroupHosts(0, ("node1",)),)
    named = a_request(a_level("core", 1), not_hosts=("node1",))
    assert backend.binding("c", prepare(named)).hosts == (GroupHosts(0, ("node0", "node2")),)


def test_names_that_the_manager_is_told_bind_hosts_too_and_nothing_is_bound_where_all_qualify(
    backend: GraphBackend,
) -> None:
    graph = put(backend, NodeRules(hosts=True, subsystems=frozenset({"io", "all"})))
    plain = a_request(slots(1, a_level("core", 1)))
    assert not backend.binding("c", prepare(plain)).binds
    told = a_request(slots(1, a_level("core", 1), requires=NVME))
    assert backend.binding("c", prepare(told)).hosts == (GroupHosts(0, ("node2",)),)
    nameless = a_request(slots(1, a_level("core", 1), requires=requires("io", "tb", 4)))
    assert backend.binding("c", prepare(nameless)).hosts == (GroupHosts(0, ("node2",)),), "managers know things by name"
    ranged = prepare(a_request(slots(1, a_level("core", 1), requires=(Requirement("io", (Within("tb", 2),)),))))
    assert backend.binding("c", ranged).hosts == (GroupHosts(0, ("node2",)),), "a range has no words of its own"
    backend.put_subsystem("c", a_subsystem(graph, "all", {"root": {"x": 1}}))
    everywhere = a_request(slots(1, a_level("core", 1), requires=requires("all", "x", 1)))
    assert not backend.binding("c", prepare(everywhere)).binds
    backend.put_subsystem("c", a_subsystem(graph, "all", {"root": {"model": "fast"}}))
    named = a_request(slots(1, a_level("core", 1), requires=requires("all", "model", "fast")))
    assert not backend.binding("c", prepare(named)).binds


def test_a_mixed_host_is_not_used_and_the_reason_names_it(backend: GraphBackend) -> None:
    put(backend)
    assert backend.match(prepare(gpus(2))).fit("c") is Fit.NOW
    assert backend.match(prepare(gpus(3))).fit("c") is Fit.NEVER
    [explained] = backend.explain(prepare(gpus(3)))
    [reason] = explained.reasons
    assert isinstance(reason, MixedHosts)
    assert (reason.inside, reason.where.names, reason.type, reason.subsystem) == ("node", ("node2",), "gpu", "kind")
    assert "node2" in reason.sentence()
    assert "cannot be told which gpu" in reason.sentence()
    assert backend.match(prepare(gpus(2))).verdict("c").slots_ever == 2
    assert backend.place("c", "job", prepare(gpus(2)))
    assert not backend.place("c", "another", prepare(gpus(1))), "node2 has room, but is mixed"


def test_a_mixed_host_is_used_where_the_manager_is_told_the_requirement_or_nodes_are_not_enforced(
    backend: GraphBackend,
) -> None:
    for rules, bound in ((TELLS_KIND, (GroupHosts(0, ("node1", "node2")),)), (None, ())):
        put(backend, rules)
        assert backend.match(prepare(gpus(3))).fit("c") is Fit.NOW
        binding = backend.binding("c", prepare(gpus(3)))
        assert (binding.hosts, binding.mixed) == (bound, ())


def test_a_level_without_hosts_around_it_is_all_or_nothing(backend: GraphBackend) -> None:
    cores = [Vertex(id=f"core{i}", type="core") for i in range(2)]
    graph = Graph.build([Vertex(id="root", type="cluster"), *cores], [("root", core.id) for core in cores])
    backend.put("c", graph)
    backend.set_node_rules("c", HOSTS)
    wanted = a_request(a_level("core", 1, requires=requires("soft", "x", 1)))
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"core0": {"x": 1}}))
    assert backend.match(prepare(wanted)).fit("c") is Fit.NEVER
    [explained] = backend.explain(prepare(wanted))
    assert isinstance(explained.reasons[0], MixedHosts)
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"core0,core1": {"x": 1}}))
    assert backend.match(prepare(wanted)).fit("c") is Fit.NOW


def test_groups_that_are_bound_differently_get_the_hosts_of_one_placement(backend: GraphBackend) -> None:
    put(backend)
    wanted = a_request(
        a_level("node", 1, a_level("core", 1), exclusive=True),
        a_level("node", 1, a_level("core", 1), exclusive=True, requires=NVME),
        not_hosts=("node0",),
    )
    binding = backend.binding("c", prepare(wanted))
    assert (binding.uniform, binding.by_group) == (False, True)
    assert backend.concrete_hosts("c", prepare(wanted)) == (GroupHosts(0, ("node1",)), GroupHosts(1, ("node2",)))
    assert backend.place("c", "job", prepare(a_request(a_level("node", 1, a_level("core", 1), requires=NVME))))
    assert backend.concrete_hosts("c", prepare(wanted)), "what is taken now comes back"


def test_parts_of_a_group_that_are_bound_differently_run_on_hosts_that_are_right_for_all(backend: GraphBackend) -> None:
    """A manager is told the hosts of a group, and may give any of them to any part."""
    put(backend)
    parts = Group(levels=(a_level("core", 2, requires=NVME), a_level("gpu", 1)))
    wanted = Request(groups=(parts,))
    binding = backend.binding("c", prepare(wanted))
    assert (binding.hosts, binding.by_group, binding.binds) == ((), False, True)
    assert backend.concrete_hosts("c", prepare(wanted)) == (GroupHosts(0, ("node2",)),)
    kinds = Group(
        levels=(a_level("core", 2, requires=NVME), a_level("gpu", 1, requires=requires("kind", "model", "a100")))
    )
    assert backend.match(prepare(replace(wanted, groups=(kinds,)))).fit("c") is Fit.NOW
    assert backend.concrete_hosts("c", prepare(replace(wanted, groups=(kinds,)))) == (), (
        "node1 for one part, node2 for the other"
    )
    nodes = Group(
        levels=(a_level("node", 1, a_level("core", 3), requires=NVME), a_level("node", 1, a_level("core", 1)))
    )
    assert backend.concrete_hosts("c", prepare(replace(wanted, groups=(nodes,)))) == (GroupHosts(0, ("node2",)),)


def test_marks_and_use_change_no_binding(backend: GraphBackend) -> None:
    put(backend)
    before = backend.binding("c", prepare(gpus()))
    backend.mark("c", {"node1": Mark.DOWN, "node2-socket1-gpu": Mark.DRAINED})
    backend.use("c", {"node1-socket0-gpu": 1})
    assert backend.binding("c", prepare(gpus())) == before


def test_node_rules_stay_with_a_cluster_until_it_is_removed(backend: GraphBackend) -> None:
    put(backend)
    version = backend.version
    backend.set_node_rules("c", TELLS_KIND)
    assert backend.version > version
    backend.set_node_rules("c", HOSTS)
    graph = a_graph(nodes=2, cores=4, gpus=2, sockets=2)
    backend.put("c", graph)
    backend.put_subsystem("c", a_subsystem(graph, "kind", {"node0-socket0-gpu": {"model": "a100"}}))
    assert backend.match(prepare(gpus())).fit("c") is Fit.NEVER
    backend.remove("c")
    backend.put("c", graph)
    backend.put_subsystem("c", a_subsystem(graph, "kind", {"node0-socket0-gpu": {"model": "a100"}}))
    assert backend.match(prepare(gpus())).fit("c") is Fit.NOW


def test_a_job_is_placed_on_the_hosts_that_its_manager_gave(backend: GraphBackend) -> None:
    graph = a_graph(nodes=3, cores=4, gpus=2, sockets=2, racks=1)
    backend.put("c", graph)
    whole = a_request(a_level("node", 2, a_level("core", 4)), properties=("not carried by any",))
    assert backend.place("c", "job", prepare(whole), ("node2", "elsewhere", "node0"))
    left = a_request(slots(1, a_level("core", 4)))
    assert backend.binding("c", prepare(left)).hosts == ()
    assert backend.match(prepare(left)).verdict("c").slots_now == 1
    assert not backend.place(
        "c", "more", prepare(a_request(a_level("rack", 1, a_level("node", 1, a_level("core", 4))))), ["node2"]
    )
    assert backend.place("c", "other", prepare(left), ("node1",))
    assert backend.match(prepare(left)).fit("c") is Fit.LATER
    backend.release("c", "job")
    assert backend.match(prepare(left)).verdict("c").slots_now == 2
