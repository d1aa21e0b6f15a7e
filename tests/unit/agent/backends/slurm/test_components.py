"""Groups as components of a heterogeneous job: their words, their order, and which task runs where."""

from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.slurm.files import ComponentRecord, SlurmFiles, SlurmRecord, SrunStep
from rainbow_sched.agent.backends.slurm.options import Component, components, of_group, steps
from rainbow_sched.agent.backends.slurm.shape import SlurmShape, arguments
from rainbow_sched.agent.backends.slurm.site import make_site
from rainbow_sched.discovery.slurm import parse_config, parse_nodes, parse_partitions, slurm_graph
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from rainbow_sched.protocol.messages import AllowedHosts

NODES = parse_nodes(
    "\n".join(
        f"NodeName=n{i} CPUTot=8 CPUEfctv=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=16000 State=IDLE "
        "Partitions=main,big"
        for i in range(1, 5)
    )
)
PARTITIONS = "PartitionName=main Default=YES DefMemPerCPU=UNLIMITED\nPartitionName=big DefMemPerNode=900"
CONFIG = "Configuration data as of now\nDefMemPerCPU            = 100\nSchedulerType           = sched/backfill\n"


def a_site(config: str = CONFIG, partitions: str = PARTITIONS):
    return make_site(slurm_graph("c", NODES), NODES, parse_partitions(partitions), config=parse_config(config))


SITE = a_site()


def a_group(name: str, count: int = 1) -> Group:
    level = Level(type="node", count=Count(count), shared=True, inside=(Level(type="core", count=Count(2)),))
    return Group(name=name, levels=(level,))


def a_request(*tasks: Task) -> Request:
    return Request(groups=(a_group("x", 3), a_group("y", 2)), tasks=tasks)


def made(*words: str, order: tuple[int, ...] = (0, 1)) -> tuple[Component, ...]:
    given = words or ("--ntasks=3", "--ntasks=2")
    counts = {0: 3, 1: 2}
    return tuple(Component(n, SlurmShape(slots=counts[n], cores=2), tuple(given[n].split())) for n in order)


@pytest.mark.parametrize(
    ("words", "order", "expected"),
    [
        (("--ntasks=1", "--ntasks=2"), [0, 1], ["--ntasks=1", "--ntasks=2"]),
        (("--mem=5M", "--mem-per-cpu=1M"), [1, 0], ["--mem-per-cpu=1M", "--mem=5M"]),
        (("--mem=0", "--ntasks=2"), [1, 0], ["--ntasks=2 --mem-per-cpu=100M", "--mem=0"]),
        (("--mem-per-cpu=7M", "--ntasks=2"), [0, 1], ["--mem-per-cpu=7M", "--ntasks=2"]),
        (("--mem=5M", "--partition=big"), [0, 1], ["--mem=5M", "--partition=big --mem=900M"]),
        (("-a --licenses=m:1", "-b --licenses=m:1"), [0, 1], ["-a --licenses=m:1", "-b"]),
    ],
)
def test_no_component_gets_memory_or_licenses_of_another(words: tuple[str, str], order: list[int], expected: list[str]):
    found = components(made(*words), SITE)
    assert [one.group for one in found] == order
    assert [" ".join(one.words) for one in found] == expected


def test_where_slurm_has_no_default_a_job_that_says_nothing_gets_all_memory():
    found = components(made("--mem=5M", "--ntasks=1"), a_site(config=""))
    assert [one.words[-1] for one in found] == ["--mem=5M", "--mem=0"]


def test_a_component_always_says_which_nodes_it_excludes():
    free, bound = SlurmShape(nodes=1, cores=1), SlurmShape(nodes=1, cores=1, exclude=frozenset({"n2", "n3", "n4"}))
    assert "--exclude=" in arguments(free, SITE, None, component=True)
    assert "--exclude=n[2-4]" in arguments(bound, SITE, None, component=True)
    assert "--nodelist=n1" in arguments(bound, SITE, None)


def test_each_group_has_its_own_hosts():
    hosts = AllowedHosts((GroupHosts(1, ("n3",)),), checked=True)
    request = a_request(Task(command=("true",)))
    first, second = (of_group(request, hosts, n) for n in (0, 1))
    assert (first[0].groups, first[1].of(0), first[1].checked) == (request.groups[:1], (), True)
    assert (second[0].groups, second[1].of(0)) == (request.groups[1:], ("n3",))


def started(request: Request, *, order: tuple[int, ...] = (0, 1), site=SITE) -> list[tuple[int, str, str]]:
    """Of each step: which task, in which component, how often."""
    found = steps(request, made(order=order), site)
    return [(one.task, one.words[1].rpartition("=")[2], one.words[2].rpartition("=")[2]) for one in found]


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([Task(command=("t",), group="x"), Task(command=("t",), group="y")], [(0, "0", "3"), (1, "1", "2")]),
        ([Task(command=("t",), group="y"), Task(command=("t",), group="x")], [(1, "0", "3"), (0, "1", "2")]),
        ([Task(command=("t",), group="y", per_slot=2)], [(0, "1", "4")]),
        ([Task(command=("t",))], [(0, "0", "3"), (0, "1", "2")]),
        ([Task(command=("t",), total=4)], [(0, "0", "3"), (0, "1", "1")]),
        ([Task(command=("t",), total=9)], [(0, "0", "7"), (0, "1", "2")]),
        ([Task(command=("t",), total=2)], [(0, "0", "2")]),
        ([Task(script="t")], []),
        ([Task(script="t", group="y")], [(0, "1", "1")]),
        ([Task(command=("t",), group="x", total=1)], []),
        ([Task(command=("t",), group="nobody")], [(0, "0", "3"), (0, "1", "2")]),
    ],
)
def test_tasks_run_in_the_component_of_their_group(tasks: list[Task], expected: list[tuple[int, str, str]]):
    assert started(a_request(*tasks)) == expected


def test_a_group_keeps_its_tasks_wherever_its_component_is():
    tasks = Task(command=("t",), group="x"), Task(command=("t",), group="y")
    assert started(a_request(*tasks), order=(1, 0)) == [(0, "1", "3"), (1, "0", "2")]
    assert started(a_request(Task(script="t")), order=(1, 0)) == [(0, "1", "1")]


def test_what_one_srun_cannot_start_is_refused():
    twice = a_request(Task(command=("t",), group="x"), Task(command=("u",), group="x"))
    with pytest.raises(Unsupported, match="group 1 of this request has several"):
        steps(twice, made(), SITE)
    site = a_site(f"{CONFIG}SchedulerParameters = bf_continue,disable_hetjob_steps\n")
    with pytest.raises(Unsupported, match="disable_hetjob_steps"):
        steps(a_request(Task(command=("t",))), made(), site)
    assert started(a_request(Task(command=("t",), group="y")), site=site) == [(0, "1", "2")]


def test_a_slurm_that_cannot_start_heterogeneous_jobs_says_so():
    assert SITE.no_groups == ""
    assert a_site("").no_groups == ""
    builtin = a_site(CONFIG.replace("backfill", "builtin"))
    assert builtin.no_groups == "Slurm starts heterogeneous jobs only with sched/backfill; this site uses sched/builtin"


def a_record(*parts: ComponentRecord) -> SlurmRecord:
    return SlurmRecord(key="k", asked=1000.0, parts=parts).whole()


def test_a_record_reads_back_with_its_parts_and_one_of_a_single_part_is_that(tmp_path: Path):
    record = a_record(ComponentRecord(cores=2, only="n1"), ComponentRecord(cores=4, gpus=1, only="n[2-3]"))
    files = SlurmFiles(tmp_path, "rb-1-1")
    files.path.mkdir()
    files.put(record)
    assert files.record() == record
    assert (record.only, record.allowed) == ("n[1-3]", "n1 : n[2-3]")
    assert (record.part(1).cores, record.part(1).gpus, record.part(1).only) == (4, 1, "n[2-3]")
    assert a_record(ComponentRecord(cores=2, only="n1")) == SlurmRecord(key="k", asked=1000.0, cores=2, only="n1")


def test_every_bound_component_is_checked_and_one_srun_starts_all(tmp_path: Path):
    request = replace(a_request(Task(command=("a", ":", "b")), Task(command=("c",))), duration=60.0)
    files = SlurmFiles(tmp_path, "rb-1-1")
    launch = Launch(tag="rb-1-1", job=1, attempt=1, cluster="c", request=request)
    record = a_record(ComponentRecord(), ComponentRecord(only="n2"))
    files.create(record)
    files.write(launch, record, [SrunStep(0, ("srun", "--het-group=0")), SrunStep(1, ("srun", "--het-group=1"))])
    text = files.script.read_text()
    assert 'rb_outside "${SLURM_JOB_NODELIST_HET_GROUP_1}" n2' in text
    assert 'rb_outside "${SLURM_JOB_NODELIST_HET_GROUP_0}"' not in text
    first, second = (f"/bin/sh {files.path}/task{n}.sh" for n in (0, 1))
    assert f"60 srun --het-group=0 {first} : --het-group=1 {second}\n" in text
    assert (files.path / "task0.sh").read_text().endswith("exec a : b\n")
    assert files.command() == "a or c"
