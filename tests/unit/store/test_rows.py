"""Rows are read by position: the fields of a class are the columns of its query, in the same order."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rainbow_sched.store import named_sql
from rainbow_sched.store.tables import access, attempts, clusters, generations, history
from rainbow_sched.store.tables.rows import ATTEMPTS, JOBS, RowFormat

FORMATS: dict[str, RowFormat[Any]] = {
    "job_columns": JOBS,
    "attempt_columns": ATTEMPTS,
    "cluster_columns": clusters.CLUSTERS,
    "credential_columns": access.CREDENTIALS,
    "audit_columns": access.AUDIT_LINES,
    "user": access.USERS,
    "groups": access.GROUPS,
    "commands": attempts.COMMANDS,
    "events": history.EVENTS,
    "generations": generations.GENERATIONS,
    "restore_reports": generations.REPORTS,
    "findings": generations.FINDINGS,
}
# What the queries call otherwise, and what `job_of` and `findings` convert themselves.
NAMES = {"spec_body": "spec", "source_body": "source"}
OTHER = {"spec_digest", "spec_check"}


def columns(text: str) -> list[str]:
    """The names under which a list of columns is selected: `a.b` is b, `a.b AS c` is c."""
    selected = text.removeprefix("SELECT ").partition(" FROM ")[0]
    return [re.split(r"[ .]", part.strip())[-1] for part in selected.split(",")]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("query", FORMATS)
def test_the_fields_of_a_class_are_the_columns_of_its_query(query: str, dialect: str) -> None:
    found = [NAMES.get(name, name) for name in columns(named_sql.load(dialect)[query]) if name not in OTHER]
    if query == "findings":
        assert found.pop(0) == "seq"
    if query == "restore_reports":
        found[1] = {"name": "cluster"}[found[1]]
    assert list(FORMATS[query].columns) == found
