"""Requests in sbatch's words, and what sbatch cannot say."""

from dataclasses import replace

import pytest

from rainbow_sched.agent.backends.base import CannotBind, Prices
from rainbow_sched.agent.backends.slurm.capacity import lacks, within_racks
from rainbow_sched.agent.backends.slurm.options import nodes_in_extra, option_words
from rainbow_sched.agent.backends.slurm.shape import SlurmShape, arguments, cost, shape
from rainbow_sched.agent.backends.slurm.site import make_site
from rainbow_sched.discovery.slurm import parse_nodes, parse_partitions, slurm_graph
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Within
from rainbow_sched.protocol.messages import AllowedHosts

LINE = (
    "NodeName={name} CoresPerSocket=1 CPUAlloc=0 CPUEfctv=8 CPUTot=8 ActiveFeatures={features} Gres={gres} "
    "RealMemory=16000 Sockets=8 State=IDLE ThreadsPerCore={threads} Partitions={partitions}"
)

NVME = (Requirement("io", (Equals("kind", "nvme"),)),)


def the_nodes(threads: int = 1):
    lines = [
        LINE.format(name=f"a{i}", features="ib", gres="(null)", partitions="main", threads=threads) for i in (1, 2, 3)
    ]
    lines.append(LINE.format(name="g1", features="a100", gres="gpu:a100:4,fpga:2", partitions="main,gpu", threads=1))
    return parse_nodes("\n".join(lines))


NODES = the_nodes()
PARTITIONS = parse_partitions("PartitionName=main\nPartitionName=gpu")
SITE = make_site(slurm_graph("c", NODES), NODES, PARTITIONS)
RACKS = {"a1": "r1", "a2": "r1", "a3": "r2", "g1": "r2"}
RACKED = make_site(slurm_graph("c", NODES, RACKS), NODES, PARTITIONS)
HALF = make_site(slurm_graph("c", NODES, {"a1": "r1", "a2": "r1"}), NODES, PARTITIONS)
OTHER = {"features": "ib", "gres": "(null)", "partitions": "main", "threads": 1}


def flags(**given: object) -> Request:
    return request_from_flags(Flags(command=("true",), **given))


def words(request: Request, site=SITE) -> list[str]:
    return arguments(shape(request, site), site, request.duration)


def of(*levels: Level) -> Request:
    return Request(groups=(Group(levels=levels),))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (flags(), ["--ntasks=1", "--cpus-per-task=1"]),
        (flags(tasks=4, cores_per_task=2), ["--ntasks=4", "--cpus-per-task=2"]),
        (flags(nodes=2, tasks=4, cores_per_task=2), ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4"]),
        (flags(nodes=2), ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--exclusive"]),
        (flags(tasks=2, gpus_per_task=1), ["--ntasks=2", "--cpus-per-task=1", "--gpus-per-task=1"]),
        (flags(tasks=2, cores_per_task=2, memory="4G"), ["--ntasks=2", "--cpus-per-task=2", "--mem-per-cpu=1024M"]),
        (
            replace(flags(nodes=1, tasks=1, gpus_per_node=2, memory="4G"), duration=90.0),
            [
                "--nodes=1",
                "--ntasks-per-node=1",
                "--cpus-per-task=1",
                "--gres=gpu:2",
                "--mem=4096M",
                "--time=2",
            ],
        ),
        (of(Level(type="node", count=Count(2))), ["--nodes=2", "--ntasks-per-node=1", "--mem=0", "--exclusive"]),
        (of(Level(type="core", count=Count(8))), ["--ntasks=8", "--cpus-per-task=1"]),
        (of(Level(type="gpu", count=Count(3))), ["--ntasks=1", "--cpus-per-task=1", "--gpus=3"]),
        (
            of(Level(type="node", inside=(Level(type="fpga", count=Count(2)),))),
            ["--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--gres=fpga:2"],
        ),
        (replace(flags(), not_hosts=("a1", "a2")), ["--ntasks=1", "--cpus-per-task=1", "--exclude=a[1-2]"]),
        (replace(flags(), hosts=("g1",)), ["--ntasks=1", "--cpus-per-task=1", "--exclude=a[1-3]"]),
        (replace(flags(), properties=("^ib",)), ["--ntasks=1", "--cpus-per-task=1", "--exclude=a[1-3]"]),
    ],
)
def test_a_request_is_said_in_the_words_of_sbatch(request_: Request, expected: list[str]):
    assert words(request_) == expected


def in_one_rack(count: int) -> Request:
    inside = Level(type="node", count=Count(count), inside=(Level(type="core", count=Count(2)),))
    return of(Level(type="rack", shared=True, abstract=True, inside=(inside,)))


def test_a_rack_stands_for_the_cluster_where_there_are_none():
    found = shape(in_one_rack(2), SITE)
    assert within_racks(found, SITE, NODES) == [found]
    assert not found.exclude


def test_one_rack_is_chosen_where_there_are_several_and_first_the_one_with_room():
    found = shape(in_one_rack(2), RACKED)
    assert [one.only for one in within_racks(found, RACKED, NODES)] == [("a1", "a2"), ("a3", "g1")]
    busy = [replace(node, cpus_alloc=7 if node.name == "a1" else 4) for node in NODES]
    assert [one.only for one in within_racks(found, RACKED, busy)] == [("a3", "g1"), ("a1", "a2")]
    away = [replace(node, states=("DOWN",) if node.name == "a2" else node.states) for node in NODES]
    [first, second] = within_racks(found, RACKED, away)
    assert (first.only, second.only) == (("a3", "g1"), ("a1", "a2"))
    assert "--nodelist=a[1-2]" in arguments(second, RACKED, None)


def test_one_node_may_lie_in_any_rack_and_what_lies_in_none_is_not_used():
    found = shape(replace(in_one_rack(1), not_hosts=("a1",)), HALF)
    assert [one.only for one in within_racks(found, HALF, NODES)] == [("a2",)]
    assert [one.only for one in within_racks(shape(in_one_rack(2), HALF), HALF, NODES)] == [("a1", "a2")]


def test_racks_without_a_node_that_slurm_knows_are_refused_with_both_names():
    elsewhere = make_site(RACKED.graph, parse_nodes(LINE.format(name="z1", **OTHER)), PARTITIONS)
    with pytest.raises(CannotBind, match=r"a\[1-3\],g1, but Slurm has z1"):
        within_racks(shape(in_one_rack(2), elsewhere), elsewhere, ())


def test_where_a_core_is_two_cpus_slurm_is_told_to_count_cores():
    nodes = parse_nodes(
        "NodeName=t1 CoresPerSocket=4 CPUTot=16 Sockets=2 ThreadsPerCore=2 RealMemory=1 State=IDLE Partitions=main"
    )
    site = make_site(slurm_graph("c", nodes), nodes, PARTITIONS)
    assert "--threads-per-core=1" in words(flags(cores_per_task=4), site)


def test_requirements_on_what_slurm_knows_become_its_words_and_others_are_kept_by_the_allowed_hosts():
    level = Level(
        type="node",
        requires=(
            Requirement("features", (Equals("name", "a100"),)),
            Requirement("gpus", (Equals("model", "a100"),)),
            Requirement("software", (Within("version", min="2"),)),
        ),
        inside=(Level(type="gpu", count=Count(2)),),
    )
    found = shape(of(level), SITE, AllowedHosts((GroupHosts(0, ("g1",)),), checked=True))
    assert (found.features, found.gpu_kind, found.only) == (frozenset({"a100"}), "a100", ("g1",))
    assert "--gres=gpu:a100:2" in arguments(found, SITE, None)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            of(Level(type="rack", exclusive=True, inside=(Level(type="node", inside=(Level(type="core"),)),))),
            "allocates nodes exclusively, not a rack",
        ),
        (of(Level(type="quantum", count=Count(1))), "quantum: 0 here"),
        (
            of(Level(type="node", inside=(Level(type="quantum"),))),
            "quantum: 0 here, 1 needed; this cluster has core, fpga",
        ),
        (
            of(Level(type="node", inside=(Level(type="socket", inside=(Level(type="core"),)),))),
            "1 socket inside a node",
        ),
        (of(Level(type="memory", count=Count(5), unit="GB")), "5 memory by itself"),
        (of(Level(type="rack", inside=(Level(type="node"),))), "rack: 0 here"),
        (replace(flags(), properties=("h100",)), "'h100'"),
        (
            of(Level(type="node", requires=(Requirement("features", (Within("name", min="a"),)),))),
            "requirement on features, which Slurm cannot enforce, and the server does not send the allowed nodes",
        ),
        (of(Level(type="node", requires=NVME)), "requirement on io"),
        (
            replace(flags(), requires=(Requirement("gpus", (Equals("model", "h100"),)),)),
            "no h100; this cluster has a100",
        ),
        (replace(flags(), requires=(Requirement("partitions", (Equals("name", "x"),)),)), "no partition 'x'"),
        (replace(flags(), hosts=("elsewhere",)), "no node of this cluster"),
        (
            of(Level(type="node", shared=True, count=Count(2), inside=(Level(type="fpga"),))),
            "fpga per node, not per slot",
        ),
    ],
)
def test_what_slurm_cannot_be_told_is_refused_by_name(request_: Request, reason: str):
    with pytest.raises(Unsupported, match=reason):
        shape(request_, SITE)


@pytest.mark.parametrize(
    ("found", "fits"),
    [
        (SlurmShape(slots=32, cores=1), True),
        (SlurmShape(slots=33, cores=1), False),
        (SlurmShape(slots=4, cores=8), True),
        (SlurmShape(slots=5, cores=5), False),
        (SlurmShape(nodes=4, cores=8), True),
        (SlurmShape(nodes=1, cores=9), False),
        (SlurmShape(nodes=2, cores=1, gpus=1), False),
        (SlurmShape(slots=4, cores=1, gpus=1), True),
        (SlurmShape(gpus_in_all=5), False),
        (SlurmShape(nodes=1, cores=1, memory=16001), False),
        (SlurmShape(nodes=4, cores=1, features=frozenset({"ib"})), False),
        (SlurmShape(nodes=3, cores=1, features=frozenset({"ib"})), True),
        (SlurmShape(nodes=2, cores=1, partition="gpu"), False),
        (SlurmShape(slots=9, cores=1, partition="gpu"), False),
        (SlurmShape(slots=8, cores=1, partition="gpu"), True),
        (SlurmShape(nodes=1, cores=1, gres=(("fpga", 3),)), False),
        (SlurmShape(slots=1, cores=1, gpus=1, gpu_kind="h100"), False),
    ],
)
def test_what_can_never_run_is_known_before_it_is_submitted(found: SlurmShape, fits: bool):
    reason = lacks(found, NODES)
    assert (reason is None) is fits
    assert fits or "at most 8 core" in reason


def test_a_job_costs_its_cores_nodes_and_gpus_for_its_time():
    found = SlurmShape(nodes=2, cores=4, gpus=1)
    prices = Prices(core_hour=0.1, node_hour=1.0, gpu_hour=2.0)
    assert cost(found, prices, 1800) == pytest.approx(0.5 * (0.8 + 2 + 4))
    assert cost(found, prices, None) is None
    assert cost(found, Prices(), None) == 0.0


def test_the_gpus_of_a_single_slot_are_asked_for_in_the_words_that_every_select_plugin_knows():
    one = arguments(SlurmShape(slots=1, cores=1, gpus=2, gpu_kind="a100"), SITE, None)
    assert "--gres=gpu:a100:2" in one
    assert not any(word.startswith("--gpus-per-task") for word in one)
    assert "--gpus-per-task=2" in arguments(SlurmShape(slots=2, cores=1, gpus=2), SITE, None)


def bound(*hosts: str) -> AllowedHosts:
    """What a server says that worked the hosts out."""
    return AllowedHosts((GroupHosts(0, hosts),) if hosts else (), checked=True)


def host_words(request: Request, allowed: AllowedHosts, *, named: bool = False) -> list[str]:
    made = arguments(shape(request, SITE, allowed), SITE, None, named=named)
    return [word for word in made if word.startswith(("--exclude", "--nodelist"))]


@pytest.mark.parametrize(
    ("request_", "allowed", "expected"),
    [
        (flags(), bound(), []),
        (flags(), bound("a2", "g1"), ["--exclude=a[1,3]"]),
        (flags(nodes=2, tasks=2), bound("a1", "a2", "g1"), ["--exclude=a3"]),
        (flags(nodes=2, tasks=2), bound("a3", "g1"), ["--nodelist=a3,g1"]),  # exactly these are needed
        (replace(flags(), not_hosts=("a2",)), bound("a2", "g1"), ["--exclude=a[1-3]"]),
        (replace(flags(), hosts=("a1", "a2")), bound("a2", "g1"), ["--exclude=a[1,3],g1"]),
        (replace(flags(), hosts=("r1",)), bound("a1", "a2"), ["--exclude=a3,g1"]),  # a rack, by its nodes
        (replace(flags(), properties=("^ib",)), bound("a1", "g1"), ["--exclude=a[1-3]"]),
        (replace(flags(), properties=("quiet",)), bound("a1"), ["--exclude=a[2-3],g1"]),  # not a word of Slurm
    ],
)
def test_slurm_chooses_among_the_allowed_hosts(request_: Request, allowed: AllowedHosts, expected: list[str]):
    assert host_words(request_, allowed) == expected


def test_nodes_that_the_users_own_words_name_are_not_overruled_by_ours():
    """Slurm honours the last word of a kind only."""
    two = flags(nodes=2, tasks=2)
    assert host_words(two, bound("a3", "g1"), named=True) == ["--exclude=a[1-2]"]
    words = {"extra": "--exclude=a[1-2] --nodelist=g1 --nice=5"}
    assert nodes_in_extra(words) == (["a1", "a2"], True)
    said = option_words(words, {"allow_extra": "exclude,nodelist"})
    assert said == ["--nodelist=g1", "--nice=5"]


@pytest.mark.parametrize(
    ("request_", "allowed", "reason"),
    [
        (flags(), bound("x1", "x2"), r"may run on x\[1-2\], but Slurm has a\[1-3\],g1"),
        (flags(), AllowedHosts(), None),
        (of(Level(type="node", requires=NVME)), bound(), None),
        (of(Level(type="node", requires=NVME)), AllowedHosts(), "upgrade"),
        (of(Level(type="cluster", requires=NVME, inside=flags().groups[0].levels)), AllowedHosts(), None),
        (replace(flags(), not_hosts=("r1",)), AllowedHosts(), "r1 is not a node, and the server does not send"),
        (replace(flags(), properties=("quiet",)), AllowedHosts(), "neither a feature nor a partition"),
    ],
)
def test_a_job_that_cannot_be_kept_on_its_nodes_is_refused(
    request_: Request, allowed: AllowedHosts, reason: str | None
):
    if reason is None:
        assert shape(request_, RACKED, allowed)
        return
    with pytest.raises(Unsupported, match=reason):
        shape(request_, RACKED, allowed)


def test_gpus_of_two_kinds_are_refused_and_not_given_as_one():
    kinds = [Level(type="gpu", requires=(Requirement("gpus", (Equals("model", kind),)),)) for kind in ("a100", "v100")]
    lines = [
        LINE.format(name="m1", features="x", gres="gpu:a100:2,gpu:v100:2", partitions="main", threads=1),
    ]
    nodes = parse_nodes("\n".join(lines))
    with pytest.raises(Unsupported, match="of one kind, not of a100 and v100"):
        shape(of(Level(type="node", inside=tuple(kinds))), make_site(slurm_graph("c", nodes), nodes, PARTITIONS))


def test_a_list_of_nodes_that_no_command_line_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rainbow_sched.agent.backends.slurm.shape.MAX_OPTION_BYTES", 10)
    with pytest.raises(CannotBind, match="too long for sbatch"):
        host_words(flags(), bound("a2"))
