"""`rainbow register`: make a cluster, or one of its subsystems, known to the server."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.lazy_group import Commands

GROUP_EPILOG = """\b
Examples:
  RAINBOW_REGISTRATION_SECRET=... rainbow register cluster --cluster-name perl --nodes-json perl.json --save
  rainbow register subsystem --subsystem io --nodes-json perl-io.json
"""
CLUSTER_EPILOG = """\b
The registration secret comes from RAINBOW_REGISTRATION_SECRET, --secret-file, or the
config's scheduler.secret. The answer holds two credentials that are shown this once:
the token lets people submit to the cluster, the secret lets the cluster's own side
report and take jobs. --save writes both into the config file (mode 0600).

\b
Examples:
  rainbow register cluster --cluster-name perl --nodes-json perl.json --save
  rainbow register cluster --cluster-name perl --nodes-json perl.json -o json > perl.credentials
"""
SUBSYSTEM_EPILOG = """\b
Example:
  rainbow register subsystem --subsystem io --nodes-json perl-io.json
"""


@click.group(cls=Commands, epilog=GROUP_EPILOG)
def register() -> None:
    """Register a cluster, or a subsystem of one."""


@register.command(epilog=CLUSTER_EPILOG)
@click.option("--cluster-name", "--cluster", "name", required=True, metavar="NAME", help="Name of the cluster.")
@click.option(
    "--nodes-json",
    "--graph",
    "graph",
    required=True,
    metavar="FILE",
    help="Its resource graph: JGF in either shape, compact, or Flux R.",
)
@click.option("--manager", default="", metavar="KIND", help="What runs jobs there: local, flux, slurm.")
@click.option("--secret-file", metavar="FILE", help="File that holds the registration secret.")
@click.option("-s", "--secret", metavar="TEXT", help="The registration secret (others on the machine can read it).")
@click.option("--save", is_flag=True, help="Write the cluster's credentials into the config file.")
@click.option(
    "--replace", "replacing", is_flag=True, help="The cluster exists: replace its graph, keep its credentials."
)
@document_output()
@connected
def cluster(
    link: Link,
    name: str,
    graph: str,
    manager: str,
    secret_file: str | None,
    secret: str | None,
    save: bool,
    replacing: bool,
    form: str,
) -> None:
    """Register a cluster with its resource graph.

    A name that is taken is said so and nothing changes.
    """
    from dataclasses import replace

    from rainbow_sched.cli.input.graph_files import given_secret, graph_errors, read_bytes
    from rainbow_sched.cli.render.listings import MACHINE, document_text
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.model.cluster import cluster_name

    cluster_name(name)
    data = read_bytes(graph)
    settings = link.settings(new_config=save)
    if replacing:
        with graph_errors(graph):
            vertices = link.ask(lambda client: client.replace_graph(name, data), settings)
        click.echo(f"{name}: graph replaced, {vertices} vertices")
        return
    given = given_secret(secret, secret_file)
    if given:
        settings = replace(
            settings, registration_secret=given, origins={**settings.origins, "registration_secret": "flag"}
        )
    with graph_errors(graph):
        answer = link.ask(lambda client: client.register(name, data, manager=manager), settings)
    if answer.exists:
        say(f"{name} is registered already; nothing was changed (--replace gives it a new graph)")
    elif save:
        _save(settings, answer.cluster, answer.token, answer.secret)
    if form in MACHINE:
        click.echo(document_text({"schema": "rainbow.registered/1", **answer.as_dict()}, form), nl=False)
    elif not answer.exists and not save:
        click.echo(f"token: {answer.token}\nsecret: {answer.secret}")
        say(f"registered {name}; these are shown this once: keep them")


def _save(settings: object, name: str, token: str, secret: str) -> None:
    from rainbow_sched.cli.input.graph_files import config_target
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.client.config import Config, save
    from rainbow_sched.client.settings import ClientSettings, new_config_values

    assert isinstance(settings, ClientSettings)
    path = config_target(settings)
    known = settings.config if settings.config.values else Config(new_config_values(settings), path)
    config = known.with_value(name, "cluster", "name").with_value(secret, "cluster", "secret")
    save(config.with_cluster_token(name, token), path)
    say(f"registered {name}; its credentials are in {path}")


@register.command(epilog=SUBSYSTEM_EPILOG)
@click.option("--subsystem", required=True, metavar="NAME", help="Name of the subsystem: io, spack, network ...")
@click.option(
    "--nodes-json", "--graph", "graph", required=True, metavar="FILE", help="Its graph, which hangs on the cluster's."
)
@click.option("--cluster-name", "--cluster", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@connected
def subsystem(link: Link, subsystem: str, graph: str, name: str | None, secret_file: str | None) -> None:
    """Add a subsystem to a cluster, or replace it."""
    from rainbow_sched.cli.input.graph_files import given_secret, graph_errors, read_bytes, with_cluster

    settings, chosen = with_cluster(link.settings(), name, given_secret(None, secret_file))
    data = read_bytes(graph)
    with graph_errors(graph):
        vertices = link.ask(lambda client: client.put_subsystem(chosen, subsystem, data), settings)
    click.echo(f"{chosen}: subsystem {subsystem}, {vertices} vertices")
