"""`rainbow rules`: set who may use a cluster and how large jobs may be."""

from __future__ import annotations

from typing import Any

import click

from rainbow_sched.cli.input.options import names, number
from rainbow_sched.cli.shell.connect import Connector, connected

EPILOG = """\b
Without options the rules are shown. A limit that is not given is unchanged; 0 or an
empty list ('') removes it. Users who may not use a cluster do not see it. Existing jobs
are kept. The user of the token from a registration is submitter:NAME.

\b
Examples:
  rainbow rules west --allow-users ana,bob --allow-groups physics
  rainbow rules west --max-nodes 4 --max-time 2h --max-queued 10
  rainbow rules west --max-nodes 0
  rainbow rules west --clear
"""


@click.command(epilog=EPILOG)
@click.argument("name")
@click.option(
    "--allow-users", "users", metavar="USER[,...]", help="Allow only jobs of these users (and of --allow-groups)."
)
@click.option("--allow-groups", "groups", metavar="GROUP[,...]", help="Allow only jobs of users in these groups.")
@number("--max-nodes", least=0, help="Maximum nodes per job.")
@click.option("--max-time", metavar="DURATION", help="Maximum time limit of a job: 2h, 30m.")
@number("--max-queued", least=0, help="Maximum jobs per user on the cluster that have not ended.")
@click.option("--signed/--not-signed", default=None, help="Whether the agent runs only signed jobs.")
@click.option("--clear", is_flag=True, help="Remove all rules first.")
@connected
def rules(
    connector: Connector,
    name: str,
    users: str | None,
    groups: str | None,
    max_time: str | None,
    clear: bool,
    **rest: Any,
) -> None:
    """Set who may use the cluster NAME and how large jobs may be."""
    from rainbow_sched.cli.render.clusters import format_rules
    from rainbow_sched.model.quantities import parse_duration

    rest["users"] = None if users is None else names(users)
    rest["groups"] = None if groups is None else names(groups)
    rest["max_time"] = None if max_time is None else parse_duration(max_time) or 0.0
    if all(value is None for value in rest.values()) and not clear:
        cluster = connector.call(lambda client: client.cluster(name))
    else:
        cluster = connector.call(lambda client: client.set_rules(name, clear=clear, **rest))
    click.echo(f"{cluster.name}: {format_rules(cluster.rules) or 'no rules'}")
