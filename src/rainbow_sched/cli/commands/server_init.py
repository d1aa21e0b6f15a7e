"""`rainbow server init`: an authority and certificates of one's own, and the line by which others join."""

from __future__ import annotations

from pathlib import Path

import click

from rainbow_sched.cli.input.options import Whole

EPILOG = """\b
Writes tls/ca.pem, server.pem, server.key, agent.pem and agent.key into the data dir. A
server that listens beyond this machine uses them without being told. --renew makes new
certificates from the same authority; a running server takes them at the next connection.

\b
Examples:
  rainbow server init --name rainbow.lab.edu
  rainbow server --listen 0.0.0.0:50051
  rainbow server init --renew --name rainbow.lab.edu
"""


@click.command(epilog=EPILOG)
@click.option("--name", "names", multiple=True, metavar="HOST", help="Name or address of this server; repeatable.")
@click.option("--port", type=Whole(1, 65535), default=50051, show_default=True, help="For the join line.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Where.")
@click.option("--renew", "renewing", is_flag=True, help="Only new certificates, from the authority that is there.")
def init(names: tuple[str, ...], port: int, data_dir: Path | None, renewing: bool) -> None:
    """Make an authority and certificates for a server that faces a network."""
    import datetime
    import socket

    from rainbow_sched.cli.commands.server import default_data_dir
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.server.tls import make_authority, renew

    folder = (data_dir or default_data_dir()) / "tls"
    chosen = names or (socket.getfqdn(),)
    hosts = tuple(dict.fromkeys((*chosen, "localhost", "127.0.0.1", "::1")))
    found = (renew if renewing else make_authority)(folder, hosts, datetime.datetime.now(datetime.UTC))
    say(f"authority and certificates for {', '.join(hosts)} are in {folder}")
    say("people and clusters trust this server once they have run:")
    click.echo(f"rainbow login {chosen[0]}:{port} --fingerprint {found}")
    say("a cluster joins with a token from: rainbow token create --join")
