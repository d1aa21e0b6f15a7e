"""Rows are read by name: the names in Python are those of the columns in SQL, in the same order."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rainbow_sched.store import named_sql
from rainbow_sched.store.tables.rows import AttemptRow, ClusterRow, CredentialRow, JobRow

SHAPES = {
    "job_columns": JobRow,
    "attempt_columns": AttemptRow,
    "cluster_columns": ClusterRow,
    "credential_columns": CredentialRow,
}


def columns(text: str) -> tuple[str, ...]:
    """The names under which a list of columns is selected: `a.b` is b, `a.b AS c` is c."""
    return tuple(re.split(r"[ .]", part.strip())[-1] for part in text.split(","))


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("query", SHAPES)
def test_a_row_has_the_columns_of_its_query(query: str, dialect: str) -> None:
    shape: Any = SHAPES[query]
    assert shape._fields == columns(named_sql.load(dialect)[query])
