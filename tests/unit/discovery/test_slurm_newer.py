"""The text of a newer Slurm (24.11) has more keys, other states and other gres, and reads the same."""

from __future__ import annotations

from rainbow_sched.discovery.slurm import Gres, mark, parse_nodes, parse_partitions, parse_topology
from rainbow_sched.model.graph import Mark

NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=8  CPUAlloc=4 CPUEfctv=30 CPUTot=32 ActiveFeatures=a,b "
    "Gres=gpu:h100:4(S:0-1),shard:h100:16(S:0-1) GresDrain=N/A GresUsed=gpu:h100:1(IDX:0),shard:h100:0(0/4,0/4) "
    "Version=24.11.0 RealMemory=64000 AllocMem=400 Sockets=2 CoreSpecCount=1 CPUSpecList=15,31 MemSpecLimit=1024 "
    "State=MIXED+PLANNED ThreadsPerCore=2 Partitions=main,gpu ResumeAfterTime=None CfgTRES=cpu=30,mem=64000M "
    "Reason=free text State=DOWN Partitions=other [root@2026-11-15T00:00:00]"
)
PARTITION = (
    "PartitionName=main AllowGroups=ALL DenyAccounts=guest AllowQos=ALL Default=YES ExclusiveTopo=NO "
    "MaxNodes=4 MaxTime=2-00:00:00 MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] State=UP "
    "TRESBillingWeights=CPU=1"
)
BLOCKS = (
    "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nAggregatedBlock=b1-2 BlockIndex=2 Nodes=n[1-4] BlockSize=4\n"
)


def test_a_node_is_read_with_what_is_kept_for_the_system_left_out():
    [node] = parse_nodes(NODE)
    assert (node.cores, node.cores_alloc, node.memory) == (15, 2, 62976)
    assert (node.gres, node.gres_used) == ((Gres("gpu", "h100", 4),), (Gres("gpu", "h100", 1),))
    assert (node.partitions, mark(node)) == (("main", "gpu"), Mark.UP), "free text is no key"


def test_a_partition_says_who_may_not_use_it():
    [part] = parse_partitions(PARTITION)
    assert (part.accounts, part.not_accounts, part.max_nodes, part.limit) == ((), ("guest",), 4, 172800.0)


def test_blocks_stand_for_racks():
    assert parse_topology(BLOCKS) == {"n1": "b1", "n2": "b1"}
