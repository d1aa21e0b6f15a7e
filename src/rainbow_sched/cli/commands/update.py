"""`rainbow update`: report what changes quickly: a cluster's state, and which of its nodes are up."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import document_output, pairs
from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.lazy_group import Commands

GROUP_EPILOG = """\b
Examples:
  rainbow update state --state-file state.json
  rainbow update state nodes_free=20 cost_per_node_hour=1.6
  rainbow update nodes n17=down n18=up
"""


@click.group(cls=Commands, epilog=GROUP_EPILOG)
def update() -> None:
    """Report a cluster's state, or which of its nodes are up, down or drained."""


@update.command(epilog=GROUP_EPILOG)
@click.argument("values", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--state-file", metavar="FILE", help="JSON object of keys and values.")
@click.option("--cluster-name", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@document_output()
@connected
def state(
    link: Link, values: tuple[str, ...], state_file: str | None, name: str | None, secret_file: str | None, form: str
) -> None:
    """Merge keys and values into a cluster's state; policies choose by it. Keys that are not named stay."""
    from rainbow_sched.cli.input.graph_files import given_secret, read_object, value_of, with_cluster
    from rainbow_sched.cli.render.listings import MACHINE, document_text

    said = read_object(state_file) if state_file else {}
    said |= {key: value_of(text) for key, text in pairs(values, "update state").items()}
    if not said:
        raise click.UsageError("there is nothing to report; give --state-file FILE or KEY=VALUE")
    settings, chosen = with_cluster(link.settings(), name, given_secret(None, secret_file))
    whole = link.ask(lambda client: client.update_state(chosen, said), settings)
    if form in MACHINE:
        click.echo(
            document_text({"schema": "rainbow.state/1", "cluster": chosen, "state": dict(whole)}, form), nl=False
        )
    else:
        click.echo(f"{chosen}: {len(said)} key{'' if len(said) == 1 else 's'} updated, {len(whole)} in all")


@update.command(epilog=GROUP_EPILOG)
@click.argument("marks", nargs=-1, required=True, metavar="VERTEX=up|down|drained...")
@click.option("--cluster-name", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@connected
def nodes(link: Link, marks: tuple[str, ...], name: str | None, secret_file: str | None) -> None:
    """Mark vertices of a cluster's graph, by name or id; everything inside a vertex follows it."""
    from rainbow_sched.cli.input.graph_files import given_secret, with_cluster

    said = pairs(marks, "update nodes")
    wrong = [value for value in said.values() if value not in ("up", "down", "drained")]
    if wrong:
        raise click.UsageError(f"a vertex is up, down or drained, not {wrong[0]!r}")
    settings, chosen = with_cluster(link.settings(), name, given_secret(None, secret_file))
    changed = link.ask(lambda client: client.patch_graph(chosen, said), settings)
    click.echo(f"{chosen}: {changed} vertices changed")
