"""`rainbow discover`: describe this machine or cluster, and write its graph to a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import document_output, pairs
from rainbow_sched.cli.render.listings import print_document

if TYPE_CHECKING:
    from rainbow_sched.discovery.finder import DiscoveredCluster

EPILOG = """\b
The file contains the resource graph as JGF; subsystems are written beside it, as
`perl.features.json`. Pass them to `rainbow register cluster` and `rainbow register
subsystem`, or use `rainbow agent --register auto` instead.

\b
Examples:
  rainbow discover
  rainbow discover --manager slurm --name perl --out perl.json
  rainbow discover --manager slurm -O conf=/etc/slurm/other.conf -o json
"""


@click.command(epilog=EPILOG)
@click.option(
    "--manager",
    type=click.Choice(["auto", "host", "slurm", "flux"]),
    default="auto",
    show_default=True,
    help="Source; auto: the manager found here.",
)
@click.option("--name", metavar="NAME", help="The cluster's name (default: this machine's).")
@click.option(
    "-O",
    "--backend-option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the backend, as for the agent.",
)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write the graph to this file as JGF.")
@document_output()
def discover(manager: str, name: str | None, options: tuple[str, ...], out: str | None, format: str) -> None:
    """Describe this machine or cluster. Nothing is sent."""
    from rainbow_sched.cli.render.terminal import print_message
    from rainbow_sched.discovery.finder import discover_cluster
    from rainbow_sched.discovery.host import hostname
    from rainbow_sched.installation import require_extra
    from rainbow_sched.model.errors import Unsupported

    try:
        require_extra("agent", "finding all subsystems (such as arch)")
    except Unsupported as incomplete:
        print_message(f"warning: {incomplete}")
    found = discover_cluster(name or hostname(), manager, pairs(options, "-O"))
    written = _write(found, Path(out)) if out else []
    described = describe(found, written)
    print_document("rainbow.discover/1", described, format, lambda: text(described))


def describe(found: DiscoveredCluster, written: list[str]) -> dict[str, Any]:
    """Return the numbers of resources and vertices."""
    graph = found.graph
    counts: Counter[str] = Counter()
    for type, size, unit in zip(graph.types, graph.sizes, graph.units, strict=True):
        counts[type] += size if not unit else 1
    return {
        "manager": found.manager,
        **({"version": found.version} if found.version else {}),
        "cluster": graph.names[0],
        "resources": dict(counts),
        "vertices": len(graph),
        "subsystems": {one.name: len(one.vertices) for one in found.subsystems},
        **({"written": written} if written else {}),
    }


def text(described: dict[str, Any]) -> str:
    """Format the description for people."""
    counts = " · ".join(f"{count} {type}" for type, count in described["resources"].items())
    subsystems = " · ".join(f"{name} ({count})" for name, count in described["subsystems"].items())
    lines = [
        f"MANAGER     {described['manager']} {described.get('version', '')}".rstrip(),
        f"GRAPH       {described['cluster']}: {counts}",
        f"SUBSYSTEMS  {subsystems or 'none'}",
    ]
    lines += [f"WROTE       {path}" for path in described.get("written", ())]
    return "".join(f"{line}\n" for line in lines)


def _write(found: DiscoveredCluster, path: Path) -> list[str]:
    from rainbow_sched.graphs.formats.jgf.writer import subsystem_to_jgf, to_jgf

    path.write_text(to_jgf(found.graph) + "\n")
    written = [str(path)]
    for subsystem in found.subsystems:
        beside = path.with_suffix(f".{subsystem.name}.json")
        beside.write_text(subsystem_to_jgf(subsystem) + "\n")
        written.append(str(beside))
    return written
