"""`rainbow server`: run the server, create its certificates and administrator token, back up and restore its data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import Command, WholeNumber, document_output, pairs
from rainbow_sched.cli.render.listings import print_document
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.lazy_group import CommandGroup

if TYPE_CHECKING:
    from rainbow_sched.client.config import Config
    from rainbow_sched.server.options import ServerOptions
    from rainbow_sched.server.restore import Restored
    from rainbow_sched.store.backup import Backup, Progress


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
BACKUP_EPILOG = """\b
Run it on the server's machine, as the server's user; the server keeps running. The
backup is one SQLite file, also for a PostgreSQL database. It contains hashes of tokens,
but not the secrets and keys in the data dir: back up admin.token, registration.secret
and tls/ separately.

\b
Examples:
  rainbow server backup /backups/rainbow-$(date +%F).db
  rainbow server backup rainbow.db --db postgresql://rainbow@db/rainbow
"""
RESTORE_EPILOG = """\b
Stop the server first. The existing database is renamed, not deleted. After the restore no
job id is reused and no job runs twice: the server asks each cluster which jobs it ran since
the backup, and older jobs wait until the clusters that may have run them have reported.
`rainbow restored` shows the results and the missing reports.

\b
Examples:
  rainbow server restore /backups/rainbow-2026-11-18.db
  rainbow server restore backup.db --db postgresql://rainbow@db/rainbow
  rainbow server restore --accept-loss
"""
NO_TOKEN_CREATED = "No token was created"
PROGRESS_SECONDS = 0.5  # between two lines of progress


def _data_dir(help: str) -> Callable[[Command], Command]:
    folder = click.Path(file_okay=False, path_type=Path)
    return click.option("--data-dir", type=folder, metavar="DIR", help=help)


def _database(command: Command) -> Command:
    """Add the options that select the server's database."""
    command = click.option("--db", default="", metavar="URL", help="The server's --db, if it has one.")(command)
    return _data_dir("The server's --data-dir.")(command)


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
@_data_dir("Folder for database and secrets.")
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
    "--allow-anonymous-satisfy",
    "anonymous_satisfy",
    is_flag=True,
    help="Allow the prototype's Satisfy without credentials.",
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
    /,
    config_path: str | None,
    data_dir: Path | None,
    policy: str | None,
    options: tuple[str, ...],
    graph: str | None,
    **given: Any,
) -> None:
    """Run the server until SIGTERM or ^C. Listening on other addresses than localhost requires TLS."""
    if ctx.invoked_subcommand is not None:
        return
    from rainbow_sched.client.config import Config, load
    from rainbow_sched.server.main import serve
    from rainbow_sched.server.options import ServerOptions, limits_from, oidc_from

    config = load(Path(config_path)) if config_path else Config()
    registration_secret = config.text("scheduler", "secret")
    if registration_secret and config.exposed():
        print_message(
            f"warning: {config.path} holds a secret and other users can read it; run: chmod 600 {config.path}"
        )
    selection = ("scheduler", "algorithms", "selection")
    configured_options = {} if policy else _texts(config.section(*selection, "options"))
    serve(
        ServerOptions(
            data_dir=data_dir or default_data_dir(),
            policy=policy or config.text(*selection, "name"),
            policy_options=pairs(options, "--policy-option") or configured_options,
            graph_backend=graph or config.text("graphdatabase", "name") or "memory",
            graph_options=_graph_options(config),
            registration_secret=registration_secret,
            limits=limits_from(config.section("limits")),
            oidc=oidc_from(config.section("oidc")),
            timing=config.section("scheduler", "timing"),
            counts=config.section("scheduler", "counts"),
            **given,
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
@_data_dir("The server's --data-dir.")
@click.option("--renew", "renewing", is_flag=True, help="Create only new certificates, from the existing authority.")
def init(names: tuple[str, ...], port: int, data_dir: Path | None, renewing: bool) -> None:
    """Create an authority and certificates for a server on a network."""
    import datetime
    import socket

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
@_database
def admin_token(data_dir: Path | None, db: str) -> None:
    """Create a new administrator's token, in the file admin.token of the data dir."""
    import asyncio

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


@server.command(epilog=BACKUP_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@_database
@document_output()
def backup(file: Path, data_dir: Path | None, db: str, format: str) -> None:
    """Copy the server's database to FILE while the server runs."""
    from rainbow_sched.store.backup import back_up

    made = back_up(_options(data_dir, db).database(), file.absolute(), _progress())
    print_document("rainbow.backup/1", _described(made), format, lambda: f"{made.path}: {_sentence(made)}\n")


@server.command(epilog=RESTORE_EPILOG)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--accept-loss", is_flag=True, help="Without FILE: continue with the existing database, as after a restore."
)
@_database
@document_output()
def restore(file: Path | None, accept_loss: bool, data_dir: Path | None, db: str, format: str) -> None:
    """Restore the server's database from the backup FILE, or continue with one that lost data."""
    import asyncio

    from rainbow_sched.server import restore as restoring

    if (file is None) != accept_loss:
        raise click.UsageError("give either the FILE of a backup, or --accept-loss")
    options = _options(data_dir, db)
    if file is None:
        done = asyncio.run(restoring.accept_loss(options))
    else:
        done = asyncio.run(restoring.restore(options, file.absolute(), _progress()))
    if done.admin_token is not None:
        print_message(f"the backup has no administrator; the token of a new one is in {done.admin_token}")
    if done.set_aside is not None:
        print_message(f"the previous database was renamed to {done.set_aside}")
    print_document("rainbow.server-restore/1", _outcome(done), format, lambda: _summary(done))


def default_data_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("rainbow", appauthor=False))


def _graph_options(config: Config) -> dict[str, str]:
    """Return the options of the graph backend, without two keys of the prototype."""
    options = _texts(config.section("graphdatabase", "options"))
    return {key: value for key, value in options.items() if key not in ("host", "backupFile")}


def _texts(section: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(value) for key, value in section.items()}


def _options(data_dir: Path | None, db: str) -> ServerOptions:
    from rainbow_sched.server.options import ServerOptions

    return ServerOptions(data_dir=(data_dir or default_data_dir()).absolute(), db=db)


def _outcome(done: Restored) -> dict[str, Any]:
    document: dict[str, Any] = {
        "generation": done.generation.number,
        "old_jobs": done.generation.old_jobs,
        "clusters_awaited": done.clusters,
    }
    if done.backup is not None:
        document["backup"] = _described(done.backup)
    if done.set_aside is not None:
        document["set_aside"] = str(done.set_aside)
    if done.admin_token is not None:
        document["admin_token_file"] = str(done.admin_token)
    return document


def _summary(done: Restored) -> str:
    action = "Continued with the existing database" if done.backup is None else f"Restored {_sentence(done.backup)}"
    awaited = "no cluster is registered"
    if done.clusters:
        awaited = f"jobs up to {done.generation.old_jobs} wait for the reports of {done.clusters} clusters"
    return (
        f"{action}. This is generation {done.generation.number}; {awaited}.\n"
        "Now start the server; show the results with: rainbow restored\n"
    )


def _described(made: Backup) -> dict[str, Any]:
    from datetime import UTC, datetime

    document: dict[str, Any] = {
        "path": str(made.path),
        "database_schema": made.schema,
        "jobs": made.jobs,
        "last_event": made.last_event,
    }
    if made.last_event_at is not None:
        document["last_event_at"] = datetime.fromtimestamp(made.last_event_at, UTC).isoformat(timespec="seconds")
    return {**document, "bytes": made.bytes}


def _sentence(made: Backup) -> str:
    from rainbow_sched.store.claim import utc

    jobs = f"{made.jobs} job{'s' if made.jobs != 1 else ''}"
    last = "" if made.last_event_at is None else f", last event {made.last_event} at {utc(made.last_event_at)}"
    return f"{jobs}{last} ({made.bytes / 2**20:.1f} MiB)"


def _progress() -> Progress:
    """Return a function that reports the progress on stderr, if stderr is a terminal."""
    from rainbow_sched.store.backup import no_progress

    if not sys.stderr.isatty():
        return no_progress
    last_report = time.monotonic()

    def report(what: str, share: float) -> None:
        nonlocal last_report
        if time.monotonic() - last_report >= PROGRESS_SECONDS:
            last_report = time.monotonic()
            print(f"\r\x1b[Krainbow: copying {what}: {share:.0%}", end="" if share < 1 else "\n", file=sys.stderr)

    return report
