"""`rainbow discover`: what is this machine or cluster? Shows it, or writes it to a file; sends nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import document_output, pairs
from rainbow_sched.cli.render.listings import document_text

if TYPE_CHECKING:
    from rainbow_sched.discovery.finder import DiscoveredCluster

EPILOG = """\b
The file holds the resource graph as JGF; subsystems lie beside it, `perl.features.json`. Give
them to `rainbow register cluster` and `rainbow register subsystem`, or let
`rainbow agent --register auto` do all of it.

\b
Examples:
  rainbow discover
  rainbow discover --manager slurm --name perl --out perl.json
  rainbow discover --manager slurm -O conf=/etc/slurm/other.conf -o json
"""
SCHEMA = "rainbow.discover/1"


@click.command(epilog=EPILOG)
@click.option(
    "--manager",
    type=click.Choice(["auto", "host", "slurm", "flux"]),
    default="auto",
    show_default=True,
    help="What to ask; auto: what is here.",
)
@click.option("--name", metavar="NAME", help="The cluster's name (default: this machine's).")
@click.option("-O", "--backend-option", "options", multiple=True, metavar="KEY=VALUE", help="As the agent takes them.")
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write the graph here as JGF.")
@document_output()
def discover(manager: str, name: str | None, options: tuple[str, ...], out: str | None, form: str) -> None:
    """Say what this machine or cluster is. Nothing is sent anywhere."""
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.discovery.finder import discover_cluster
    from rainbow_sched.discovery.host import hostname
    from rainbow_sched.installation import require_extra
    from rainbow_sched.model.errors import Unsupported

    try:
        require_extra("agent", "finding all of it (such as the subsystem arch)")
    except Unsupported as incomplete:
        say(f"warning: {incomplete}")
    found = discover_cluster(name or hostname(), manager, pairs(options, "-O"))
    written = _write(found, Path(out)) if out else []
    described = describe(found, written)
    if form in ("json", "jsonl", "yaml"):
        click.echo(document_text({"schema": SCHEMA, **described}, form), nl=False)
    else:
        click.echo(text(described), nl=False)


def describe(found: DiscoveredCluster, written: list[str]) -> dict[str, Any]:
    """What was found, counted."""
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
    """The same in three lines for people."""
    counts = " · ".join(f"{many} {type}" for type, many in described["resources"].items())
    subsystems = " · ".join(f"{name} ({many})" for name, many in described["subsystems"].items())
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
