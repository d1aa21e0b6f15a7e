"""One connection: named queries in, rows out, and numbers without gaps."""

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
MOST_LASTING = 8_000_000  # characters
MANY_ROWS = (64, 16)  # rows of one statement, beside all smaller numbers: few texts, so that each is prepared once


class Cursor(Protocol):
    """What both drivers' cursors share."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, query: Any, params: Any = ..., /) -> Any: ...

    def executemany(self, query: Any, params_seq: Any, /) -> Any: ...

    def fetchall(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """Where the two databases differ."""

    name: str
    placeholder: str
    begin_write: tuple[str, ...]
    begin_brief: tuple[str, ...]  # waits for nobody; empty if every statement waits for an answer from elsewhere
    begin_read: tuple[str, ...]
    rows_at_once: bool  # True if one statement with many rows is cheaper than many of one
    reconnects: bool  # True if a new connection may help
    translate: Callable[[Exception], Exception]  # a driver's error as one of ours


class Session:
    """A connection used by one thread at a time."""

    def __init__(
        self,
        cursor: Cursor,
        dialect: SqlDialect,
        *,
        writing: bool,
        close: Callable[[], None],
        together: Callable[[], AbstractContextManager[object]] = nullcontext,
        alone: bool = False,
    ) -> None:
        """`together` makes a block in which writes are sent at once, without waiting for each one's answer.

        `alone` promises that nobody else writes: what this session has read or written it need not read again.
        """
        self.dialect = dialect
        self.close = close
        self.together = together
        self._cursor = cursor
        self._writing = writing
        self._queries = named_sql.load(dialect.name)
        self._alone = alone
        self.lasting_texts = LastingTexts()
        self.known: dict[object, Any] = {}  # what was read or written; forgotten when it may no longer be so
        self._counters: dict[str, int] | None = None  # as committed
        self._taken: dict[str, int] = {}  # as they will be stored at the commit
        self._begun: tuple[int, str] | None = None  # number and id of a generation that begins with the commit
        self._saved: tuple[dict[str, int], tuple[int, str] | None] = {}, None
        self._flushed: dict[str, int] = {}
        self._kept = False  # True if this transaction holds a work that `restore` must not undo
        self._brief = False  # True if it waits for nobody
        self.guard: Callable[[Session], None] | None = None  # checks at the beginning of each write transaction
        # Told the newest event after each commit that adds some, and the generation that began with it.
        self.on_event: Callable[[int, tuple[int, str] | None], None] | None = None

    def text(self, query: str) -> str:
        """The SQL of a named query, to build a longer one from."""
        return self._queries[query]

    def rows(self, query: str, **values: named_sql.Value) -> list[Row]:
        """The answer of a named query."""
        return self.rows_of(self._queries[query], values)

    def rows_of(self, text: str, values: Mapping[str, named_sql.Value]) -> list[Row]:
        """The answer of a query put together from named ones."""
        self._cursor.execute(*named_sql.statement(text, self.dialect.placeholder).bind(values))
        return self._cursor.fetchall()

    def row(self, query: str, **values: named_sql.Value) -> Row | None:
        """The only row of an answer, or None."""
        found = self.rows(query, **values)
        return found[0] if found else None

    def change(self, query: str, **values: named_sql.Value) -> int:
        """Run a statement that writes; how many rows it touched."""
        self._check(query, values.values())
        self._cursor.execute(*named_sql.statement(self._queries[query], self.dialect.placeholder).bind(values))
        return self._cursor.rowcount

    def returning(self, query: str, **values: named_sql.Value) -> list[Row]:
        """Run a statement that writes; the rows it gives back."""
        self._check(query, values.values())
        return self.rows(query, **values)

    def change_many(self, query: str, rows: Sequence[Row]) -> int:
        """Run one statement for each row, with values in the order in which the query names them; rows touched."""
        self._check(query, ())
        text = named_sql.statement(self._queries[query], self.dialect.placeholder).fixed
        if self.dialect.rows_at_once and len(rows) > 1 and named_sql.of_rows(text, 2):
            touched = 0
            for size, parts in _at_once(rows):
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
            if isinstance(value, str):
                plain(value)

    def take(self, counter: str, count: int = 1) -> int:
        """Draw `count` numbers from a counter: the first of them. A rollback gives them back."""
        first = self.counter(counter) + 1
        self._taken[counter] = first + count - 1
        return first

    def counter(self, counter: str) -> int:
        """The last number drawn."""
        return self._taken[counter] if counter in self._taken else self.committed(counter)

    def committed(self, counter: str) -> int:
        """The last number drawn before this transaction."""
        if self._counters is None:
            self._counters = dict(self.rows("counters"))
        return self._counters.get(counter, 0)

    def begin_generation(self, number: int, id: str) -> None:
        """With the commit of this transaction a generation of the database begins."""
        self._begun = number, id

    def begin(self, *, brief: bool = False) -> None:
        """Start a transaction; a brief one fails at once if somebody else is writing."""
        self._taken, self._begun, self._flushed, self._kept, self._brief = {}, None, {}, False, brief
        dialect = self.dialect
        for statement in dialect.begin_brief if brief else dialect.begin_write if self._writing else dialect.begin_read:
            self._cursor.execute(statement)
        if self.guard is not None and self._writing:
            self.guard(self)

    def save(self) -> None:
        """Set the point that `restore` goes back to; until something is kept, that is the beginning."""
        if self._kept:
            self._saved = dict(self._taken), self._begun
            self._cursor.execute("SAVEPOINT work")

    def keep(self) -> None:
        """Forget that point."""
        if self._kept:
            self._cursor.execute("RELEASE SAVEPOINT work")
        self._kept = True

    def restore(self) -> None:
        """Undo everything since `save`."""
        if not self._kept:
            self.rollback()
            self.begin(brief=self._brief)
            return
        self.known.clear()
        self._cursor.execute("ROLLBACK TO SAVEPOINT work")
        self._cursor.execute("RELEASE SAVEPOINT work")
        self._taken, self._begun = self._saved

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of the transaction: what is raised inside undoes it alone, and is raised as one of our own errors."""
        saved = dict(self._taken), self._begun
        self._cursor.execute("SAVEPOINT part")
        try:
            yield
        except Exception as error:
            self.known.clear()
            self._cursor.execute("ROLLBACK TO SAVEPOINT part")
            self._taken, self._begun = saved
            raise self.dialect.translate(error) from error
        finally:
            self._cursor.execute("RELEASE SAVEPOINT part")

    def flush(self) -> None:
        """Write the counters, if they have moved; the last thing before a commit."""
        if self._taken != self._flushed:
            self.change_many("put_counter", list(self._taken.items()))
            self._flushed = dict(self._taken)

    def commit(self) -> None:
        """Make it durable."""
        known, counters = self.known, self._counters
        self._forget()  # if this fails, nobody knows what is stored
        self._cursor.execute("COMMIT")
        if self._alone:
            self.known = known
            self._counters = None if counters is None else counters | self._taken
        if self.on_event is not None and EVENT in self._taken:
            self.on_event(self._taken[EVENT], self._begun)

    def rollback(self) -> None:
        """Undo everything since `begin`."""
        self._forget()
        self._cursor.execute("ROLLBACK")

    def _forget(self) -> None:
        self.known, self._counters = {}, None

    def run(self, statement: str) -> None:
        """Run a statement of a migration."""
        self._cursor.execute(statement)


def _at_once(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    """All rows in parts that are one statement each: how many rows such a part has, and the values of each part."""
    start = 0
    for size in MANY_ROWS:
        end = start + (len(rows) - start) // size * size
        if start < end:
            yield size, [_joined(rows[i : i + size]) for i in range(start, end, size)]
        start = end
    if start < len(rows):
        yield len(rows) - start, [_joined(rows[start:])]


def _joined(rows: Sequence[Row]) -> Row:
    return tuple(itertools.chain.from_iterable(rows))


class LastingTexts(dict[str, tuple[int, int]]):
    """Ids and check numbers of committed texts, which are never taken away; as many as a few megabytes hold."""

    def __init__(self) -> None:
        self._room = MOST_LASTING

    def remember(self, text: str, id: int, check: int) -> None:
        """Keep one; when there is no room, all others go."""
        self._room -= len(text)
        if self._room < 0:
            self.clear()
            self._room = MOST_LASTING - len(text)
        if self._room >= 0:
            self[text] = (id, check)


def plain(text: str) -> str:
    """`text` if every database can keep it."""
    if "\0" in text:
        raise Invalid("a name or text cannot hold the character NUL", where=repr(text[:40]))
    return text
