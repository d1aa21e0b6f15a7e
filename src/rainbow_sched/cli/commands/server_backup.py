"""`rainbow server backup` and `rainbow server restore`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rainbow_sched.cli.input.options import document_output

if TYPE_CHECKING:
    from rainbow_sched.server.options import ServerOptions
    from rainbow_sched.server.restore import Restored
    from rainbow_sched.store.backup import Backup, Progress

Command = TypeVar("Command", bound=Callable[..., Any])
BAR_SECONDS = 0.5  # between two lines of progress

BACKUP_EPILOG = """\b
Run it on the server's machine, as the server's user; the server goes on meanwhile. The
backup is one SQLite file, also of a PostgreSQL database. It holds hashes of tokens, not
the secrets and keys in the data dir: keep those apart (admin.token,
registration.secret, tls/).

\b
Examples:
  rainbow server backup /backups/rainbow-$(date +%F).db
  rainbow server backup rainbow.db --db postgresql://rainbow@db/rainbow
"""

RESTORE_EPILOG = """\b
Stop the server first. The database that is there is set aside, not deleted. After the
restore no id is given twice and nothing runs twice: each cluster is asked for what it
ran since the backup, and jobs from before wait until those that may have run them have
answered. `rainbow restored` shows what was found and who has not answered yet.

\b
Examples:
  rainbow server restore /backups/rainbow-2026-11-18.db
  rainbow server restore backup.db --db postgresql://rainbow@db/rainbow
  rainbow server restore --accept-loss
"""


def place(command: Command) -> Command:
    """Add the options that say which database is meant."""
    command = click.option("--db", default="", metavar="URL", help="The server's --db, if it has one.")(command)
    return click.option(
        "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The server's --data-dir."
    )(command)


@click.command(epilog=BACKUP_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@place
@document_output()
def backup(file: Path, data_dir: Path | None, db: str, form: str) -> None:
    """Copy the server's database to FILE while the server runs."""
    from rainbow_sched.store.backup import back_up

    made = back_up(_options(data_dir, db).database(), file.absolute(), _progress())
    _show({"schema": "rainbow.backup/1", **_described(made)}, f"{made.path}: {_sentence(made)}\n", form)


@click.command(epilog=RESTORE_EPILOG)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--accept-loss", is_flag=True, help="Without FILE: go on with what is there, as after a restore.")
@place
@document_output()
def restore(file: Path | None, accept_loss: bool, data_dir: Path | None, db: str, form: str) -> None:
    """Put the server's database back to the backup FILE, or go on with one that has lost something."""
    import asyncio

    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.server import restore as restoring

    if (file is None) != accept_loss:
        raise click.UsageError("give either the FILE of a backup, or --accept-loss")
    options = _options(data_dir, db)
    if file is None:
        done = asyncio.run(restoring.accept_loss(options))
    else:
        done = asyncio.run(restoring.restore(options, file.absolute(), _progress()))
    if done.admin_token is not None:
        say(f"there was no administrator any more; the token of a new one is in {done.admin_token}")
    if done.set_aside is not None:
        say(f"the database that was there is now {done.set_aside}")
    _show(_outcome(done), _told(done), form)


def _options(data_dir: Path | None, db: str) -> ServerOptions:
    from rainbow_sched.cli.commands.server import default_data_dir
    from rainbow_sched.server.options import ServerOptions

    return ServerOptions(data_dir=(data_dir or default_data_dir()).absolute(), db=db)


def _outcome(done: Restored) -> dict[str, Any]:
    found: dict[str, Any] = {
        "schema": "rainbow.server-restore/1",
        "generation": done.generation.number,
        "old_jobs": done.generation.old_jobs,
        "clusters_awaited": done.clusters,
    }
    if done.backup is not None:
        found["backup"] = _described(done.backup)
    if done.set_aside is not None:
        found["set_aside"] = str(done.set_aside)
    if done.admin_token is not None:
        found["admin_token_file"] = str(done.admin_token)
    return found


def _told(done: Restored) -> str:
    what = "Went on with what is there" if done.backup is None else f"Restored {_sentence(done.backup)}"
    awaited = "no cluster is registered"
    if done.clusters:
        awaited = f"jobs up to {done.generation.old_jobs} wait for the reports of {done.clusters} clusters"
    return (
        f"{what}. This is generation {done.generation.number}; {awaited}.\n"
        "Now start the server; what it finds: rainbow restored\n"
    )


def _described(made: Backup) -> dict[str, Any]:
    from datetime import UTC, datetime

    found: dict[str, Any] = {
        "path": str(made.path),
        "database_schema": made.schema,
        "jobs": made.jobs,
        "last_event": made.last_event,
    }
    if made.last_event_at is not None:
        found["last_event_at"] = datetime.fromtimestamp(made.last_event_at, UTC).isoformat(timespec="seconds")
    return {**found, "bytes": made.bytes}


def _sentence(made: Backup) -> str:
    from rainbow_sched.store.claim import utc

    newest = "" if made.last_event_at is None else f", the newest event of {utc(made.last_event_at)}"
    jobs = f"{made.jobs} job{'s' if made.jobs != 1 else ''}"
    return f"{jobs}, {made.last_event} events{newest} ({made.bytes / 2**20:.1f} MiB)"


def _show(document: dict[str, Any], text: str, form: str) -> None:
    from rainbow_sched.cli.render.listings import MACHINE, document_text

    click.echo(document_text(document, form) if form in MACHINE else text, nl=False)


def _progress() -> Progress:
    """Report on stderr what is copied, where somebody looks."""
    import sys
    import time

    from rainbow_sched.store.backup import no_progress

    if not sys.stderr.isatty():
        return no_progress
    told = time.monotonic()

    def report(what: str, share: float) -> None:
        nonlocal told
        if time.monotonic() - told >= BAR_SECONDS:
            told = time.monotonic()
            print(f"\r\x1b[Krainbow: copying {what}: {share:.0%}", end="" if share < 1 else "\n", file=sys.stderr)

    return report
