"""Connections to the databases of the cypher backend: ladybug in the process, Neo4j or Memgraph by Bolt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from rainbow_sched.graphs.cypher.queries import INDEXES, TABLES
from rainbow_sched.installation import missing
from rainbow_sched.model.errors import Unavailable, Unsupported

Row = list[Any]
_BUFFER = 256 << 20  # bytes; the engine's default is most of the machine's memory
_MAX_DATABASE = 1 << 36  # bytes of address space; the engine's default of 8 TB is refused on many machines


class Embedded:
    """The engine `ladybug` in this process, in memory or in a file."""

    def __init__(self, path: str = "") -> None:
        try:
            import ladybug  # only where this backend is chosen
        except ImportError as error:
            raise missing("ladybug", "cypher", "the cypher backend") from error
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = ladybug.Database(
                path or ":memory:", buffer_pool_size=_BUFFER, max_num_threads=2, max_db_size=_MAX_DATABASE
            )
            self._connection = ladybug.Connection(self._database)
        except RuntimeError as error:
            raise Unavailable(f"the graph database {path or 'in memory'} does not open: {error}") from error
        for table in TABLES:
            self.run(table)

    def run(self, query: str, **values: Any) -> list[Row]:
        """Run a query and return all rows."""
        try:
            result: Any = self._connection.execute(query, values)
            rows: list[Row] = result.get_all()
            result.close()
        except RuntimeError as error:
            raise Unavailable(f"the graph database refused a query: {error}") from error
        return rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the queries inside together, or roll them back after an exception."""
        self.run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def close(self) -> None:
        self._connection.close()
        self._database.close()


class Bolt:
    """A Neo4j or Memgraph server; the URI holds user and password, as in `bolt://user:secret@host:7687`.

    It has the methods of `Embedded`.
    """

    def __init__(self, uri: str, driver: Any = None) -> None:
        self._driver = driver or _connect(uri)
        self._session = self._driver.session()
        self._running: Any = None
        for choices in INDEXES:  # the first that works, in the server's syntax; existing ones are refused
            for query in choices:
                with suppress(Unavailable):
                    self.run(query)
                    break

    def run(self, query: str, **values: Any) -> list[Row]:
        with _bolt_errors():
            return [list(record.values()) for record in (self._running or self._session).run(query, values)]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with _bolt_errors():
            self._running = self._session.begin_transaction()
        try:
            yield
            with _bolt_errors():
                self._running.commit()
        finally:
            self._running.close()  # undoes what was not committed
            self._running = None

    def close(self) -> None:
        self._session.close()
        self._driver.close()


def _connect(uri: str) -> Any:
    try:
        import neo4j  # only where a server is named
    except ImportError as error:
        raise missing("neo4j", "cypher", "a graph database by Bolt") from error
    parts = urlsplit(uri)
    where = f"{parts.scheme}://{parts.hostname}:{parts.port or 7687}"
    user = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
    driver = neo4j.GraphDatabase.driver(where, auth=user)
    with _bolt_errors():
        driver.verify_connectivity()
    return driver


@contextmanager
def _bolt_errors() -> Iterator[None]:
    from neo4j.exceptions import DriverError, Neo4jError  # loaded with the driver

    try:
        yield
    except (DriverError, Neo4jError) as error:
        raise Unavailable(f"the graph database cannot be asked: {error}") from error


CypherEngine: TypeAlias = Embedded | Bolt


def open_engine(options: Mapping[str, str]) -> CypherEngine:
    """Open the engine for the options: `uri` for a server, else `path` for a file, else memory."""
    unknown = set(options) - {"path", "uri"}
    if unknown:
        raise Unsupported(f"the cypher backend has the options path and uri, not {', '.join(sorted(unknown))}")
    return Bolt(options["uri"]) if options.get("uri") else Embedded(options.get("path", ""))
