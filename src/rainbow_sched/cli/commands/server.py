"""`rainbow server`: run the server, and create its certificates and administrator token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rainbow_sched.cli.commands.server_backup import backup, restore
from rainbow_sched.cli.input.options import WholeNumber, pairs
from rainbow_sched.cli.shell.lazy_group import CommandGroup

if TYPE_CHECKING:
    from rainbow_sched.client.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])

SERVER_EPILOG = """\b
The registration secret, which clusters need to register, comes from
RAINBOW_REGISTRATION_SECRET or the config's scheduler.secret. Without either, the server
generates one at its first start and logs the name of its file.

\b
Examples:
  rainbow server
  rainbow server --listen 127.0.0.1:0 --db sqlite:////var/lib/rainbow/rainbow.db
  rainbow server --listen 0.0.0.0:50051 --tls-cert server.pem --tls-key server.key
  rainbow server --db postgresql://rainbow@db/rainbow --policy weighted \\
      --policy-option 'weights=0.6*start + 0.4*cost'
"""
INIT_EPILOG = """\b
Writes tls/ca.pem, server.pem, server.key, agent.pem and agent.key into the data dir. A
server that listens on other addresses than localhost uses them by default. --renew creates
new certificates from the same authority; a running server uses them for new connections.

\b
Examples:
  rainbow server init --name rainbow.lab.edu
  rainbow server --listen 0.0.0.0:50051
  rainbow server init --renew --name rainbow.lab.edu
"""
ADMIN_TOKEN_EPILOG = """\b
Use it if the first token is lost, or if the last administrator was disabled. It needs
access to the database instead of a token; with SQLite, stop the server first. It is
recorded in the audit log. Other tokens stay valid; revoke them if they were stolen.

\b
Examples:
  rainbow server admin-token
  rainbow server admin-token --data-dir /var/lib/rainbow
  rainbow server admin-token --db postgresql://rainbow@db/rainbow
"""
NO_TOKEN_CREATED = "No token was created"


def _file(help: str, *names: str) -> Callable[[Command], Command]:
    return click.option(*names, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help=help)


@click.group(cls=CommandGroup, epilog=SERVER_EPILOG, invoke_without_command=True)
@click.option(
    "--listen",
    "--host",
    default="127.0.0.1:50051",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on.",
)
@click.option(
    "--db", default="", metavar="URL", help="sqlite:///FILE or postgresql://... (default: SQLite in the data dir)."
)
@click.option(
    "--config", "--config-path", "config_path", metavar="FILE", help="rainbow-config.yaml: secret, policy, graphs."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for database and secrets.",
)
@click.option(
    "--policy",
    "--select",
    "--select-algorithm",
    "policy",
    metavar="NAME",
    help="Selection policy for clusters that fit.",
)
@click.option("--policy-option", "options", multiple=True, metavar="K=V", help="Option of the policy; repeatable.")
@click.option("--graph-database", "graph", metavar="NAME", help="Graph backend: memory (default) or cypher.")
@_file("Certificate, for TLS.", "--tls-cert", "--cert")
@_file("Key of the certificate.", "--tls-key", "--key")
@_file("Authority that must have signed client certificates.", "--tls-ca", "--ca-cert")
@click.option(
    "--insecure", is_flag=True, help="Allow plain text on other addresses than localhost; traffic can be read."
)
@click.option(
    "--allow-anonymous-satisfy", "anonymous", is_flag=True, help="Allow the prototype's Satisfy without credentials."
)
@click.option(
    "--log-level",
    "--loglevel",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Level of the log on stderr.",
)
@click.pass_context
def server(
    ctx: click.Context,
    listen: str,
    db: str,
    config_path: str | None,
    data_dir: Path | None,
    policy: str | None,
    options: tuple[str, ...],
    graph: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    insecure: bool,
    anonymous: bool,
    log_level: str,
) -> None:
    """Run the server until SIGTERM or ^C. Listening on other addresses than localhost requires TLS."""
    if ctx.invoked_subcommand is not None:
        return
    from rainbow_sched.cli.shell.messages import print_message
    from rainbow_sched.client.config import Config, load
    from rainbow_sched.client.private_files import open_to_others
    from rainbow_sched.server.main import serve
    from rainbow_sched.server.options import ServerOptions, limits_from, oidc_from

    config = load(Path(config_path)) if config_path else Config()
    if config.text("scheduler", "secret") and config.path is not None and open_to_others(config.path):
        print_message(
            f"warning: {config.path} holds a secret and other users can read it; run: chmod 600 {config.path}"
        )
    serve(
        ServerOptions(
            listen=listen,
            db=db,
            data_dir=data_dir or default_data_dir(),
            policy=policy or _configured_policy(config),
            policy_options=pairs(options, "--policy-option") or ({} if policy else _policy_options(config)),
            graph_backend=graph or config.text("graphdatabase", "name") or "memory",
            graph_options=_graph_options(config),
            registration_secret=config.text("scheduler", "secret"),
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_ca=tls_ca,
            insecure=insecure,
            anonymous_satisfy=anonymous,
            log_level=log_level,
            limits=limits_from(config.section("limits")),
            oidc=oidc_from(config.section("oidc")),
            timing=config.section("scheduler", "timing"),
            counts=config.section("scheduler", "counts"),
        )
    )


@server.command(epilog=INIT_EPILOG)
@click.option("--name", "names", multiple=True, metavar="HOST", help="Name or address of this server; repeatable.")
@click.option(
    "--port",
    type=WholeNumber(1, 65535),
    default=50051,
    show_default=True,
    help="Port of the server, for the printed login command.",
)
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The server's --data-dir."
)
@click.option("--renew", "renewing", is_flag=True, help="Create only new certificates, from the existing authority.")
def init(names: tuple[str, ...], port: int, data_dir: Path | None, renewing: bool) -> None:
    """Create an authority and certificates for a server on a network."""
    import datetime
    import socket

    from rainbow_sched.cli.shell.messages import print_message
    from rainbow_sched.server.tls import make_authority, renew

    folder = (data_dir or default_data_dir()) / "tls"
    server_names = names or (socket.getfqdn(),)
    hosts = tuple(dict.fromkeys((*server_names, "localhost", "127.0.0.1", "::1")))
    fingerprint = (renew if renewing else make_authority)(folder, hosts, datetime.datetime.now(datetime.UTC))
    print_message(f"authority and certificates for {', '.join(hosts)} are in {folder}")
    print_message("to trust this server, users and clusters run:")
    click.echo(f"rainbow login {server_names[0]}:{port} --fingerprint {fingerprint}")
    print_message("to create a token for a new cluster: rainbow token create --join")


@server.command("admin-token", epilog=ADMIN_TOKEN_EPILOG)
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The server's --data-dir."
)
@click.option("--db", default="", metavar="URL", help="The server's --db, if it has one.")
def admin_token(data_dir: Path | None, db: str) -> None:
    """Create a new administrator's token, in the file admin.token of the data dir."""
    import asyncio
    import time

    from rainbow_sched.cli.shell.messages import print_message
    from rainbow_sched.model.errors import NotFound
    from rainbow_sched.server.options import ServerOptions, write_secret
    from rainbow_sched.server.restore import ADMIN_FILE, check_database, check_file
    from rainbow_sched.service.access.accounts import new_administrator
    from rainbow_sched.service.random_ids import Ids
    from rainbow_sched.store.backup import sqlite_path
    from rainbow_sched.store.factory import open_store

    options = ServerOptions(data_dir=data_dir or default_data_dir(), db=db)
    check_file(options, NO_TOKEN_CREATED)
    path = sqlite_path(options.database())
    if path is not None and not path.exists():
        raise NotFound(f"there is no database {path}; give --data-dir or --db")

    async def create_token() -> str:
        store = await open_store(options.database())
        try:
            await check_database(store, options, NO_TOKEN_CREATED)
            return await new_administrator(store, Ids(), time.time())
        finally:
            await store.close()

    token = options.data_dir / ADMIN_FILE
    write_secret(token, asyncio.run(create_token()))
    click.echo(str(token))
    print_message("this file holds a new token of the user admin; the audit log records it")


server.add_command(backup)
server.add_command(restore)


def default_data_dir() -> Path:
    """Return the default of --data-dir."""
    import platformdirs

    return Path(platformdirs.user_data_dir("rainbow", appauthor=False))


def _configured_policy(config: Config) -> str:
    return config.text("scheduler", "algorithms", "selection", "name")


def _policy_options(config: Config) -> dict[str, str]:
    return _texts(config.section("scheduler", "algorithms", "selection", "options"))


def _graph_options(config: Config) -> dict[str, str]:
    """Return the options of the graph backend, without two keys of the prototype."""
    options = _texts(config.section("graphdatabase", "options"))
    return {key: value for key, value in options.items() if key not in ("host", "backupFile")}


def _texts(section: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(value) for key, value in section.items()}
