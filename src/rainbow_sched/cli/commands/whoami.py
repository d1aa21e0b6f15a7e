"""`rainbow whoami`: the caller, as the server sees it."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Link, connected

EPILOG = """\b
Example:
  rainbow whoami
"""


@click.command(epilog=EPILOG)
@document_output()
@connected
def whoami(link: Link, form: str) -> None:
    """Show who the server takes you for, and what your credential opens."""
    from rainbow_sched.cli.render.listings import MACHINE, document_text
    from rainbow_sched.cli.render.terminal import one_line

    who = link.ask(lambda client: client.who_am_i())
    if form in MACHINE:
        click.echo(document_text({"schema": "rainbow.whoami/1", **who.as_dict()}, form), nl=False)
    else:
        click.echo(one_line(f"{who.name} ({who.kind or 'anonymous'}): {', '.join(who.scopes) or 'no scopes'}"))
