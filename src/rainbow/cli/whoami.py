"""`rainbow whoami`: the caller, as the server sees it."""

from __future__ import annotations

import click

from rainbow.cli.link import Link, connected
from rainbow.cli.options import document_output

EPILOG = """\b
Example:
  rainbow whoami
"""


@click.command(epilog=EPILOG)
@document_output()
@connected
def whoami(link: Link, form: str) -> None:
    """Show who the server takes you for, and what your credential opens."""
    from rainbow.cli.output import MACHINE, document_text
    from rainbow.cli.terminal import one_line

    who = link.ask(lambda client: client.who_am_i())
    if form in MACHINE:
        click.echo(document_text({"schema": "rainbow.whoami/1", **who.as_dict()}, form), nl=False)
    else:
        click.echo(one_line(f"{who.name} ({who.kind or 'anonymous'}): {', '.join(who.scopes) or 'no scopes'}"))
