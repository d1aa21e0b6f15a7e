"""`rainbow config`: write a config file, or show the settings and their origins."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Column, Listing, print_listing, text
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup
from rainbow_sched.client.config import Config, default_values, save
from rainbow_sched.client.settings import DEFAULT_SERVER, ClientSettings, addresses, read_secret
from rainbow_sched.model.errors import AlreadyExists

GROUP_EPILOG = """\b
Examples:
  rainbow config init
  rainbow config show
"""
INIT_EPILOG = """\b
scheduler.secret is the value from --secret-file or RAINBOW_REGISTRATION_SECRET, else
empty.

\b
Examples:
  rainbow config init
  rainbow config init --config-path ~/.config/rainbow/rainbow-config.yaml --server rainbow.lab.edu
"""
SHOW_EPILOG = """\b
Options override the environment, which overrides the config file. If none of them has a
token, and all servers are on this machine, the token in the data folder of your own server
(rainbow/admin.token) is used. The config file is --config-path, else RAINBOW_CONFIG,
./rainbow-config.yaml, or rainbow/rainbow-config.yaml under $XDG_CONFIG_HOME.

\b
Example:
  rainbow config show -o json
"""
LISTING = Listing(
    schema="rainbow.settings/1",
    key="settings",
    keys=("name", "value", "origin"),
    columns=(
        Column("SETTING", text("name")),
        Column("VALUE", text("value")),
        Column("FROM", text("origin")),
    ),
)


@click.group(cls=CommandGroup, epilog=GROUP_EPILOG)
def config() -> None:
    """Write a config file, or show the settings."""


@config.command(epilog=INIT_EPILOG)
@click.option(
    "--config-path",
    "--config",
    "path",
    default="rainbow-config.yaml",
    show_default=True,
    metavar="FILE",
    help="File to write.",
)
@click.option("--name", default="rainbow", show_default=True, help="Name of the scheduler.")
@click.option("--server", metavar="HOST:PORT", help="Server address for clients.")
@click.option("--secret-file", metavar="FILE", help="File that holds the registration secret.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(path: str, name: str, server: str | None, secret_file: str | None, force: bool) -> None:
    """Write a private config file (mode 0600) for this program and the prototype's clients."""
    target = Path(path)
    if target.exists() and not force:
        raise AlreadyExists(f"{path} exists; use --force to replace it")
    from_file = read_secret(secret_file, "the registration secret") if secret_file else ""
    secret = from_file or os.environ.get("RAINBOW_REGISTRATION_SECRET", "")
    values = default_values(name, secret, str(addresses(server or DEFAULT_SERVER)[0]))
    if server:
        values["server"] = server
    save(Config(values), target)
    print_message(f"wrote {path}")


@config.command(epilog=SHOW_EPILOG)
@output
@connected
def show(connector: Connector, format: str) -> None:
    """Show the settings and where each comes from. Secrets are shown as set or not set."""
    print_listing(LISTING, rows_of(connector.settings()), format)


def rows_of(settings: ClientSettings) -> list[dict[str, str]]:
    secrets = ("token", "cluster_secret", "registration_secret")
    shown = {
        "config": str(settings.config.path or "none"),
        "server": ",".join(str(one) + (" (TLS)" if one.tls else "") for one in settings.servers),
        "cluster": settings.cluster,
        "submit_tokens_for": ",".join(settings.cluster_tokens),
        "ca": settings.tls.ca,
        "cert": settings.tls.cert,
        **{name: "set" if getattr(settings, name) else "" for name in secrets},
    }
    in_file = {"cluster", "submit_tokens_for"}
    return [
        {
            "name": name,
            "value": value or "not set",
            "origin": settings.origins.get(name, "config" if name in in_file and value else ""),
        }
        for name, value in shown.items()
    ]
