"""One database connection: named queries, transactions with savepoints, and gapless counters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from rainbow_sched.model.errors import Invalid
from rainbow_sched.store import named_sql
from rainbow_sched.store.base import ReadOnly

Row = tuple[Any, ...]
EVENT = "event"  # the counter of events
MAX_CACHED_CHARS = 8_000_000  # of the texts together; bounds the memory of the cache
ROWS_PER_STATEMENT = (64, 16)  # few sizes, so that each statement is prepared once


class Cursor(Protocol):
    """The common interface of both drivers' cursors."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, query: Any, params: Any = ..., /) -> Any: ...

    def executemany(self, query: Any, params_seq: Any, /) -> Any: ...

    def fetchall(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """The differences between the databases."""

    name: str
    placeholder: str
    begin_write: tuple[str, ...]
    begin_brief: tuple[str, ...]  # begins without waiting for locks; empty if the database is remote
    begin_read: tuple[str, ...]
    multi_row: bool  # True if one statement with many rows is cheaper than one statement per row
    reconnects: bool  # True if a new connection may succeed
    translate: Callable[[Exception], Exception]  # driver error -> RainbowError


class Session:
    """A connection, used by one thread at a time."""

    def __init__(
        self,
        cursor: Cursor,
        dialect: SqlDialect,
        *,
        writing: bool,
        close: Callable[[], None],
        pipeline: Callable[[], AbstractContextManager[object]] = nullcontext,
        exclusive: bool = False,
    ) -> None:
        """`pipeline` returns a context in which statements are sent without waiting for each response.

        `exclusive` promises that no other session writes, so that values may be cached across transactions.
        """
        self.dialect = dialect
        self.close = close
        self.pipeline = pipeline
        self._cursor = cursor
        self._writing = writing
        self._queries = named_sql.load(dialect.name)
        self._exclusive = exclusive
        self.text_ids = TextIdCache()
        self.cache: dict[object, Any] = {}  # values read or written; cleared when they may be stale
        self._counters: dict[str, int] | None = None  # committed values
        self._allocated: dict[str, int] = {}  # values to be stored by the commit
        self._begun: tuple[int, str] | None = None  # number and id of the generation that begins with the commit
        self._savepoint: tuple[dict[str, int], tuple[int, str] | None] = {}, None
        self._flushed: dict[str, int] = {}
        self._has_work = False  # True if this transaction contains a work that `undo_work` must keep
        self._brief = False  # True if it does not wait for locks
        self.guard: Callable[[Session], None] | None = None  # called at the beginning of each write transaction
        # Called after each commit that adds events, with the newest event and the generation that began with it.
        self.on_event: Callable[[int, tuple[int, str] | None], None] | None = None

    def text(self, query: str) -> str:
        """Return the SQL of a named query, to compose a longer one."""
        return self._queries[query]

    def rows(self, query: str, **values: named_sql.Value) -> list[Row]:
        """Return the rows of a named query."""
        return self.rows_of(self._queries[query], values)

    def rows_of(self, text: str, values: Mapping[str, named_sql.Value]) -> list[Row]:
        """Return the rows of a composed query."""
        self._cursor.execute(*named_sql.statement(text, self.dialect.placeholder).bind(values))
        return self._cursor.fetchall()

    def row(self, query: str, **values: named_sql.Value) -> Row | None:
        """Return the only row of a named query, or None."""
        rows = self.rows(query, **values)
        return rows[0] if rows else None

    def change(self, query: str, **values: named_sql.Value) -> int:
        """Execute a statement that writes; return the number of rows changed."""
        self._check(query, values.values())
        self._cursor.execute(*named_sql.statement(self._queries[query], self.dialect.placeholder).bind(values))
        return self._cursor.rowcount

    def returning(self, query: str, **values: named_sql.Value) -> list[Row]:
        """Execute a statement that writes; return its RETURNING rows."""
        self._check(query, values.values())
        return self.rows(query, **values)

    def change_many(self, query: str, rows: Sequence[Row]) -> int:
        """Execute a statement for each row, with values in the query's order; return the number of rows changed."""
        self._check(query, ())
        text = named_sql.statement(self._queries[query], self.dialect.placeholder).fixed
        if self.dialect.multi_row and len(rows) > 1 and named_sql.of_rows(text, 2):
            touched = 0
            for size, parts in _row_batches(rows):
                self._cursor.executemany(named_sql.of_rows(text, size), parts)
                touched += self._cursor.rowcount
            return touched
        if len(rows) == 1:
            self._cursor.execute(text, rows[0])
        elif rows:
            self._cursor.executemany(text, rows)
        return self._cursor.rowcount if rows else 0

    def _check(self, query: str, values: Iterable[named_sql.Value]) -> None:
        if not self._writing:
            raise ReadOnly(f"{query} writes; use Store.write")
        for value in values:
            if isinstance(value, str) and "\0" in value:
                reject_nul(value)

    def allocate(self, counter: str, count: int = 1) -> int:
        """Allocate `count` numbers of a counter and return the first. A rollback releases them."""
        first = self.counter(counter) + 1
        self._allocated[counter] = first + count - 1
        return first

    def counter(self, counter: str) -> int:
        """Return the last allocated number."""
        return self._allocated[counter] if counter in self._allocated else self.committed(counter)

    def committed(self, counter: str) -> int:
        """Return the last number allocated before this transaction."""
        if self._counters is None:
            self._counters = dict(self.rows("counters"))
        return self._counters.get(counter, 0)

    def begin_generation(self, number: int, id: str) -> None:
        """Begin a generation of the database with the commit of this transaction."""
        self._begun = number, id

    def begin(self, *, brief: bool = False) -> None:
        """Start a transaction; a brief one fails immediately if the database is locked."""
        self._allocated, self._begun, self._flushed, self._has_work, self._brief = {}, None, {}, False, brief
        dialect = self.dialect
        for statement in dialect.begin_brief if brief else dialect.begin_write if self._writing else dialect.begin_read:
            self._cursor.execute(statement)
        if self.guard is not None and self._writing:
            self.guard(self)

    def start_work(self) -> None:
        """Set the point to which `undo_work` returns; for the first work, the start of the transaction."""
        if self._has_work:
            self._savepoint = dict(self._allocated), self._begun
            self._cursor.execute("SAVEPOINT work")

    def accept_work(self) -> None:
        """Release the savepoint of the current work."""
        if self._has_work:
            self._cursor.execute("RELEASE SAVEPOINT work")
        self._has_work = True

    def undo_work(self) -> None:
        """Undo everything since `start_work`."""
        if not self._has_work:
            self.rollback()
            self.begin(brief=self._brief)
            return
        self.cache.clear()
        self._cursor.execute("ROLLBACK TO SAVEPOINT work")
        self._cursor.execute("RELEASE SAVEPOINT work")
        self._allocated, self._begun = self._savepoint

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo only this part of the transaction if an exception leaves it; raise that exception translated."""
        saved = dict(self._allocated), self._begun
        self._cursor.execute("SAVEPOINT part")
        try:
            yield
        except Exception as error:
            self.cache.clear()
            self._cursor.execute("ROLLBACK TO SAVEPOINT part")
            self._allocated, self._begun = saved
            raise self.dialect.translate(error) from error
        finally:
            self._cursor.execute("RELEASE SAVEPOINT part")

    def flush(self) -> None:
        """Write changed counters; call it last before a commit."""
        if self._allocated != self._flushed:
            self.change_many("put_counter", list(self._allocated.items()))
            self._flushed = dict(self._allocated)

    def commit(self) -> None:
        """Commit durably."""
        cache, counters = self.cache, self._counters
        self._clear_cache()  # if the commit fails, its outcome is unknown
        self._cursor.execute("COMMIT")
        if self._exclusive:
            self.cache = cache
            self._counters = None if counters is None else counters | self._allocated
        if self.on_event is not None and EVENT in self._allocated:
            self.on_event(self._allocated[EVENT], self._begun)

    def rollback(self) -> None:
        """Undo everything since `begin`."""
        self._clear_cache()
        self._cursor.execute("ROLLBACK")

    def _clear_cache(self) -> None:
        self.cache, self._counters = {}, None

    def run(self, statement: str) -> None:
        """Execute a statement of a migration."""
        self._cursor.execute(statement)


def _row_batches(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    """Split rows into statements: yield the rows per statement, and the values of each statement."""
    start = 0
    for size in ROWS_PER_STATEMENT:
        end = start + (len(rows) - start) // size * size
        if start < end:
            yield size, [_joined(rows[i : i + size]) for i in range(start, end, size)]
        start = end
    if start < len(rows):
        yield len(rows) - start, [_joined(rows[start:])]


def _joined(rows: Sequence[Row]) -> Row:
    return tuple(itertools.chain.from_iterable(rows))


class TextIdCache(dict[str, tuple[int, int]]):
    """Cache of ids and check numbers of committed texts, which are never deleted."""

    def __init__(self) -> None:
        self._free = MAX_CACHED_CHARS

    def remember(self, text: str, id: int, check: int) -> None:
        """Cache one entry; clear the cache first if it is full."""
        self._free -= len(text)
        if self._free < 0:
            self.clear()
            self._free = MAX_CACHED_CHARS - len(text)
        if self._free >= 0:
            self[text] = (id, check)


def reject_nul(text: str) -> str:
    """Return `text`; raise Invalid if it contains NUL, which PostgreSQL cannot store."""
    if "\0" in text:
        raise Invalid("a name or text must not contain the character NUL", where=repr(text[:40]))
    return text
