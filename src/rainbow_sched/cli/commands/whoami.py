"""`rainbow whoami`: show the caller's name and permissions."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.render.listings import print_document
from rainbow_sched.cli.render.terminal import one_line
from rainbow_sched.cli.shell.connect import Connector, connected

EPILOG = """\b
Example:
  rainbow whoami
"""


@click.command(epilog=EPILOG)
@document_output()
@connected
def whoami(connector: Connector, format: str) -> None:
    """Show your user name and permissions."""
    who = connector.call(lambda client: client.who_am_i())
    line = one_line(f"{who.name} ({who.kind or 'anonymous'}): {', '.join(who.scopes) or 'no scopes'}")
    print_document("rainbow.whoami/1", who.as_dict(), format, lambda: f"{line}\n")
