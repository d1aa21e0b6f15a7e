"""Convert a request to sbatch's terms: nodes, tasks, cpus, gres, memory. The rest is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.base import CannotBind, Prices
from rainbow_sched.agent.backends.common.host_binding import (
    bound_hosts,
    check_names,
    check_property,
    check_requirements,
    hostlist,
)
from rainbow_sched.agent.backends.slurm.site import SlurmSite
from rainbow_sched.discovery.slurm import FEATURES, GPUS, PARTITIONS
from rainbow_sched.model.binding import NAMING_FIELDS, NodeRules, is_passed_on
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.quantities import in_bytes
from rainbow_sched.model.request import Equals, Level, Request, Requirement
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts

_MIB = 2**20
RULES = NodeRules(hosts=True, groups=True, subsystems=frozenset({FEATURES, PARTITIONS, GPUS}))
RACK = "rack"
MAX_OPTION_BYTES = 100_000  # bytes: Linux limits one argument to 128 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmShape:
    """Resources of one job: per node if `nodes` is set, else per slot."""

    nodes: int | None = None
    slots: int = 1  # without `nodes`: number of slots, each within one node
    cores: int = 0  # per node or slot; 0: not specified
    gpus: int = 0  # per node or slot
    gpus_in_all: int = 0
    gpu_kind: str = ""
    gres: tuple[tuple[str, int], ...] = ()  # other gres, per node
    memory: int = 0  # MiB per node or slot
    exclusive: bool = False
    whole: bool = False  # all resources of each node
    one_rack: bool = False  # the rack is chosen in `capacity.py`
    features: frozenset[str] = frozenset()
    partition: str = ""
    exclude: frozenset[str] = frozenset()
    only: tuple[str, ...] = ()  # allowed nodes, checked again at the start; empty: any
    unknown: str = ""  # allowed hosts that Slurm does not have, as a reason

    @property
    def total_cores(self) -> int:
        """Total cores, as far as the request specifies them."""
        return max(1, self.cores) * (self.nodes or self.slots)

    @property
    def total_gpus(self) -> int:
        return self.gpus * (self.nodes or self.slots) + self.gpus_in_all

    @property
    def total_memory(self) -> int:
        """Total MiB, as far as the request specifies it."""
        return 0 if self.whole else self.memory * (self.nodes or self.slots)

    @property
    def gpus_per_node(self) -> int:
        """Gpus per node, for the accounting of our own jobs."""
        return self.gpus if self.nodes else self.total_gpus


def shape(request: Request, site: SlurmSite, allowed: AllowedHosts = ANY_HOST) -> SlurmShape:
    """Return the shape of a request with one group; raise `Unsupported` for what Slurm cannot express."""
    [group] = request.groups
    found = _top(group.levels, site)
    for requirement in (*request.requires, *(one for level in request.walk() for one in level.requires)):
        found = _with_requirement(found, requirement, site)
    check_requirements(request, allowed, RULES, site.graph, "Slurm")
    for name in request.properties:
        found = _with_property(found, name, site, allowed)
    return _with_hosts(found, request, site, allowed)


def _with_hosts(found: SlurmShape, request: Request, site: SlurmSite, allowed: AllowedHosts) -> SlurmShape:
    """Exclude all nodes except those that the request and the server allow."""
    hosts = allowed.of(0)
    if not (hosts or request.hosts or request.not_hosts or found.exclude):
        return found
    nodes = set(site.nodes)
    check_names((*request.hosts, *request.not_hosts), nodes, site.graph, allowed)
    exclude = set(found.exclude).union(nodes.intersection(request.not_hosts))
    if request.hosts and (not allowed.checked or nodes.issuperset(request.hosts)):
        exclude |= nodes.difference(request.hosts)  # racks are allowed by their nodes
    bound, unknown = bool(request.hosts), ""
    if hosts:
        known, unknown = bound_hosts(hosts, site.nodes, "Slurm")
        exclude |= nodes.difference(known)
        bound = True
    if nodes and exclude >= nodes:
        reason = "no node of this cluster is among the hosts that the request allows"
        raise CannotBind(f"{reason}; {unknown}") if unknown else Unsupported(reason)
    only = tuple(name for name in site.nodes if name not in exclude) if bound else ()
    return replace(found, exclude=frozenset(exclude), only=only, unknown=unknown)


def _top(levels: tuple[Level, ...], site: SlurmSite) -> SlurmShape:
    one_rack = False
    while len(levels) == 1 and levels[0].type != "node" and levels[0].inside:
        level = levels[0]
        if level.exclusive:
            raise Unsupported(f"Slurm allocates nodes exclusively, not a {level.type}")
        if level.type == RACK and RACK in site.types and level.count.min == 1:
            one_rack = True
        elif level.type in site.types and level.type != "cluster":
            raise Unsupported(f"Slurm allocates nodes, cores and gres, not {_text(level)}")
        elif level.type != "cluster" and not level.abstract:
            raise Unsupported(f"{level.type}: 0 here, {level.count.min} needed")
        elif level.count.min != 1:
            raise Unsupported(f"{_text(level)} means this cluster, which exists once")
        levels = level.inside
    if len(levels) == 1 and levels[0].type == "node":
        return replace(_nodes(levels[0], site), one_rack=one_rack)
    return replace(_loose(levels, site), one_rack=one_rack)


def _nodes(level: Level, site: SlurmSite) -> SlurmShape:
    """Distinct nodes, whole or with resources inside; or slots, each within one node."""
    if not level.inside:
        return SlurmShape(nodes=level.count.min, exclusive=True, whole=True)
    inside = _contents(level.inside, site)
    if level.shared and not level.exclusive:
        if inside.gres and level.count.min > 1:
            raise Unsupported(f"Slurm counts {inside.gres[0][0]} per node, not per slot; ask for nodes")
        return replace(inside, slots=level.count.min)
    return replace(inside, nodes=level.count.min, exclusive=level.exclusive)


def _contents(levels: Iterable[Level], site: SlurmSite) -> SlurmShape:
    cores = gpus = memory = 0
    gres: dict[str, int] = {}
    for level in levels:
        if level.inside:
            raise Unsupported(f"Slurm cannot allocate {_text(level)} inside a node")
        many = level.count.min
        if level.type == "core":
            cores += many
        elif level.type == "memory":
            memory += _mebibytes(level)
        elif level.type not in site.gres:
            raise Unsupported(f"{level.type}: 0 here, {many} needed; this cluster has {_kinds(site)}")
        elif level.type == "gpu":
            gpus += many
        else:
            gres[level.type] = gres.get(level.type, 0) + many
    return SlurmShape(cores=cores, gpus=gpus, memory=memory, gres=tuple(sorted(gres.items())))


def _loose(levels: tuple[Level, ...], site: SlurmSite) -> SlurmShape:
    """Cores and gpus anywhere: each core is its own slot."""
    found = SlurmShape()
    for level in levels:
        if level.type == "core" and not level.inside:
            found = replace(found, slots=level.count.min, cores=1)
        elif level.type == "gpu" and not level.inside and "gpu" in site.gres:
            found = replace(found, gpus_in_all=level.count.min)
        elif level.type not in site.types:
            raise Unsupported(f"{level.type}: 0 here, {level.count.min} needed; this cluster has {_kinds(site)}")
        else:
            raise Unsupported(f"Slurm allocates nodes, cores and gres, not {_text(level)} by itself")
    return found


def _with_requirement(found: SlurmShape, requirement: Requirement, site: SlurmSite) -> SlurmShape:
    """Pass on requirements that Slurm can enforce; the allowed hosts enforce the others."""
    if not is_passed_on(requirement, RULES):
        return found
    for term in requirement.terms:
        value = str(term.value) if isinstance(term, Equals) else ""
        if term.field not in NAMING_FIELDS:
            continue  # enforced by the allowed hosts
        if requirement.subsystem == FEATURES:
            found = _with_feature(found, value, site)
        elif requirement.subsystem == PARTITIONS:
            found = _with_partition(found, value, site)
        else:
            if value not in site.gpu_kinds:
                kinds = ", ".join(sorted(site.gpu_kinds)) or "none"
                raise Unsupported(f"gpus: no {value}; this cluster has {kinds}")
            if found.gpu_kind not in ("", value):
                raise Unsupported(f"Slurm gives a job gpus of one kind, not of {found.gpu_kind} and {value}")
            if not found.total_gpus:
                raise Unsupported(f"to get a node with {value} gpus, request one of its gpus")
            found = replace(found, gpu_kind=value)
    return found


def _with_property(found: SlurmShape, name: str, site: SlurmSite, allowed: AllowedHosts) -> SlurmShape:
    """Pass on properties that Slurm knows; the allowed hosts enforce the others."""
    bare = name.removeprefix("^")
    if bare not in site.features and bare not in site.partitions and (allowed.checked or name != bare):
        check_property(bare, site.graph, allowed, "Slurm")
        return found
    if name != bare:
        holders = site.features.get(bare, frozenset()) | site.partitions.get(bare, frozenset())
        return replace(found, exclude=found.exclude | holders)
    if name in site.features:
        return _with_feature(found, name, site)
    if name in site.partitions:
        return _with_partition(found, name, site)
    raise Unsupported(f"no node has the property {name!r}: it is neither a feature nor a partition")


def _with_feature(found: SlurmShape, name: str, site: SlurmSite) -> SlurmShape:
    if name not in site.features:
        raise Unsupported(f"no node has the feature {name!r}; this cluster has {', '.join(sorted(site.features))}")
    return replace(found, features=found.features | {name})


def _with_partition(found: SlurmShape, name: str, site: SlurmSite) -> SlurmShape:
    if name not in site.partitions:
        raise Unsupported(f"no partition {name!r}; this cluster has {', '.join(sorted(site.partitions))}")
    if found.partition not in ("", name):
        raise Unsupported(f"a job runs in one partition, not in {found.partition} and {name}")
    return replace(found, partition=name)


def _mebibytes(level: Level) -> int:
    amount = in_bytes(level.count.min, level.unit or "MiB")
    if amount is None:
        raise Unsupported(f"{level.unit!r} is not a unit of memory")
    return -(-amount // _MIB)


def _text(level: Level) -> str:
    return f"{level.count.min} {level.type}"


def _kinds(site: SlurmSite) -> str:
    return ", ".join(sorted({"node", "core", "memory"} | site.gres))


def arguments(
    found: SlurmShape, site: SlurmSite, duration: float | None, *, named: bool = False, component: bool = False
) -> list[str]:
    """Return the sbatch options without partition and constraint; `named`: the user's own options name nodes.

    `component`: of a heterogeneous job, where a component without `--exclude` inherits another's.
    """
    words: list[str] = []
    cores = max(1, found.cores)
    if found.nodes is not None:
        words += [f"--nodes={found.nodes}", "--ntasks-per-node=1"]
        words += [] if found.whole else [f"--cpus-per-task={cores}"]
    else:
        words += [f"--ntasks={found.slots}", f"--cpus-per-task={cores}"]
    if site.threaded and not found.whole:
        words.append("--threads-per-core=1")  # Slurm counts hardware threads, a request counts cores
    words += _gres_words(found)
    if found.whole:
        words.append("--mem=0")
    elif found.memory and found.nodes is not None:
        words.append(f"--mem={found.memory}M")
    elif found.memory:
        words.append(f"--mem-per-cpu={-(-found.memory // cores)}M")
    if found.exclusive:
        words.append("--exclusive")
    words += _host_words(found, site, named=named, component=component)
    if duration is not None:
        words.append(f"--time={math.ceil(duration / 60)}")
    return words


def _host_words(found: SlurmShape, site: SlurmSite, *, named: bool, component: bool) -> list[str]:
    """Return `--exclude`, so that Slurm chooses among the other nodes, or `--nodelist` if all of them are needed.

    `--nodelist` is not used in heterogeneous jobs: Slurm keeps the other components off those nodes.
    """
    if not found.exclude:
        return ["--exclude="] if component else []
    left = [name for name in site.nodes if name not in found.exclude]
    if len(left) == found.nodes and not named and not component:
        word = f"--nodelist={hostlist(left)}"
    else:
        word = f"--exclude={hostlist([name for name in site.nodes if name in found.exclude])}"
    if len(word) > MAX_OPTION_BYTES:
        raise CannotBind(f"the list of excluded nodes is too long for sbatch ({len(word)} bytes)")
    return [word]


def _gres_words(found: SlurmShape) -> list[str]:
    kind = f"{found.gpu_kind}:" if found.gpu_kind else ""
    per_node = [f"{name}:{many}" for name, many in found.gres]
    words = []
    # One slot is on one node; all versions support --gres.
    if found.gpus and (found.nodes is not None or found.slots == 1):
        per_node.append(f"gpu:{kind}{found.gpus}")
    elif found.gpus:
        words.append(f"--gpus-per-task={kind}{found.gpus}")
    if found.gpus_in_all:
        words.append(f"--gpus={kind}{found.gpus_in_all}")
    return [*words, f"--gres={','.join(per_node)}"] if per_node else words


def cost(found: SlurmShape, prices: Prices, duration: float | None) -> float | None:
    """Return the cost of the job; None if its duration is not known and needed."""
    return prices.cost(cores=found.total_cores, nodes=found.nodes or 1, gpus=found.total_gpus, duration=duration)
