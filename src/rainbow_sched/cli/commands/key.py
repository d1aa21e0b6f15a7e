"""`rainbow key`: create and show the key that signs your jobs."""

from __future__ import annotations

import os

import click

from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup

EPILOG = """\b
A site can require signed jobs (rainbow agent --allowed-signers FILE). Then even a
compromised server cannot run jobs there. Add the output of key show to that file.

\b
Examples:
  rainbow key create
  rainbow key show
  rainbow submit --sign -M perl -- ./simulate
"""


@click.group(cls=CommandGroup, epilog=EPILOG)
def key() -> None:
    """Create and show the key that signs your jobs."""


@key.command(epilog="\b\nExample:\n  rainbow key create\n")
@click.option("--key", "path", metavar="FILE", help="File to write (default: beside the config file).")
def create(path: str | None) -> None:
    """Create a key in a private file. There is no other copy of it."""
    from rainbow_sched.client.signatures import create_key, key_path

    target = key_path(path, os.environ)
    create_key(target)
    click.echo(str(target))
    print_message("send sites the output of: rainbow key show")


@key.command(epilog="\b\nExample:\n  rainbow key show >> allowed_signers\n")
@click.option("--key", "path", metavar="FILE", help="File of the key (default: beside the config file).")
@click.option("--user", metavar="NAME", help="Your user name (default: from the server).")
@connected
def show(connector: Connector, path: str | None, user: str | None) -> None:
    """Print your public key as a line for a site's file of allowed signers."""
    from rainbow_sched.client.signatures import key_path, load_key
    from rainbow_sched.model.credential import user_name
    from rainbow_sched.model.signature import signer_line

    public = load_key(key_path(path, os.environ)).public_key().public_bytes_raw()
    name = user_name(user) if user else connector.call(lambda client: client.who_am_i()).name
    click.echo(signer_line(name, public))
