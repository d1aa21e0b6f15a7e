"""`rainbow register`: register a cluster, or a subsystem of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from rainbow_sched.cli.input import graph_files
from rainbow_sched.cli.input.options import Command, document_output
from rainbow_sched.cli.render.listings import MACHINE_FORMATS, document_text
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup
from rainbow_sched.client.config import Config
from rainbow_sched.client.config import save as save_config
from rainbow_sched.client.settings import ClientSettings, new_config_values

GROUP_EPILOG = """\b
Examples:
  RAINBOW_REGISTRATION_SECRET=... rainbow register cluster --cluster-name perl --nodes-json perl.json --save
  rainbow register subsystem --subsystem io --nodes-json perl-io.json
"""
CLUSTER_EPILOG = """\b
The registration secret comes from RAINBOW_REGISTRATION_SECRET, --secret-file, or the
config's scheduler.secret. Two credentials are printed, only this once: the token lets
users submit to the cluster, and the secret lets its agent report and receive jobs.
--save writes both into the config file (mode 0600).

\b
Examples:
  rainbow register cluster --cluster-name perl --nodes-json perl.json --save
  rainbow register cluster --cluster-name perl --nodes-json perl.json -o json > perl.credentials
"""
SUBSYSTEM_EPILOG = """\b
Example:
  rainbow register subsystem --subsystem io --nodes-json perl-io.json
"""


def _graph_option(help: str) -> Callable[[Command], Command]:
    return click.option("--nodes-json", "--graph", "graph", required=True, metavar="FILE", help=help)


@click.group(cls=CommandGroup, epilog=GROUP_EPILOG)
def register() -> None:
    """Register a cluster, or a subsystem of one."""


@register.command(epilog=CLUSTER_EPILOG)
@click.option("--cluster-name", "--cluster", "name", required=True, metavar="NAME", help="Name of the cluster.")
@_graph_option("Resource graph: JGF in either form, compact, or Flux R.")
@click.option("--manager", default="", metavar="KIND", help="Manager of the cluster: local, flux, slurm.")
@click.option("--secret-file", metavar="FILE", help="File that holds the registration secret.")
@click.option("-s", "--secret", metavar="TEXT", help="The registration secret (visible to other users of the machine).")
@click.option("--save", is_flag=True, help="Write the cluster's credentials into the config file.")
@click.option(
    "--replace", "replacing", is_flag=True, help="Replace the graph of an existing cluster; keep its credentials."
)
@document_output()
@connected
def cluster(
    connector: Connector,
    name: str,
    graph: str,
    manager: str,
    secret_file: str | None,
    secret: str | None,
    save: bool,
    replacing: bool,
    format: str,
) -> None:
    """Register a cluster with its resource graph.

    If the name exists, nothing changes.
    """
    from rainbow_sched.model.cluster import cluster_name

    cluster_name(name)
    data = graph_files.read_bytes(graph)
    settings = connector.settings(new_config=save)
    if replacing:
        with graph_files.graph_errors(graph):
            vertices = connector.call(lambda client: client.replace_graph(name, data), settings)
        click.echo(f"{name}: graph replaced, {vertices} vertices")
        return
    registration_secret = graph_files.secret_from_options(secret, secret_file)
    if registration_secret:
        settings = replace(
            settings,
            registration_secret=registration_secret,
            origins={**settings.origins, "registration_secret": "flag"},
        )
    with graph_files.graph_errors(graph):
        answer = connector.call(lambda client: client.register(name, data, manager=manager), settings)
    if answer.exists:
        print_message(f"{name} is already registered; nothing was changed (use --replace to replace its graph)")
    elif save:
        _save(settings, answer.cluster, answer.token, answer.secret)
    if format in MACHINE_FORMATS:
        click.echo(document_text({"schema": "rainbow.registered/1", **answer.as_dict()}, format), nl=False)
    elif not answer.exists and not save:
        click.echo(f"token: {answer.token}\nsecret: {answer.secret}")
        print_message(f"registered {name}; save these credentials, they are not shown again")


def _save(settings: ClientSettings, name: str, token: str, secret: str) -> None:
    path = graph_files.config_path_to_write(settings)
    config = settings.config if settings.config.values else Config(new_config_values(settings), path)
    config = config.with_value(name, "cluster", "name").with_value(secret, "cluster", "secret")
    save_config(config.with_cluster_token(name, token), path)
    print_message(f"registered {name}; its credentials are in {path}")


@register.command(epilog=SUBSYSTEM_EPILOG)
@click.option("--subsystem", required=True, metavar="NAME", help="Name of the subsystem: io, spack, network ...")
@_graph_option("Graph of the subsystem, attached to the cluster's graph.")
@click.option("--cluster-name", "--cluster", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@connected
def subsystem(connector: Connector, subsystem: str, graph: str, name: str | None, secret_file: str | None) -> None:
    """Add or replace a subsystem of a cluster."""
    settings, cluster = graph_files.cluster_settings(connector.settings(), name, secret_file)
    data = graph_files.read_bytes(graph)
    with graph_files.graph_errors(graph):
        vertices = connector.call(lambda client: client.put_subsystem(cluster, subsystem, data), settings)
    click.echo(f"{cluster}: subsystem {subsystem}, {vertices} vertices")
