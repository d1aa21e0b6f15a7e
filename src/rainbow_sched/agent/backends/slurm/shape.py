"""A Request in sbatch's words: nodes, tasks, cpus, gres, memory; what sbatch cannot say is refused. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.agent.backends.base import CannotBind, Prices
from rainbow_sched.agent.backends.common.host_binding import bound_hosts, carried_in_graph, stands_for_nodes, unkept
from rainbow_sched.agent.backends.slurm.site import Site
from rainbow_sched.agent.core.values import ANY_HOST, AllowedHosts
from rainbow_sched.discovery.slurm_graph import FEATURES, GPUS, PARTITIONS
from rainbow_sched.model.binding import NAMING_FIELDS, NodeRules, is_passed_on
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.quantities import in_bytes
from rainbow_sched.model.request import Equals, Level, Request, Requirement

_MIB = 2**20
RULES = NodeRules(hosts=True, groups=True, subsystems=frozenset({FEATURES, PARTITIONS, GPUS}))
RACK = "rack"
MAX_WORD = 100_000  # bytes: no system takes one word of a command line that is longer than 128 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The resources of one job. Per node if `nodes` is said, else per slot."""

    nodes: int | None = None
    slots: int = 1  # without `nodes`: so many, each within one node
    cores: int = 0  # in each node or slot; 0: not said
    gpus: int = 0  # in each node or slot
    gpus_in_all: int = 0
    gpu_kind: str = ""
    gres: tuple[tuple[str, int], ...] = ()  # others than gpus, in each node
    memory: int = 0  # MiB in each node or slot
    exclusive: bool = False
    whole: bool = False  # all of each node, its memory too
    one_rack: bool = False  # which one is chosen in `slurm_racks.py`
    features: frozenset[str] = frozenset()
    partition: str = ""
    exclude: frozenset[str] = frozenset()
    only: tuple[str, ...] = ()  # the nodes on which it may run, checked again at its start; empty: not bound
    unknown: str = ""  # allowed hosts that Slurm does not know, as a reason

    @property
    def total_cores(self) -> int:
        """Cores in all, as far as the request says."""
        return max(1, self.cores) * (self.nodes or self.slots)

    @property
    def total_gpus(self) -> int:
        """Gpus in all."""
        return self.gpus * (self.nodes or self.slots) + self.gpus_in_all

    @property
    def total_memory(self) -> int:
        """MiB in all, as far as the request says."""
        return 0 if self.whole else self.memory * (self.nodes or self.slots)

    @property
    def gpus_per_node(self) -> int:
        """Gpus on a node, for keeping account of what our own jobs hold."""
        return self.gpus if self.nodes else self.total_gpus


def shape(request: Request, site: Site, allowed: AllowedHosts = ANY_HOST) -> Shape:
    """The shape of a request of one group on its allowed hosts; raise `Unsupported` with what Slurm cannot be told."""
    [group] = request.groups
    found = _top(group.levels, site)
    for requirement in (*request.requires, *(one for level in request.walk() for one in level.requires)):
        found = _with_requirement(found, requirement, site)
    if (reason := unkept(request, allowed, RULES, site.graph, "Slurm")) is not None:
        raise CannotBind(reason)
    for name in request.properties:
        found = _with_property(found, name, site, allowed)
    return _with_hosts(found, request, site, allowed)


def _with_hosts(found: Shape, request: Request, site: Site, allowed: AllowedHosts) -> Shape:
    """Exclude all nodes but those that the request and the server allow."""
    hosts = allowed.of(0)
    if not (hosts or request.hosts or request.not_hosts or found.exclude):
        return found
    nodes = set(site.nodes)
    if reason := stands_for_nodes((*request.hosts, *request.not_hosts), nodes, site.graph, allowed):
        raise CannotBind(reason)
    exclude = set(found.exclude).union(nodes.intersection(request.not_hosts))
    if request.hosts and (not allowed.checked or nodes.issuperset(request.hosts)):
        exclude |= nodes.difference(request.hosts)  # names of racks are among the allowed hosts as their nodes
    bound, unknown = bool(request.hosts), ""
    if hosts:
        known = bound_hosts(hosts, site.nodes, "Slurm")
        exclude |= nodes.difference(known.names)
        bound, unknown = True, known.unknown
    if nodes and exclude >= nodes:
        reason = "no node of this cluster is among the hosts that the request allows"
        raise CannotBind(f"{reason}; {unknown}") if unknown else Unsupported(reason)
    only = tuple(name for name in site.nodes if name not in exclude) if bound else ()
    return replace(found, exclude=frozenset(exclude), only=only, unknown=unknown)


def _top(levels: tuple[Level, ...], site: Site) -> Shape:
    one_rack = False
    while len(levels) == 1 and levels[0].type != "node" and levels[0].inside:
        level = levels[0]
        if level.exclusive:
            raise Unsupported(f"Slurm keeps nodes free of other jobs; it cannot be asked to keep a {level.type} free")
        if level.type == RACK and RACK in site.types and level.count.min == 1:
            one_rack = True
        elif level.type in site.types and level.type != "cluster":
            raise Unsupported(f"Slurm gives out nodes, cores and gres; it cannot be asked for {_say(level)} of its own")
        elif level.type != "cluster" and not level.abstract:
            raise Unsupported(f"{level.type}: 0 here, {level.count.min} needed")
        elif level.count.min != 1:
            raise Unsupported(f"{_say(level)} stands for this cluster, and that is there once")
        levels = level.inside
    if len(levels) == 1 and levels[0].type == "node":
        return replace(_nodes(levels[0], site), one_rack=one_rack)
    return replace(_loose(levels, site), one_rack=one_rack)


def _nodes(level: Level, site: Site) -> Shape:
    """Distinct nodes, whole or with something inside; or slots, each within one node."""
    if not level.inside:
        return Shape(nodes=level.count.min, exclusive=True, whole=True)
    inside = _contents(level.inside, site)
    if level.shared and not level.exclusive:
        if inside.gres and level.count.min > 1:
            raise Unsupported(f"Slurm counts {inside.gres[0][0]} per node, not per slot; ask for nodes")
        return replace(inside, slots=level.count.min)
    return replace(inside, nodes=level.count.min, exclusive=level.exclusive)


def _contents(levels: Iterable[Level], site: Site) -> Shape:
    cores = gpus = memory = 0
    gres: dict[str, int] = {}
    for level in levels:
        if level.inside:
            raise Unsupported(f"Slurm cannot be asked for {_say(level)} inside a node")
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
    return Shape(cores=cores, gpus=gpus, memory=memory, gres=tuple(sorted(gres.items())))


def _loose(levels: tuple[Level, ...], site: Site) -> Shape:
    """Cores and gpus wherever they are: each core is a slot of its own."""
    found = Shape()
    for level in levels:
        if level.type == "core" and not level.inside:
            found = replace(found, slots=level.count.min, cores=1)
        elif level.type == "gpu" and not level.inside and "gpu" in site.gres:
            found = replace(found, gpus_in_all=level.count.min)
        elif level.type not in site.types:
            raise Unsupported(f"{level.type}: 0 here, {level.count.min} needed; this cluster has {_kinds(site)}")
        else:
            raise Unsupported(f"Slurm gives out nodes, cores and gres; it cannot be asked for {_say(level)} by itself")
    return found


def _with_requirement(found: Shape, requirement: Requirement, site: Site) -> Shape:
    """A name that Slurm itself knows becomes its word; what else is required is kept by the allowed hosts."""
    if not is_passed_on(requirement, RULES):
        return found
    for term in requirement.terms:
        value = str(term.value) if isinstance(term, Equals) else ""
        if term.field not in NAMING_FIELDS:
            continue  # what else is required of it is kept by the allowed hosts
        if requirement.subsystem == FEATURES:
            found = _with_feature(found, value, site)
        elif requirement.subsystem == PARTITIONS:
            found = _with_partition(found, value, site)
        else:
            if value not in site.gpu_kinds:
                raise Unsupported(f"gpus: no {value} here; there are {', '.join(sorted(site.gpu_kinds)) or 'none'}")
            if found.gpu_kind not in ("", value):
                raise Unsupported(f"Slurm gives a job gpus of one kind, not of {found.gpu_kind} and {value}")
            if not found.total_gpus:
                raise Unsupported(f"a node with {value} gpus is asked for by asking for a gpu of it")
            found = replace(found, gpu_kind=value)
    return found


def _with_property(found: Shape, name: str, site: Site, allowed: AllowedHosts) -> Shape:
    """A property that Slurm knows becomes its word; any other is kept by the allowed hosts."""
    bare = name.removeprefix("^")
    if bare not in site.features and bare not in site.partitions and (allowed.checked or name != bare):
        if not allowed.checked and carried_in_graph(site.graph, bare):
            raise CannotBind(
                f"Slurm does not know the property {bare!r}, and the server does not say which nodes have it; "
                "upgrade the server"
            )
        return found
    if name.startswith("^"):
        holders = site.features.get(name[1:], frozenset()) | site.partitions.get(name[1:], frozenset())
        return replace(found, exclude=found.exclude | holders)
    if name in site.features:
        return _with_feature(found, name, site)
    if name in site.partitions:
        return _with_partition(found, name, site)
    raise Unsupported(f"no node here has the property {name!r}: it is neither a feature nor a partition")


def _with_feature(found: Shape, name: str, site: Site) -> Shape:
    if name not in site.features:
        raise Unsupported(f"no node here has the feature {name!r}; there are {', '.join(sorted(site.features))}")
    return replace(found, features=found.features | {name})


def _with_partition(found: Shape, name: str, site: Site) -> Shape:
    if name not in site.partitions:
        raise Unsupported(f"there is no partition {name!r}; there are {', '.join(sorted(site.partitions))}")
    if found.partition not in ("", name):
        raise Unsupported(f"a job runs in one partition, not in {found.partition} and {name}")
    return replace(found, partition=name)


def _mebibytes(level: Level) -> int:
    amount = in_bytes(level.count.min, level.unit or "MiB")
    if amount is None:
        raise Unsupported(f"{level.unit!r} is no unit of memory")
    return -(-amount // _MIB)


def _say(level: Level) -> str:
    return f"{level.count.min} {level.type}"


def _kinds(site: Site) -> str:
    return ", ".join(sorted({"node", "core", "memory"} | site.gres))


@dataclass(frozen=True, slots=True)
class Arguments:
    """What sbatch is told of a shape, with the parts that the user's own options may add to."""

    words: tuple[str, ...]
    partition: str = ""
    features: frozenset[str] = field(default_factory=frozenset)


def arguments(
    found: Shape, site: Site, duration: float | None, *, named: bool = False, component: bool = False
) -> Arguments:
    """The shape as words of sbatch, without partition and constraint; `named`: the user's own words name nodes.

    `component`: of a heterogeneous job, where a component that does not say `--exclude` gets that of another.
    """
    words: list[str] = []
    cores = max(1, found.cores)
    if found.nodes is not None:
        words += [f"--nodes={found.nodes}", "--ntasks-per-node=1"]
        words += [] if found.whole else [f"--cpus-per-task={cores}"]
    else:
        words += [f"--ntasks={found.slots}", f"--cpus-per-task={cores}"]
    if site.threaded and not found.whole:
        words.append("--threads-per-core=1")  # Slurm counts hardware threads; a request counts cores
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
    return Arguments(tuple(words), found.partition, found.features)


def _host_words(found: Shape, site: Site, *, named: bool, component: bool) -> list[str]:
    """Slurm chooses among the nodes that are left. `--nodelist` asks for all nodes that it lists.

    Slurm keeps the other components of a heterogeneous job off those, so there it is not used.
    """
    if not found.exclude:
        return ["--exclude="] if component else []
    left = [name for name in site.nodes if name not in found.exclude]
    if len(left) == found.nodes and not named and not component:
        word = f"--nodelist={_listed(left)}"
    else:
        word = f"--exclude={_listed([name for name in site.nodes if name in found.exclude])}"
    if len(word) > MAX_WORD:
        raise CannotBind(f"the nodes on which it must not run are too many to be listed to Slurm ({len(word)} bytes)")
    return [word]


def _listed(names: Sequence[str]) -> str:
    return collapse(names) or ",".join(names)


def _gres_words(found: Shape) -> list[str]:
    kind = f"{found.gpu_kind}:" if found.gpu_kind else ""
    per_node = [f"{name}:{many}" for name, many in found.gres]
    words = []
    if found.gpus and (
        found.nodes is not None or found.slots == 1
    ):  # one slot is on one node; any version knows --gres
        per_node.append(f"gpu:{kind}{found.gpus}")
    elif found.gpus:
        words.append(f"--gpus-per-task={kind}{found.gpus}")
    if found.gpus_in_all:
        words.append(f"--gpus={kind}{found.gpus_in_all}")
    return [*words, f"--gres={','.join(per_node)}"] if per_node else words


def cost(found: Shape, prices: Prices, duration: float | None) -> float | None:
    """What the whole job costs at these prices; None if its length is not known and something has a price."""
    return prices.cost(cores=found.total_cores, nodes=found.nodes or 1, gpus=found.total_gpus, duration=duration)
