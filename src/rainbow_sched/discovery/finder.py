"""Discover this machine or cluster from its manager or the host, with its software and mounts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from rainbow_sched.discovery.command import CommandTimeout, run_command
from rainbow_sched.discovery.flux import flux_graph, flux_subsystems, parse_queues, parse_r
from rainbow_sched.discovery.host import host_graph, host_subsystems
from rainbow_sched.discovery.slurm import (
    SHOW_NODES,
    SHOW_PARTITIONS,
    SHOW_TOPOLOGY,
    check_conf,
    parse_nodes,
    parse_partitions,
    parse_topology,
    slurm_graph,
    slurm_subsystems,
)
from rainbow_sched.discovery.software import find_software, software_subsystem
from rainbow_sched.model.errors import Invalid, NotFound, Unavailable
from rainbow_sched.model.graph import Graph, Subsystem, Vertex

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
NETWORK_TYPES = ("nfs", "nfs4", "cifs", "smb3", "afs", "cvmfs2")
PARALLEL_TYPES = ("lustre", "gpfs", "beegfs", "ceph", "panfs", "orangefs", "pvfs2", "glusterfs", "wekafs", "daos")
FUSE_TYPES = ("fuse.ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.juicefs", "fuse.daos")
SHARED_TYPES = frozenset((*NETWORK_TYPES, *PARALLEL_TYPES, *FUSE_TYPES))
LOCAL_TYPES = ("ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs")
MAX_MOUNTS = 1_000  # bounds the size of the graph


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredCluster:
    """A discovered cluster: its manager, graph and subsystems."""

    manager: str
    version: str
    graph: Graph
    subsystems: tuple[Subsystem, ...] = ()


def discover_cluster(
    cluster: str, manager: str = "auto", options: Mapping[str, str] = NO_OPTIONS, *, strict: bool = False
) -> DiscoveredCluster:
    """Discover a cluster; `options` are those of the backend (`conf` for Slurm, `uri` for Flux).

    If `strict`, raise Unavailable when a source of software times out; otherwise leave it out.
    """
    environment = dict(os.environ)
    if manager == "auto":
        manager = detect_manager(environment)
    name = "host" if manager == "local" else manager
    if name not in MANAGERS:
        raise NotFound(f"there is no manager {manager!r}; there are: auto, {', '.join(MANAGERS)}")
    found = MANAGERS[name](cluster, environment, options)
    added = (software_subsystem(found.graph, find_software(environment, strict=strict)), _mounts(found))
    return replace(found, subsystems=(*found.subsystems, *(one for one in added if one is not None)))


def _mounts(found: DiscoveredCluster) -> Subsystem | None:
    """Return all mounts of this machine, or the shared mounts of a login node, which its cluster should have too."""
    try:
        mounts = parse_mounts(Path("/proc/self/mounts").read_text())
    except OSError:
        return None
    if found.manager == "local":
        return mounts_subsystem(found.graph, mounts, found.graph.ids[found.graph.types.index("node")])
    return mounts_subsystem(found.graph, [mount for mount in mounts if mount.shared], found.graph.ids[0])


def detect_manager(environment: Mapping[str, str]) -> str:
    """Return "flux" inside a Flux instance, "slurm" if a Slurm controller answers, else "host"."""
    path = environment.get("PATH")
    if environment.get("FLUX_URI") and shutil.which("flux", path=path):
        return "flux"
    if shutil.which("scontrol", path=path):
        with contextlib.suppress(Unavailable):
            if " UP" in run_command(("scontrol", "ping"), environment):
                return "slurm"
    return "host"


def _host(cluster: str, environment: Mapping[str, str], options: Mapping[str, str]) -> DiscoveredCluster:
    graph = host_graph(cluster)
    return DiscoveredCluster(manager="local", version="", graph=graph, subsystems=host_subsystems(graph))


def _slurm(cluster: str, environment: Mapping[str, str], options: Mapping[str, str]) -> DiscoveredCluster:
    if options.get("conf"):
        environment = {**environment, "SLURM_CONF": check_conf(options["conf"])}
    try:
        version = run_command(("scontrol", "--version"), environment).split()[-1]
    except Unavailable as problem:
        raise Unavailable(f"{problem} (for another slurm.conf: -O conf=FILE)") from None
    nodes = parse_nodes(run_command(SHOW_NODES, environment))
    if not nodes:
        raise Unavailable("Slurm has no nodes")
    partitions = parse_partitions(run_command(SHOW_PARTITIONS, environment))
    racks = parse_topology(_output_if_any(SHOW_TOPOLOGY, environment) or "")  # some versions fail without a topology
    graph, subsystems = slurm_graph(cluster, nodes, racks), slurm_subsystems(nodes, partitions)
    return DiscoveredCluster(manager="slurm", version=version, graph=graph, subsystems=subsystems)


def _flux(cluster: str, environment: Mapping[str, str], options: Mapping[str, str]) -> DiscoveredCluster:
    program = options.get("flux", "flux")
    if options.get("uri"):
        environment = {**environment, "FLUX_URI": options["uri"]}
    resources = _output_if_any((program, "kvs", "get", "resource.R"), environment)
    if resources is None:  # only the owner of an instance may read its KVS; this form lacks the scheduling graph
        resources = run_command((program, "resource", "R"), environment)
    document = _json(resources)
    config = _output_if_any((program, "config", "get"), environment)
    graph = flux_graph(cluster, document)
    subsystems = flux_subsystems(graph, parse_r(document), {} if config is None else parse_queues(_json(config)))
    version = run_command((program, "--version"), environment).split()
    number = version[1] if len(version) > 1 else ""
    return DiscoveredCluster(manager="flux", version=number, graph=graph, subsystems=subsystems)


def _output_if_any(words: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    """Return the output of a command, None if it fails; raise CommandTimeout if it does not answer."""
    try:
        return run_command(words, environment)
    except CommandTimeout:
        raise
    except Unavailable:
        return None


def _json(text: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except ValueError:
        raise Invalid(f"the answer is not JSON: {text[:60]!r}") from None
    if not isinstance(document, dict):
        raise Invalid(f"the answer is not a JSON object: {text[:60]!r}")
    return document


MANAGERS: Mapping[str, Callable[[str, Mapping[str, str], Mapping[str, str]], DiscoveredCluster]] = {
    "host": _host,
    "slurm": _slurm,
    "flux": _flux,
}


@dataclass(frozen=True, slots=True)
class Mount:
    path: str
    kind: str  # the kernel's name for its type

    @property
    def shared(self) -> bool:
        """True if other machines see the same files."""
        return self.kind in SHARED_TYPES


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Parse the data filesystems of /proc/self/mounts, without those that are mounted on demand."""
    lines = [line.split() for line in text.splitlines()]
    found = [Mount(_plain(words[1]), words[2]) for words in lines if len(words) > 2]
    automatic = tuple(f"{mount.path.rstrip('/')}/" for mount in found if mount.kind == "autofs")
    kept = {
        mount.path: mount
        for mount in found
        if (mount.shared or mount.kind in LOCAL_TYPES) and not f"{mount.path}/".startswith(automatic or ("\0",))
    }
    return tuple(kept[path] for path in sorted(kept)[:MAX_MOUNTS])


def _plain(path: str) -> str:
    """Decode the octal escapes of spaces and similar characters."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path


def mounts_subsystem(graph: Graph, mounts: Iterable[Mount], on: str) -> Subsystem | None:
    """Return the subsystem, attached to vertex `on`; None without mounts."""
    vertices = [
        Vertex(
            id=f"mount:{mount.path}",
            type="mount",
            name=mount.path,
            metadata={"path": mount.path, "fstype": mount.kind, "shared": mount.shared},
        )
        for mount in mounts
    ]
    if not vertices:
        return None
    return Subsystem.build("mounts", graph.positions(), vertices, [(on, vertex.id) for vertex in vertices])
