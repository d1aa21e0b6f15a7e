"""`rainbow login`: keep a server and a token in the config file, once they are known to work."""

from __future__ import annotations

import click

from rainbow.cli.link import Link, connected

EPILOG = """\b
The token is read from the terminal without being shown, or from stdin, or from
--token-file; never from the command line, which others on the machine can read.

\b
Examples:
  rainbow login rainbow.lab.edu:50051
  rainbow login < my.token
"""


@click.command(epilog=EPILOG)
@click.argument("address", required=False)
@connected
def login(link: Link, address: str | None) -> None:
    """Check a token against the server ADDRESS and save both into the config file (mode 0600)."""
    from dataclasses import replace

    from rainbow.cli.graph_files import config_target
    from rainbow.cli.report import say
    from rainbow.client.config import save

    asking = replace(link, server=address) if address else link
    settings = asking.settings()
    text = _token() if not link.token_file else settings.token
    settings = replace(settings, token=text, cluster_tokens={})
    who = link.ask(lambda client: client.who_am_i(), settings)
    path = config_target(settings)
    config = settings.config.with_value(text, "token")
    if address:
        config = config.with_value(address, "server")
    save(config, path)
    say(f"you are {who.name}; server and token are in {path}")


def _token() -> str:
    import sys

    from rainbow.model.errors import Invalid

    if sys.stdin.isatty():
        text = str(click.prompt("Token", hide_input=True))
    else:
        text = sys.stdin.readline(4096)
    if not text.strip():
        raise Invalid("no token was given")
    return text.strip()
