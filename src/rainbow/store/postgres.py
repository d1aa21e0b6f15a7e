"""PostgreSQL: when one machine is not enough; several servers take turns at writing by an advisory lock."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any, Self

import psycopg

from rainbow.model.errors import Conflict, Invalid, Unavailable
from rainbow.store.engine import Engine
from rainbow.store.schema import migrate
from rainbow.store.session import Dialect, Session

CONNECT_SECONDS = 5
_LOCK = 0x7261696E  # "rain": the lock under which all servers of one database write
_SETTINGS = (
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '30s'",  # a stopped server must not hold the others up
    "SET client_encoding = 'UTF8'",
    # A commit is durable before it is acknowledged, whatever the server's default is.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)


def open_postgres(url: str) -> Engine:
    """The store in a PostgreSQL database, which exists."""
    writer = _connect(url, writing=True)
    try:
        migrate(writer)
    except BaseException as error:
        writer.close()
        raise _translate(error) if isinstance(error, psycopg.Error) else error from None
    return Engine(writer, lambda writing: _connect(url, writing=writing))


class _Cursor(psycopg.Cursor[Any]):
    """A cursor after whose rollbacks no statement is taken for prepared that is not.

    The driver notes a statement as prepared when it sends it; if an earlier one of the same
    pipeline fails, it never is. A rollback makes the driver forget them all, but only a rollback
    whose text it has not seen before: so each has a text of its own.
    """

    _rollbacks = itertools.count()

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        if isinstance(query, str) and query.startswith("ROLLBACK"):
            query = f"{query} -- {next(self._rollbacks)}"
        return super().execute(query, params, **options)


def _connect(url: str, *, writing: bool) -> Session:
    try:
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="rainbow", prepare_threshold=3
        )
        connection.cursor_factory = _Cursor
        for setting in _SETTINGS:
            connection.execute(setting)
    except psycopg.ProgrammingError as error:
        raise Invalid(
            f"this is no PostgreSQL URL ({_first_line(error)}): write postgresql://USER@HOST/DATABASE"
        ) from None
    except psycopg.Error as error:
        raise _translate(error) from None

    def close() -> None:
        with suppress(psycopg.Error):
            connection.close()

    return Session(connection.cursor(), DIALECT, writing=writing, close=close, together=connection.pipeline)


def _translate(error: Exception) -> Exception:
    """A driver's error as one of ours, or as it is when it shows a mistake in the code."""
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a name or text holds half of a surrogate pair, which is no character")
    if isinstance(error, psycopg.IntegrityError):
        return Conflict(f"the database refuses this: {_first_line(error)}")
    if isinstance(error, psycopg.DataError):
        return Invalid(f"the database cannot store this: {_first_line(error)}")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Invalid(f"the database user may not do this ({_first_line(error)}): make it the owner of the database")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return Unavailable(f"PostgreSQL cannot be used now: {_first_line(error)}")
    return error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


DIALECT = Dialect(
    name="postgresql",
    placeholder="%s",
    begin_write=("BEGIN ISOLATION LEVEL READ COMMITTED", f"SELECT pg_advisory_xact_lock({_LOCK})"),
    begin_brief=(),
    begin_read=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    rows_at_once=False,  # rows are sent together as it is
    reconnects=True,
    translate=_translate,
)
