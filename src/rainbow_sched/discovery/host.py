"""This machine as a cluster of one node: its sockets, cores, memory and gpus, its microarchitecture and its system."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.model.graph import Graph, Subsystem, Vertex

_SYSTEM = Path("/sys/devices/system/cpu")
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Host:
    """What was found: the resource graph, and the subsystems that hang on its node."""

    graph: Graph
    subsystems: tuple[Subsystem, ...]


def discover(cluster: str) -> Host:
    """Look at this machine; sends nothing anywhere."""
    graph = discover_graph(cluster)
    found = [_arch(graph), _os(graph)]
    return Host(graph, tuple(one for one in found if one is not None))


def discover_graph(cluster: str) -> Graph:
    """cluster > node > socket > core, with memory and gpus on the node."""
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
    """This machine's short name."""
    return platform.node().partition(".")[0] or "localhost"


def memory_mib() -> int:
    """How much memory jobs may use here: the machine's, or the limit that was set for us."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _text(Path("/sys/fs/cgroup") / name)
        if text.isdigit():
            total = min(total, int(text))
    return max(1, total >> 20)


def _sockets() -> list[list[list[int]]]:
    """Per socket the cores, per core its processors; only those that this process may use."""
    sockets: dict[str, dict[str, list[int]]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        topology = _SYSTEM / f"cpu{cpu}" / "topology"
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
    """The models of the gpus that nvidia-smi shows; none without it, or if it finds none."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    try:
        done = subprocess.run(
            [command, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"nvidia-smi did not answer within {_TIMEOUT:g} s, so the gpus are not known: see to the driver, or take "
            "nvidia-smi off PATH"
        ) from None
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _arch(graph: Graph) -> Subsystem | None:
    """The microarchitecture and all that it can run code for; None if archspec is not installed."""
    try:
        import archspec.cpu  # optional, and dear to import
    except ImportError:
        return None
    target = archspec.cpu.host()
    names = [target.name, *(ancestor.name for ancestor in target.ancestors)]
    vertices = [
        Vertex(
            id=f"arch{i}",
            type="arch",
            name=name,
            metadata={"target": name, "vendor": target.vendor, "family": target.family.name, "own": i == 0},
        )
        for i, name in enumerate(names)
    ]
    return Subsystem.build("arch", graph.ids, vertices, [("node0", vertex.id) for vertex in vertices])


def _os(graph: Graph) -> Subsystem:
    """The system's name and version and its kernel."""
    release = dict(_release())
    vertex = Vertex(
        id="os0",
        type="os",
        name=release.get("ID", platform.system().lower()),
        metadata={
            "name": release.get("ID", platform.system().lower()),
            "version": release.get("VERSION_ID", ""),
            "kernel": platform.release(),
            "machine": platform.machine(),
        },
    )
    return Subsystem.build("os", graph.ids, [vertex], [("node0", "os0")])


def _release() -> Iterator[tuple[str, str]]:
    for line in _text(Path("/etc/os-release")).splitlines():
        if found := re.fullmatch(r"([A-Z_]+)=\"?(.*?)\"?", line):
            yield found[1], found[2]
