"""In which partitions a job could run, by their limits and their nodes; and who is told so before it waits for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rainbow_sched.agent.backends.slurm.capacity import PartitionRequest, pick
from rainbow_sched.agent.backends.slurm.shape import SlurmShape
from rainbow_sched.agent.backends.slurm.site import SlurmSite, make_site
from rainbow_sched.discovery.slurm import SlurmNode, free_totals, nodes_not_up, parse_partitions, seconds, slurm_graph
from rainbow_sched.model.errors import Unsupported

EVERYBODY = "AllowGroups=ALL AllowAccounts=ALL MaxTime=UNLIMITED"
SHOWN = f"""\
PartitionName=main Default=YES AllowGroups=ALL AllowAccounts=ALL MaxNodes=UNLIMITED MaxTime=1-00:00:00 State=UP
PartitionName=short Default=NO AllowGroups=ALL AllowAccounts=ALL MaxNodes=1 MaxTime=00:05:00 State=UP
PartitionName=big {EVERYBODY} MaxNodes=UNLIMITED MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes=b1 State=UP
PartitionName=pairs {EVERYBODY} MinNodes=2 State=UP
PartitionName=few {EVERYBODY} MaxCPUsPerNode=2 State=UP
PartitionName=paid AllowGroups=ALL AllowAccounts=phys,chem MaxTime=UNLIMITED State=UP
PartitionName=wheel AllowGroups=admins AllowAccounts=ALL MaxTime=UNLIMITED State=UP
PartitionName=shut {EVERYBODY} State=DOWN
"""
RULES = parse_partitions(SHOWN)


def a_node(name: str, cores: int, *partitions: str) -> SlurmNode:
    return SlurmNode(
        name=name, states=("IDLE",), cpus=cores, cpus_usable=cores, sockets=cores, memory=8000, partitions=partitions
    )


NODES = (
    a_node("a1", 4, "main", "short", "pairs", "few", "paid"),
    a_node("a2", 4, "main", "short", "pairs", "few"),
    a_node("b1", 16, "big"),
    a_node("c1", 32, "wheel", "shut"),
)


@pytest.fixture
def site() -> SlurmSite:
    return make_site(slurm_graph("c", NODES), NODES, RULES, frozenset({"users"}))


def test_the_default_partition_is_left_to_slurm(site: SlurmSite):
    assert pick(SlurmShape(nodes=2, cores=4), site, NODES, PartitionRequest(duration=3600.0)) == ""


def test_a_job_that_does_not_fit_the_default_one_is_sent_where_it_fits(site: SlurmSite):
    assert pick(SlurmShape(nodes=1, cores=16), site, NODES, PartitionRequest()) == "big"
    assert pick(SlurmShape(nodes=1, cores=2), site, NODES, PartitionRequest(duration=2 * 86400.0)) == "big,few"
    assert pick(SlurmShape(nodes=2, cores=4), site, NODES, PartitionRequest(duration=2 * 86400.0)) == "pairs"


@pytest.mark.parametrize(
    ("shape", "asked", "reason"),
    [
        (
            SlurmShape(nodes=1),
            PartitionRequest("short", duration=600.0),
            "partition short runs jobs of 5 min at most, not 10 min",
        ),
        (SlurmShape(nodes=2), PartitionRequest("short"), "gives a job 1 nodes at most, not 2"),
        (SlurmShape(nodes=1), PartitionRequest("pairs"), "gives a job 2 nodes at least, not 1"),
        (SlurmShape(nodes=1, cores=3), PartitionRequest("few"), "2 cpus of a node at most, not 3"),
        (SlurmShape(nodes=1), PartitionRequest("paid"), "is for the accounts phys, chem, and the job names none"),
        (SlurmShape(nodes=1), PartitionRequest("paid", "bio"), "not bio"),
        (SlurmShape(nodes=1), PartitionRequest("wheel"), "is for the groups admins only"),
        (SlurmShape(nodes=1), PartitionRequest("shut"), "is not available: down"),
        (SlurmShape(nodes=1, cores=16), PartitionRequest("main"), "in partition main: 1 nodes with 16 core are needed"),
        (SlurmShape(nodes=1), PartitionRequest("nope"), "no partition 'nope'; this cluster has big, few, main"),
        (SlurmShape(nodes=1, cores=32), PartitionRequest(), "in partition main"),
        (SlurmShape(nodes=1, cores=64), PartitionRequest(), "a node has at most 32 core"),
    ],
)
def test_what_would_wait_for_ever_is_refused_with_the_reason(
    site: SlurmSite, shape: SlurmShape, asked: PartitionRequest, reason: str
):
    with pytest.raises(Unsupported, match=reason):
        pick(shape, site, NODES, asked)


def test_of_several_named_partitions_those_are_taken_in_which_it_fits(site: SlurmSite):
    assert pick(SlurmShape(nodes=1), site, NODES, PartitionRequest("short,main", duration=600.0)) == "main"
    assert pick(SlurmShape(nodes=1), site, NODES, PartitionRequest("paid", "chem")) == "paid"


def test_without_a_default_partition_those_that_fit_are_named(site: SlurmSite):
    rules = {name: replace(rule, default=False) for name, rule in site.rules.items()}
    plain = replace(site, rules=rules)
    assert pick(SlurmShape(nodes=1, cores=16), plain, NODES, PartitionRequest()) == "big"
    with pytest.raises(Unsupported, match="a node has at most"):
        pick(SlurmShape(nodes=1, cores=64), plain, NODES, PartitionRequest())


def test_an_account_that_is_shut_out_is_told_so(site: SlurmSite):
    rules = {**site.rules, "main": replace(site.rules["main"], not_accounts=("bio",))}
    with pytest.raises(Unsupported, match="not for the account bio"):
        pick(SlurmShape(nodes=1), replace(site, rules=rules), NODES, PartitionRequest("main", "bio"))


def test_where_the_groups_of_our_user_are_not_known_slurm_decides(site: SlurmSite):
    assert pick(SlurmShape(nodes=1), replace(site, groups=frozenset()), NODES, PartitionRequest("wheel")) == "wheel"


def test_a_node_in_no_partition_of_ours_counts_as_drained(site: SlurmSite):
    away = site.unreachable(NODES)
    assert away == {"c1"}
    assert nodes_not_up(NODES, away) == {"c1": "drained"}
    assert free_totals(NODES, away)["cores_free"] == 24


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("00:05:00", 300.0), ("1-12:00:00", 129600.0), ("30", 1800.0), ("2:30", 150.0), ("UNLIMITED", None), ("", None)],
)
def test_times_are_read_as_slurm_writes_them(text: str, wanted: float | None):
    assert seconds(text) == wanted
