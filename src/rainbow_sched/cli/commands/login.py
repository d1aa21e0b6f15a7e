"""`rainbow login`: keep a server and a token in the config file, once they are known to work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client.settings import ClientSettings

EPILOG = """\b
The token is read from the terminal without being shown, or from stdin, or from
--token-file; never from the command line, which others on the machine can read.

\b
Examples:
  rainbow login rainbow.lab.edu:50051
  rainbow login rainbow.lab.edu:50051 --fingerprint sha256:9f86d0...
  rainbow login < my.token
"""


@click.command(epilog=EPILOG)
@click.argument("address", required=False)
@click.option(
    "--fingerprint", metavar="sha256:HEX", help="Trust the authority of the server that has this fingerprint."
)
@connected
def login(link: Link, address: str | None, fingerprint: str | None) -> None:
    """Check a token against the server ADDRESS and save both into the config file (mode 0600)."""
    from dataclasses import replace

    from rainbow_sched.cli.input.graph_files import config_target
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.client.config import save

    asking = replace(link, server=address) if address else link
    settings = asking.settings()
    if fingerprint:
        settings = _trusting(settings, fingerprint)
    text = _token() if not link.token_file else settings.token
    settings = replace(settings, token=text, cluster_tokens={})
    who = link.ask(lambda client: client.who_am_i(), settings)
    path = config_target(settings)
    config = settings.config.with_value(text, "token")
    if address:
        config = config.with_value(address, "server")
    save(config, path)
    say(f"you are {who.name}; server and token are in {path}")


def _trusting(settings: ClientSettings, fingerprint: str) -> ClientSettings:
    """Settings that trust the authority with this fingerprint, as the server shows it; it is kept beside the config."""
    from dataclasses import replace

    from rainbow_sched.cli.input.graph_files import config_target
    from rainbow_sched.cli.shell.pinning import authority_of
    from rainbow_sched.client.settings import Tls

    address = replace(settings.servers[0], tls=True)
    pem = authority_of(address.host, address.port, fingerprint)
    path = config_target(settings).with_name("rainbow-ca.pem")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(pem)
    tls = Tls(str(path.resolve()), settings.tls.cert, settings.tls.key)
    config = settings.config.with_value(tls.ca, "tls", "ca")
    return replace(settings, servers=(address,), tls=tls, config=config)


def _token() -> str:
    import sys

    from rainbow_sched.model.errors import Invalid

    if sys.stdin.isatty():
        text = str(click.prompt("Token", hide_input=True))
    else:
        text = sys.stdin.readline(4096)
    if not text.strip():
        raise Invalid("no token was given")
    return text.strip()
