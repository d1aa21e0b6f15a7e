"""`rainbow key`: the key that signs your jobs, made and shown."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.lazy_group import Commands

EPILOG = """\b
A site can ask that jobs are signed by those who submit them (rainbow agent
--allowed-signers FILE): then not even a stolen server can run anything there.
The line that key show prints goes into that file.

\b
Examples:
  rainbow key create
  rainbow key show
  rainbow submit --sign -M perl -- ./simulate
"""


@click.group(cls=Commands, epilog=EPILOG)
def key() -> None:
    """Make and show the key that signs your jobs."""


@key.command(epilog="\b\nExample:\n  rainbow key create\n")
@click.option("--key", "path", metavar="FILE", help="Where to (default: beside the config file).")
def create(path: str | None) -> None:
    """Make a key, in a file that only you can read. There is no copy of it: keep the file."""
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.client.signing import create_key

    chosen = _path(path)
    create_key(chosen)
    click.echo(str(chosen))
    say("give a site the line that rainbow key show prints")


@key.command(epilog="\b\nExample:\n  rainbow key show >> allowed_signers\n")
@click.option("--key", "path", metavar="FILE", help="Which (default: the one beside the config file).")
@click.option("--user", metavar="NAME", help="Your name (default: the one the server knows you by).")
@connected
def show(link: Link, path: str | None, user: str | None) -> None:
    """Print the line that a site puts into its file of allowed signers; it holds no secret."""
    from rainbow_sched.client.signing import load_key, public_bytes
    from rainbow_sched.model.credential import user_name
    from rainbow_sched.model.signature import signer_line

    public = public_bytes(load_key(_path(path)))
    name = user_name(user) if user else link.ask(lambda client: client.who_am_i()).name
    click.echo(signer_line(name, public))


def _path(text: str | None) -> Path:
    from rainbow_sched.client.signing import key_path

    return Path(text).expanduser() if text else key_path(os.environ)
