"""`rainbow config`: write the prototype's config file, and show what is in force and where it comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Column, Listing, listing_text
from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.lazy_group import Commands

GROUP_EPILOG = """\b
Examples:
  rainbow config init
  rainbow config show
"""
INIT_EPILOG = """\b
No secret is made up: scheduler.secret is what --secret-file or
RAINBOW_REGISTRATION_SECRET says, else empty.

\b
Examples:
  rainbow config init
  rainbow config init --config-path ~/.config/rainbow/rainbow-config.yaml --server rainbow.lab.edu
"""
SHOW_EPILOG = """\b
A flag beats the environment, the environment beats the config file. Without a token
from any of them, and for servers on this machine alone, the token is the one that your
own server left in your data folder (rainbow/admin.token). The config file is
--config-path, else RAINBOW_CONFIG, ./rainbow-config.yaml, or rainbow/rainbow-config.yaml
under $XDG_CONFIG_HOME.

\b
Example:
  rainbow config show -o json
"""
LISTING = Listing(
    schema="rainbow.settings/1",
    key="settings",
    keys=("name", "value", "origin"),
    columns=(
        Column("SETTING", lambda row: row["name"]),
        Column("VALUE", lambda row: row["value"]),
        Column("FROM", lambda row: row["origin"]),
    ),
)


@click.group(cls=Commands, epilog=GROUP_EPILOG)
def config() -> None:
    """Write a config file, or show the settings in force."""


@config.command(epilog=INIT_EPILOG)
@click.option(
    "--config-path", "--config", "path", default="rainbow-config.yaml", show_default=True, metavar="FILE", help="Where."
)
@click.option("--name", default="rainbow", show_default=True, help="Name of the scheduler.")
@click.option("--server", metavar="HOST:PORT", help="The server that clients shall use.")
@click.option("--secret-file", metavar="FILE", help="File that holds the registration secret.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(path: str, name: str, server: str | None, secret_file: str | None, force: bool) -> None:
    """Write a config file that this program and the prototype's clients read, for its owner alone (mode 0600)."""
    from rainbow_sched.client.config import Config, default_values, save
    from rainbow_sched.client.settings import addresses, read_secret
    from rainbow_sched.model.errors import AlreadyExists

    target = Path(path)
    if target.exists() and not force:
        raise AlreadyExists(f"{path} exists; --force replaces it, with everything in it")
    from_file = read_secret(secret_file, "the registration secret") if secret_file else ""
    values = default_values(name, from_file or os.environ.get("RAINBOW_REGISTRATION_SECRET", ""))
    if server:
        values["server"] = server
        values["graphdatabase"]["host"] = values["graphdatabase"]["options"]["host"] = str(addresses(server)[0])
    save(Config(values), target)
    click.echo(f"rainbow: wrote {path}", err=True)


@config.command(epilog=SHOW_EPILOG)
@output
@connected
def show(link: Link, form: str) -> None:
    """Show the settings in force and where each comes from. Secrets are never printed, only whether they are set."""
    rows = rows_of(link.settings())
    click.echo(listing_text(LISTING, rows, form), nl=False)


def rows_of(settings: Any) -> list[dict[str, str]]:
    """One row for each setting."""
    origins = settings.origins
    hidden = {
        "token": settings.token,
        "cluster_secret": settings.cluster_secret,
        "registration_secret": settings.registration_secret,
    }
    shown = {
        "config": str(settings.config.path or "none"),
        "server": ",".join(str(one) + (" (TLS)" if one.tls else "") for one in settings.servers),
        "cluster": settings.cluster,
        "submit_tokens_for": ",".join(settings.cluster_tokens),
        "ca": settings.tls.ca,
        "cert": settings.tls.cert,
        **{name: "set" if secret else "" for name, secret in hidden.items()},
    }
    in_file = {"cluster", "submit_tokens_for"}
    return [
        {
            "name": name,
            "value": value or "not set",
            "origin": origins.get(name, "config" if name in in_file and value else ""),
        }
        for name, value in shown.items()
    ]
