"""`rainbow rules`: who may use a cluster, and how much they may ask for."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import Whole, names
from rainbow_sched.cli.shell.connect import Link, connected

EPILOG = """\b
Without options the rules are shown. An option that is not given stays as it is; 0, or
an empty list (''), takes a limit away. Who may not use a cluster does not see it. Jobs
that are there already stay. The token that a registration gave is submitter:NAME.

\b
Examples:
  rainbow rules west --allow-users ana,bob --allow-groups physics
  rainbow rules west --max-nodes 4 --max-time 2h --max-queued 10
  rainbow rules west --max-nodes 0
  rainbow rules west --clear
"""


@click.command(epilog=EPILOG)
@click.argument("name")
@click.option("--allow-users", metavar="USER[,...]", help="Jobs of these users only (and of --allow-groups).")
@click.option("--allow-groups", metavar="GROUP[,...]", help="Jobs of users in these groups only.")
@click.option("--max-nodes", type=Whole(0), metavar="N", help="Nodes of one job.")
@click.option("--max-time", metavar="DURATION", help="Time limit of one job: 2h, 30m.")
@click.option("--max-queued", type=Whole(0), metavar="N", help="Jobs of one user there that have not ended.")
@click.option("--signed/--not-signed", default=None, help="Its agents run signed jobs only.")
@click.option("--clear", is_flag=True, help="Begin with no rules.")
@connected
def rules(
    link: Link,
    name: str,
    allow_users: str | None,
    allow_groups: str | None,
    max_nodes: int | None,
    max_time: str | None,
    max_queued: int | None,
    signed: bool | None,
    clear: bool,
) -> None:
    """Say who may use the cluster NAME, and for how much."""
    from rainbow_sched.cli.render.clusters import said_rules

    given = (allow_users, allow_groups, max_nodes, max_time, max_queued, signed)
    if all(one is None for one in given) and not clear:
        found = link.ask(lambda client: client.cluster(name))
    else:
        seconds = None if max_time is None else _seconds(max_time)
        found = link.ask(
            lambda client: client.set_rules(
                name,
                users=None if allow_users is None else names(allow_users),
                groups=None if allow_groups is None else names(allow_groups),
                max_nodes=max_nodes,
                max_time=seconds,
                max_queued=max_queued,
                signed=signed,
                clear=clear,
            )
        )
    click.echo(f"{found.name}: {said_rules(found.rules) or 'no rules'}")


def _seconds(text: str) -> float:
    from rainbow_sched.jobspecs.reading.durations import parse_duration

    return 0.0 if text == "0" else parse_duration(text) or 0.0
