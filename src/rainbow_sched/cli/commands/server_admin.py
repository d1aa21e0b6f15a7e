"""`rainbow server admin-token`: a new token for the administrator, for whoever can open the database."""

from __future__ import annotations

from pathlib import Path

import click

NOT_MADE = "No token was made"
EPILOG = """\b
For when the first token is lost, or the last administrator was disabled. It needs the
database itself, not a token; with SQLite the server must be stopped meanwhile. The
audit log tells of it. Tokens that are out stay good: revoke them if they were stolen.

\b
Examples:
  rainbow server admin-token
  rainbow server admin-token --data-dir /var/lib/rainbow
  rainbow server admin-token --db postgresql://rainbow@db/rainbow
"""


@click.command("admin-token", epilog=EPILOG)
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Where.")
@click.option("--db", default="", metavar="URL", help="The server's --db, if it has one.")
def admin_token(data_dir: Path | None, db: str) -> None:
    """Make a new administrator's token, in the file admin.token of the data dir."""
    import asyncio
    import time

    from rainbow_sched.cli.commands.server import default_data_dir
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.model.errors import NotFound
    from rainbow_sched.server.options import ServerOptions, write_secret
    from rainbow_sched.server.restore import ADMIN_FILE, check_database, check_file
    from rainbow_sched.service.access.accounts import new_administrator
    from rainbow_sched.service.random_ids import Ids
    from rainbow_sched.store.backup import sqlite_path
    from rainbow_sched.store.opening import open_store

    options = ServerOptions(data_dir=data_dir or default_data_dir(), db=db)
    check_file(options, NOT_MADE)
    path = sqlite_path(options.database())
    if path is not None and not path.exists():
        raise NotFound(f"there is no database {path}; say where: --data-dir or --db")

    async def made() -> str:
        store = await open_store(options.database())
        try:
            await check_database(store, options, NOT_MADE)
            return await new_administrator(store, Ids(), time.time())
        finally:
            await store.close()

    token = options.data_dir / ADMIN_FILE
    write_secret(token, asyncio.run(made()))
    click.echo(str(token))
    say("the token of the user admin is in this file; the audit log tells that it was made")
