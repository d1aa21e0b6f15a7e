"""`rainbow server backup` and `rainbow server restore`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.render.listings import print_document

if TYPE_CHECKING:
    from rainbow_sched.server.options import ServerOptions
    from rainbow_sched.server.restore import Restored
    from rainbow_sched.store.backup import Backup, Progress

Command = TypeVar("Command", bound=Callable[..., Any])
PROGRESS_SECONDS = 0.5  # between two lines of progress

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


def database_options(command: Command) -> Command:
    """Add the options that select the database."""
    command = click.option("--db", default="", metavar="URL", help="The server's --db, if it has one.")(command)
    return click.option(
        "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The server's --data-dir."
    )(command)


@click.command(epilog=BACKUP_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@database_options
@document_output()
def backup(file: Path, data_dir: Path | None, db: str, format: str) -> None:
    """Copy the server's database to FILE while the server runs."""
    from rainbow_sched.store.backup import back_up

    made = back_up(_options(data_dir, db).database(), file.absolute(), _progress())
    print_document("rainbow.backup/1", _described(made), format, lambda: f"{made.path}: {_sentence(made)}\n")


@click.command(epilog=RESTORE_EPILOG)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--accept-loss", is_flag=True, help="Without FILE: continue with the existing database, as after a restore."
)
@database_options
@document_output()
def restore(file: Path | None, accept_loss: bool, data_dir: Path | None, db: str, format: str) -> None:
    """Restore the server's database from the backup FILE, or continue with one that lost data."""
    import asyncio

    from rainbow_sched.cli.shell.messages import print_message
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


def _options(data_dir: Path | None, db: str) -> ServerOptions:
    from rainbow_sched.cli.commands.server import default_data_dir
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
    import sys
    import time

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
