"""Discover this machine as a cluster of one node: sockets, cores, memory, gpus, microarchitecture and OS."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from rainbow_sched.discovery.command import CommandTimeout, run_command
from rainbow_sched.model.errors import Unavailable
from rainbow_sched.model.graph import Graph, Subsystem, Vertex

_CPU_FOLDER = Path("/sys/devices/system/cpu")
_OS_RELEASE_LINE = re.compile(r'^([A-Z_]+)="?(.*?)"?$', re.MULTILINE)
GPU_QUERY_SECONDS = 10.0  # for the query of the GPUs, so that a hanging driver is reported


def host_subsystems(graph: Graph) -> tuple[Subsystem, ...]:
    """Return the microarchitecture and the OS of this machine, for the graph of `host_graph`."""
    return tuple(one for one in (_arch(graph), _os(graph)) if one is not None)


def host_graph(cluster: str) -> Graph:
    """Return the graph of this machine: cluster > node > socket > core, with memory and gpus on the node."""
    vertices = [Vertex(id="cluster0", type="cluster", name=cluster), Vertex(id="node0", type="node", name=hostname())]
    edges = [("cluster0", "node0")]
    number = 0
    for s, cores in enumerate(_sockets()):
        vertices.append(Vertex(id=f"socket{s}", type="socket", name=f"socket{s}"))
        edges.append(("node0", f"socket{s}"))
        for cpus in cores:
            vertices.append(Vertex(id=f"core{number}", type="core", name=f"core{number}", metadata={"cpus": cpus}))
            edges.append((f"socket{s}", f"core{number}"))
            number += 1
    vertices.append(Vertex(id="memory0", type="memory", name="memory0", size=memory_mib(), unit="MiB"))
    edges.append(("node0", "memory0"))
    for i, model in enumerate(_gpus()):
        vertices.append(Vertex(id=f"gpu{i}", type="gpu", name=f"gpu{i}", metadata={"model": model, "index": i}))
        edges.append(("node0", f"gpu{i}"))
    return Graph.build(vertices, edges)


def hostname() -> str:
    """Return the short name of this machine."""
    return platform.node().partition(".")[0] or "localhost"


def memory_mib() -> int:
    """Return the memory that jobs may use: that of the machine, or less if a cgroup limits it."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _text(Path("/sys/fs/cgroup") / name)
        if text.isdigit():
            total = min(total, int(text))
    return max(1, total >> 20)


def _sockets() -> list[list[list[int]]]:
    """Return for each socket its cores, for each core its processors; only those that this process may use."""
    sockets: dict[str, dict[str, list[int]]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        topology = _CPU_FOLDER / f"cpu{cpu}" / "topology"
        package = _text(topology / "physical_package_id") or "0"
        core = _text(topology / "core_id") or f"cpu{cpu}"
        sockets.setdefault(package, {}).setdefault(core, []).append(cpu)
    return [list(cores.values()) for cores in sockets.values()]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _gpus() -> list[str]:
    """Return the models of the gpus that nvidia-smi lists; empty without nvidia-smi."""
    query = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    try:
        models = run_command(query, os.environ, timeout=GPU_QUERY_SECONDS)
    except CommandTimeout as problem:
        raise Unavailable(
            f"{problem}, so the gpus are not known: check the driver, or remove nvidia-smi from PATH"
        ) from None
    except Unavailable:
        return []
    return [line.strip() for line in models.splitlines() if line.strip()]


def _arch(graph: Graph) -> Subsystem | None:
    """Return the microarchitecture and its compatible ancestors; None if archspec is not installed."""
    try:
        import archspec.cpu  # optional, and slow to import
    except ImportError:
        return None
    target = archspec.cpu.host()
    names = [target.name, *(ancestor.name for ancestor in target.ancestors)]
    about = {"vendor": target.vendor, "family": target.family.name}
    vertices = [
        Vertex(id=f"arch{i}", type="arch", name=name, metadata={"target": name, **about, "own": i == 0})
        for i, name in enumerate(names)
    ]
    return Subsystem.build("arch", graph.ids, vertices, [("node0", vertex.id) for vertex in vertices])


def _os(graph: Graph) -> Subsystem:
    """Return the name and version of the OS and its kernel."""
    release = dict(_OS_RELEASE_LINE.findall(_text(Path("/etc/os-release"))))
    name = release.get("ID", platform.system().lower())
    version, kernel = release.get("VERSION_ID", ""), platform.release()
    about = {"name": name, "version": version, "kernel": kernel, "machine": platform.machine()}
    vertex = Vertex(id="os0", type="os", name=name, metadata=about)
    return Subsystem.build("os", graph.ids, [vertex], [("node0", "os0")])
