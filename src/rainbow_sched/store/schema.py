"""Migrate a database to the current schema, one migration per transaction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from rainbow_sched.model.errors import Conflict
from rainbow_sched.store.session import Session

# The migrations are written for SQLite; these are the substitutions for PostgreSQL.
_POSTGRESQL = (("INTEGER PRIMARY KEY", "BIGINT PRIMARY KEY"), (" BLOB", " BYTEA"), (" WITHOUT ROWID", ""))
_FILE = re.compile(r"(\d{4})_\w+\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One schema change."""

    version: int
    name: str
    text: str

    def statements(self, dialect: str) -> list[str]:
        """Return the statements for one database."""
        text = "\n".join(line.split("--", 1)[0].rstrip() for line in self.text.splitlines())
        if dialect == "postgresql":
            for ours, theirs in _POSTGRESQL:
                text = text.replace(ours, theirs)
        return [part.strip() for part in text.split(";\n") if part.strip(" \n;")]


@lru_cache(maxsize=1)
def migrations() -> tuple[Migration, ...]:
    """Return all migrations, in order."""
    names = sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda f: f.name)
    matches = ((f, _FILE.fullmatch(f.name)) for f in names)
    return tuple(Migration(int(m[1]), f.name, f.read_text("utf-8")) for f, m in matches if m)


def migrate(session: Session, known: tuple[Migration, ...] | None = None, *, upto: int | None = None) -> int:
    """Apply the missing migrations, up to schema `upto` if given; return the version reached.

    Conflict: the database is newer than this program.
    """
    known = migrations() if known is None else known
    session.begin()
    session.run("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY, name TEXT NOT NULL)")
    session.commit()
    while True:
        session.begin()  # under the write lock, so that two servers that start at once do not both migrate
        version = int(session.rows("schema_version")[0][0])
        newest = known[-1].version if known else 0
        if version > newest:
            session.rollback()
            raise Conflict(
                f"this database has schema {version}, made by a newer Rainbow; this one knows schemas up to {newest}: "
                "start the newer version, or restore the backup from before the upgrade"
            )
        missing = [m for m in known if m.version > version and (upto is None or m.version <= upto)]
        if not missing:
            session.rollback()
            return version
        for statement in missing[0].statements(session.dialect.name):
            session.run(statement)
        session.change("add_schema_version", version=missing[0].version, name=missing[0].name)
        session.commit()
