"""`rainbow update`: report a cluster's state, and which of its nodes are up."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.graph_files import cluster_settings, parse_value, read_object
from rainbow_sched.cli.input.options import document_output, pairs
from rainbow_sched.cli.render.listings import print_document
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup

GROUP_EPILOG = """\b
Examples:
  rainbow update state --state-file state.json
  rainbow update state nodes_free=20 cost_per_node_hour=1.6
  rainbow update nodes n17=down n18=up
"""


@click.group(cls=CommandGroup, epilog=GROUP_EPILOG)
def update() -> None:
    """Report a cluster's state, or which of its nodes are up, down or drained."""


@update.command(epilog=GROUP_EPILOG)
@click.argument("values", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--state-file", metavar="FILE", help="File with a JSON object of keys and values.")
@click.option("--cluster-name", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@document_output()
@connected
def state(
    connector: Connector,
    values: tuple[str, ...],
    state_file: str | None,
    name: str | None,
    secret_file: str | None,
    format: str,
) -> None:
    """Merge keys and values into a cluster's state, which policies use. Other keys are unchanged."""
    values_to_set = read_object(state_file) if state_file else {}
    values_to_set |= {key: parse_value(text) for key, text in pairs(values, "update state").items()}
    if not values_to_set:
        raise click.UsageError("no values given; use --state-file FILE or KEY=VALUE")
    settings, cluster = cluster_settings(connector.settings(), name, secret_file)
    whole = connector.call(lambda client: client.update_state(cluster, values_to_set), settings)
    keys = f"{len(values_to_set)} key{'' if len(values_to_set) == 1 else 's'}"
    document = {"cluster": cluster, "state": dict(whole)}
    print_document("rainbow.state/1", document, format, lambda: f"{cluster}: {keys} updated, {len(whole)} in all\n")


@update.command(epilog=GROUP_EPILOG)
@click.argument("marks", nargs=-1, required=True, metavar="VERTEX=up|down|drained...")
@click.option("--cluster-name", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@connected
def nodes(connector: Connector, marks: tuple[str, ...], name: str | None, secret_file: str | None) -> None:
    """Mark vertices of a cluster's graph, by name or id, with everything they contain."""
    states = pairs(marks, "update nodes")
    wrong = [value for value in states.values() if value not in ("up", "down", "drained")]
    if wrong:
        raise click.UsageError(f"a vertex must be up, down or drained, not {wrong[0]!r}")
    settings, cluster = cluster_settings(connector.settings(), name, secret_file)
    changed = connector.call(lambda client: client.patch_graph(cluster, states), settings)
    click.echo(f"{cluster}: {changed} vertices changed")
