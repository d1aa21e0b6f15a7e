"""The PostgreSQL store. An advisory lock serializes the writes of the server and of tools."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg

from rainbow_sched.model.errors import Conflict, Invalid, Unavailable
from rainbow_sched.store import claim as claims
from rainbow_sched.store.claim import Claim, Claimant, ClaimRow, ClaimTaken
from rainbow_sched.store.engine import SqlStore
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session, SqlDialect

CONNECT_SECONDS = 5  # timeout, so that an unreachable database is reported
_LOCK = 0x7261696E  # "rain": the advisory lock of all writes to one database
_NAME = "rainbow"  # session name of tools, and of servers from before claims
_OTHER_SESSIONS = (
    "SELECT pid, coalesce(host(client_addr), 'this machine'), extract(epoch FROM backend_start) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = :name AND pid <> pg_backend_pid() ORDER BY backend_start"
)
_SETTINGS = (
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '30s'",  # a stopped server must not block the others
    "SET client_encoding = 'UTF8'",
    # A commit is durable before it is acknowledged, independent of the server's default.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)


def open_postgres(url: str, claimant: Claimant | None = None) -> SqlStore:
    """Open the store in an existing PostgreSQL database. With a claimant: take the claim for a server."""
    name = _NAME if claimant is None else _session_name(claimant.instance)
    writer = _connect(url, writing=True, name=name)
    try:
        claim = None if claimant is None else _claim(url, writer, claimant)
        migrate(writer)
    except BaseException as error:
        writer.close()
        raise _translate(error) if isinstance(error, psycopg.Error) else error from None
    return SqlStore(writer, lambda writing: _connect(url, writing=writing, name=name), claim=claim)


def _claim(url: str, writer: Session, claimant: Claimant) -> Claim:
    """Take the claim and make every write transaction of `writer` check it."""
    version = _schema_version(writer)
    if 0 < version < claims.FIRST_CLAIM_SCHEMA:
        _wait_for_older_server(writer)
    if version < claims.FIRST_CLAIM_SCHEMA:
        migrate(writer, upto=claims.FIRST_CLAIM_SCHEMA)
    name = _session_name(claimant.instance)
    try:
        return Claim.take(
            writer, claimant, lambda: _connect_for_claim(url, name), name="PostgreSQL", evict=_end_sessions
        )
    except psycopg.errors.LockNotAvailable:
        raise Unavailable(
            "the claim on the database has expired, but a session of its server still holds locks in the middle of a "
            "write: end that process, or its session (pg_terminate_backend, as a user with that right)"
        ) from None


@contextmanager
def claimed_connection(url: str, claim: Claim) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection for one transaction of a tool that holds the claim.

    It checks the claim as every write does. If another server takes the claim while this process is stopped, that
    server ends the session.
    """
    with psycopg.connect(
        url, connect_timeout=CONNECT_SECONDS, application_name=_session_name(claim.claimant.instance)
    ) as connection:
        claim.check(Session(connection.cursor(), DIALECT, writing=True, close=connection.close))
        yield connection


def _schema_version(session: Session) -> int:
    """Return the schema version, 0 for an empty database. It takes no lock, which a frozen server may hold."""
    [(there,)] = session.rows_of("SELECT to_regclass('schema_versions') IS NOT NULL", {})
    return int(session.rows("schema_version")[0][0]) if there else 0


def _session_name(instance: str) -> str:
    return f"{_NAME} {instance}"


def _end_sessions(session: Session, row: ClaimRow) -> None:
    """End the sessions of a server whose claim has expired: a frozen one may hold locks that no timeout releases."""
    with suppress(psycopg.errors.InsufficientPrivilege):  # if a session still holds a lock, the lock timeout reports it
        for pid, _, _ in session.rows_of(_OTHER_SESSIONS, {"name": _session_name(row.instance)}):
            session.rows_of("SELECT pg_terminate_backend(:pid)", {"pid": pid})


def _wait_for_older_server(session: Session) -> None:
    """Wait until no server from before claims is connected; call it before the upgrade to the first claim schema."""
    until = time.monotonic() + claims.WAIT_SECONDS
    while others := session.rows_of(_OTHER_SESSIONS, {"name": _NAME}):
        if time.monotonic() >= until:
            _, address, since = others[0]
            raise ClaimTaken(
                f"an older Rainbow is connected to this database (from {address}, since {claims.utc(float(since))}), "
                "and only one server may serve it: stop that one before this upgrade"
            )
        time.sleep(claims.POLL_SECONDS)  # there is no notification when another session ends


class _Cursor(psycopg.Cursor[Any]):
    """A cursor that invalidates the driver's prepared statements at each rollback.

    The driver marks a statement as prepared when it sends it, but if an earlier one of the same pipeline fails, it was
    not prepared. A rollback clears these marks only if the driver has not seen its text before, so each gets its own
    text.
    """

    _rollbacks = itertools.count()

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        if isinstance(query, str) and query.startswith("ROLLBACK"):
            query = f"{query} -- {next(self._rollbacks)}"
        elif isinstance(query, str) and query.startswith("BEGIN"):
            options["prepare"] = False  # a message with two statements cannot be prepared
        return super().execute(query, params, **options)


def _connect_for_claim(url: str, name: str) -> Session:
    """Open a session for renewals. Its timeouts are shorter than the lease, so that a retry can still renew it."""
    session = _connect(url, writing=True, name=name, tcp_user_timeout=int(2000 * claims.RENEW_SECONDS))
    session.run(f"SET statement_timeout = {int(1000 * claims.LEASE_SECONDS)}")
    return session


def _connect(url: str, *, writing: bool, name: str = _NAME, **options: int) -> Session:
    try:
        connection = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name=name,
            prepare_threshold=3,
            **options,  # type: ignore[arg-type]  # of libpq
        )
        connection.cursor_factory = _Cursor
        for setting in _SETTINGS:
            connection.execute(setting)
    except psycopg.ProgrammingError as error:
        raise Invalid(f"not a PostgreSQL URL ({_first_line(error)}): write postgresql://USER@HOST/DATABASE") from None
    except psycopg.Error as error:
        raise _translate(error) from None

    def close() -> None:
        with suppress(psycopg.Error):
            connection.close()

    return Session(connection.cursor(), DIALECT, writing=writing, close=close, pipeline=connection.pipeline)


def _translate(error: Exception) -> Exception:
    """Translate a driver error into a RainbowError; return it unchanged if it indicates a bug."""
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a name or text contains an unpaired surrogate, which is not a character")
    if isinstance(error, psycopg.IntegrityError):
        return Conflict(f"the database rejects this: {_first_line(error)}")
    if isinstance(error, psycopg.DataError):
        return Invalid(f"the database cannot store this: {_first_line(error)}")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Invalid(f"the database user lacks a right ({_first_line(error)}): make it the owner of the database")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return Unavailable(f"PostgreSQL cannot be used now: {_first_line(error)}")
    return error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


DIALECT = SqlDialect(
    name="postgresql",
    placeholder="%s",
    begin_write=(f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({_LOCK})",),
    begin_brief=(),
    begin_read=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    multi_row=False,  # the pipeline already sends rows together
    reconnects=True,
    translate=_translate,
)
