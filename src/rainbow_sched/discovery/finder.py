"""What is this machine or cluster? Asks its manager, or looks at the host, and adds its software; sends nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rainbow_sched.discovery import host
from rainbow_sched.discovery.command import Silent, output
from rainbow_sched.discovery.flux import flux_graph, flux_subsystems, parse_queues, parse_r
from rainbow_sched.discovery.mounts import mounts_subsystem, parse_mounts
from rainbow_sched.discovery.slurm import (
    SHOW_NODES,
    SHOW_PARTITIONS,
    SHOW_TOPOLOGY,
    check_conf,
    parse_nodes,
    parse_partitions,
    parse_topology,
)
from rainbow_sched.discovery.slurm_graph import slurm_graph, slurm_subsystems
from rainbow_sched.discovery.software import software_subsystem
from rainbow_sched.discovery.software_sources import find_software
from rainbow_sched.model.errors import Invalid, NotFound, Unavailable
from rainbow_sched.model.graph import Graph, Subsystem

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A cluster as it was found: by which manager, its graph, and what hangs on it."""

    manager: str
    version: str
    graph: Graph
    subsystems: tuple[Subsystem, ...] = ()


def find(cluster: str, manager: str = "auto", options: Mapping[str, str] = NO_OPTIONS, *, sure: bool = False) -> Found:
    """Look; `options` are those of the backend of that name (`conf` for Slurm, `uri` for Flux).

    With `sure`, a source of software that does not answer raises Unavailable instead of being left out.
    """
    environment = dict(os.environ)
    if manager == "auto":
        manager = guess(environment)
    name = "host" if manager == "local" else manager
    if name not in MANAGERS:
        raise NotFound(f"there is no manager {manager!r} to look for; there are: auto, {', '.join(MANAGERS)}")
    found = MANAGERS[name](cluster, environment, options)
    added = (software_subsystem(found.graph, find_software(environment, sure=sure)), _mounts(found))
    subsystems = (*found.subsystems, *(one for one in added if one is not None))
    return Found(manager=found.manager, version=found.version, graph=found.graph, subsystems=subsystems)


def _mounts(found: Found) -> Subsystem | None:
    """Of this machine all of them; of a cluster, what its login node shares, which all of it is taken to see."""
    try:
        mounts = parse_mounts(Path("/proc/self/mounts").read_text())
    except OSError:
        return None
    if found.manager == "local":
        return mounts_subsystem(found.graph, mounts, found.graph.ids[found.graph.types.index("node")])
    return mounts_subsystem(found.graph, [mount for mount in mounts if mount.shared], found.graph.ids[0])


def guess(environment: Mapping[str, str]) -> str:
    """Inside a Flux instance it is Flux; where a Slurm controller answers it is Slurm; else this machine."""
    path = environment.get("PATH")
    if environment.get("FLUX_URI") and shutil.which("flux", path=path):
        return "flux"
    if shutil.which("scontrol", path=path):
        try:
            if " UP" in output(("scontrol", "ping"), environment):
                return "slurm"
        except Unavailable:
            return "host"
    return "host"


def _host(cluster: str, environment: Mapping[str, str], options: Mapping[str, str]) -> Found:
    found = host.discover(cluster)
    return Found(manager="local", version="", graph=found.graph, subsystems=found.subsystems)


def _slurm(cluster: str, environment: Mapping[str, str], options: Mapping[str, str]) -> Found:
    if options.get("conf"):
        environment = {**environment, "SLURM_CONF": check_conf(options["conf"])}
    try:
        version = output(("scontrol", "--version"), environment).split()[-1]
    except Unavailable as problem:
        raise Unavailable(f"{problem} (if its slurm.conf is elsewhere: -O conf=FILE)") from None
    nodes = parse_nodes(output(SHOW_NODES, environment))
    if not nodes:
        raise Unavailable("Slurm knows no nodes")
    partitions = parse_partitions(output(SHOW_PARTITIONS, environment))
    try:
        racks = parse_topology(output(SHOW_TOPOLOGY, environment))
    except Silent:
        raise
    except Unavailable:  # some versions call it an error to have none
        racks = {}
    graph = slurm_graph(cluster, nodes, racks)
    return Found(manager="slurm", version=version, graph=graph, subsystems=slurm_subsystems(nodes, partitions))


def _flux(cluster: str, environment: Mapping[str, str], options: Mapping[str, str]) -> Found:
    program = options.get("flux", "flux")
    if options.get("uri"):
        environment = {**environment, "FLUX_URI": options["uri"]}
    try:
        document = _json(output((program, "kvs", "get", "resource.R"), environment))
    except Silent:
        raise
    except Unavailable:  # only its owner may read an instance's KVS; this form lacks the scheduling graph
        document = _json(output((program, "resource", "R"), environment))
    try:
        queues = parse_queues(_json(output((program, "config", "get"), environment)))
    except Silent:
        raise
    except Unavailable:
        queues = {}
    graph = flux_graph(cluster, document)
    subsystems = flux_subsystems(graph, parse_r(document), queues)
    version = output((program, "--version"), environment).split()
    return Found(manager="flux", version=version[1] if len(version) > 1 else "", graph=graph, subsystems=subsystems)


def _json(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        raise Invalid(f"the answer is no JSON: {text[:60]!r}") from None
    if not isinstance(found, dict):
        raise Invalid(f"the answer is no JSON object: {text[:60]!r}")
    return found


MANAGERS: Mapping[str, Callable[[str, Mapping[str, str], Mapping[str, str]], Found]] = {
    "host": _host,
    "slurm": _slurm,
    "flux": _flux,
}
