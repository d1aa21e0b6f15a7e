"""Parse the output of Slurm's commands about nodes, partitions and switches.

Text, not JSON: the keys of `scontrol -o show` are the same in Slurm 22.05 and 24.11, but their
JSON differs and 22.05 has no `scontrol --json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hostlist import expand

SHOW_NODES = ("scontrol", "-d", "-o", "show", "node")  # -d: with the gres in use
SHOW_PARTITIONS = ("scontrol", "-o", "show", "partition")
SHOW_CONFIG = ("scontrol", "show", "config")
SHOW_TOPOLOGY = ("scontrol", "-o", "show", "topology")

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)")
_PARENTHESES = re.compile(r"\([^()]*\)")
_GRES_COUNT = re.compile(r"(\d+)([KMGkmg]?)", re.ASCII)
_MULTIPLE = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)
_SHARES = frozenset({"mps", "shard"})  # other views of the same gpus


@dataclass(frozen=True, slots=True)
class Gres:
    """Generic resources of one kind on a node."""

    name: str  # gpu, fpga …
    kind: str  # a100; empty if not configured
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node as `scontrol show node` describes it."""

    name: str
    states: tuple[str, ...]  # the base state first, then flags: IDLE, DRAIN
    responding: bool = True
    cpus: int = 1
    cpus_alloc: int = 0
    cpus_usable: int = 1  # without cpus that are reserved for the system
    sockets: int = 1
    cores_per_socket: int = 1
    threads: int = 1
    memory: int = 1  # MiB
    memory_alloc: int = 0
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    gres: tuple[Gres, ...] = ()
    gres_used: tuple[Gres, ...] = ()

    @property
    def cores(self) -> int:
        """Cores that jobs may use."""
        per_core = self.threads if self.cpus >= self.sockets * self.cores_per_socket * self.threads else 1
        return max(1, self.cpus_usable // per_core)

    def cores_of(self, cpus: int) -> int:
        """Return the number of cores for a number of cpus; a core is in use if one of its threads is."""
        return min(self.cores, -(-cpus // self.cpus_per_core))

    @property
    def cpus_per_core(self) -> int:
        return max(1, self.cpus // max(1, self.sockets * self.cores_per_socket))

    @property
    def cores_alloc(self) -> int:
        """Cores in use."""
        return self.cores_of(self.cpus_alloc)

    @property
    def even(self) -> bool:
        """True if the sockets contain all cores equally, so that the graph can show them."""
        return self.sockets > 1 and self.cores_per_socket > 1 and self.sockets * self.cores_per_socket == self.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPartition:
    """One partition as `scontrol show partition` describes it."""

    name: str
    default: bool = False
    state: str = "UP"
    max_time: str = ""  # as Slurm writes it; empty: no limit
    max_nodes: int | None = None  # of one job
    min_nodes: int = 0
    max_cpus: int | None = None  # of one job on each node
    accounts: tuple[str, ...] = ()  # allowed accounts; empty: all
    not_accounts: tuple[str, ...] = ()  # denied accounts
    groups: tuple[str, ...] = ()
    nodes: str = ""
    memory: Mapping[str, str] = field(default_factory=dict)  # default memory of jobs, if the partition sets it

    @property
    def up(self) -> bool:
        """True if it accepts and starts jobs."""
        return self.state == "UP"

    @property
    def limit(self) -> float | None:
        """The time limit of jobs, in seconds."""
        return seconds(self.max_time)


def check_conf(path: str) -> str:
    """Return the path of a slurm.conf; raise Invalid if it is missing: Slurm's programs would retry for a minute."""
    if not Path(path).is_file():
        raise Invalid(f"-O conf: there is no file {path}")
    return path


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Parse the nodes of `scontrol -d -o show node`."""
    return tuple(_node(pairs) for pairs in _records(text, "NodeName"))


def parse_partitions(text: str) -> tuple[SlurmPartition, ...]:
    """Parse the partitions of `scontrol -o show partition`."""
    return tuple(
        SlurmPartition(
            name=pairs["PartitionName"],
            default=pairs.get("Default") == "YES",
            state=pairs.get("State", "UP"),
            max_time="" if pairs.get("MaxTime") in (None, "UNLIMITED") else pairs["MaxTime"],
            max_nodes=_limit(pairs.get("MaxNodes")),
            min_nodes=_number(pairs.get("MinNodes"), 0),
            max_cpus=_limit(pairs.get("MaxCPUsPerNode")),
            accounts=() if pairs.get("AllowAccounts") == "ALL" else _names(pairs.get("AllowAccounts")),
            not_accounts=_names(pairs.get("DenyAccounts")),
            groups=() if pairs.get("AllowGroups") == "ALL" else _names(pairs.get("AllowGroups")),
            nodes=_text(pairs.get("Nodes")),
            memory={name: pairs[name] for name in ("DefMemPerCPU", "DefMemPerNode") if name in pairs},
        )
        for pairs in _records(text, "PartitionName")
    )


def parse_config(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def parse_topology(text: str) -> dict[str, str]:
    """Parse the leaf switch of each node, which stands for its rack; empty without a topology."""
    racks: dict[str, str] = {}
    for key in ("SwitchName", "BlockName"):  # blocks have no levels
        for pairs in _records(text, key):
            if pairs.get("Level", "0") == "0":
                for node in node_names(_text(pairs.get("Nodes"))):
                    racks.setdefault(node, pairs[key])
    return racks


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Parse `gpu:a100:4(S:0-1),fpga:1`; resources that jobs cannot allocate are left out."""
    found = []
    for part in _PARENTHESES.sub("", _text(text)).split(","):
        words = part.split(":")
        if not words[0] or "no_consume" in words or words[0] in _SHARES:
            continue
        count = _GRES_COUNT.fullmatch(words[-1]) if len(words) > 1 else None
        kinds = words[1:-1] if count else words[1:]
        many = int(count[1]) * _MULTIPLE[count[2].lower()] if count else 1
        if many:
            found.append(Gres(words[0], ":".join(kinds), many))
    return tuple(found)


def _records(text: str, key: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        pairs: dict[str, str] = {}
        for name, value in _PAIR.findall(line):
            pairs.setdefault(name, value)  # the first wins: free text such as Reason comes last
        if pairs.get(key):
            yield pairs


def _node(pairs: Mapping[str, str]) -> SlurmNode:
    state = pairs.get("State", "UNKNOWN")
    words = tuple(word for word in re.split(r"[^A-Z_]+", state.upper()) if word)
    cpus = _number(pairs.get("CPUTot"), 1)
    features = pairs.get("ActiveFeatures") or pairs.get("AvailableFeatures")
    return SlurmNode(
        name=pairs["NodeName"],
        states=words or ("UNKNOWN",),
        responding="*" not in state and "NOT_RESPONDING" not in words,
        cpus=cpus,
        cpus_alloc=_number(pairs.get("CPUAlloc"), 0),
        cpus_usable=_number(pairs.get("CPUEfctv"), cpus),
        sockets=_number(pairs.get("Sockets"), 1) or 1,
        cores_per_socket=_number(pairs.get("CoresPerSocket"), 1) or 1,
        threads=_number(pairs.get("ThreadsPerCore"), 1) or 1,
        memory=max(1, _number(pairs.get("RealMemory"), 1) - _number(pairs.get("MemSpecLimit"), 0)),
        memory_alloc=_number(pairs.get("AllocMem"), 0),
        features=_names(features),
        partitions=_names(pairs.get("Partitions")),
        gres=parse_gres(pairs.get("Gres", "")),
        gres_used=parse_gres(pairs.get("GresUsed", "")),
    )


def _text(value: str | None) -> str:
    return "" if value in (None, "(null)", "N/A", "none") else str(value)


def node_names(text: str) -> list[str]:
    """Return the nodes of a Slurm node list; `(null)` is empty."""
    return [] if text == "(null)" else expand(text)


def _names(value: str | None) -> tuple[str, ...]:
    return tuple(name for name in _text(value).split(",") if name)


def seconds(text: str) -> float | None:
    """Parse a Slurm time (`1-12:00:00`, `90:00`, or `30` minutes) into seconds; None without a limit."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if days is not None:
        return 86400.0 * days + 3600.0 * (first or 0) + 60.0 * (second or 0) + (third or 0)
    if third is not None:
        return 3600.0 * (first or 0) + 60.0 * (second or 0) + third
    return 60.0 * (first or 0) + (second or 0)


def _limit(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None


def _number(value: str | None, default: int) -> int:
    return int(value) if value is not None and value.isdecimal() else default
