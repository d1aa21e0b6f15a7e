"""Rows are read by name: the names that Python unpacks are those of the columns in SQL, in the same order."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable

import pytest

from rainbow_sched.store import named_sql
from rainbow_sched.store.tables.rows import attempt_of, cluster_of, credential_of, job_of

READERS = {
    "job_columns": job_of,
    "attempt_columns": attempt_of,
    "cluster_columns": cluster_of,
    "credential_columns": credential_of,
}


def columns(text: str) -> list[str]:
    """The names under which a list of columns is selected: `a.b` is b, `a.b AS c` is c."""
    return [re.split(r"[ .]", part.strip())[-1] for part in text.split(",")]


def unpacked(reader: Callable[..., object]) -> list[str]:
    """The names into which a function unpacks its row."""
    for node in ast.walk(ast.parse(inspect.getsource(reader))):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            return [name.id for name in node.targets[0].elts if isinstance(name, ast.Name)]
    raise AssertionError(f"{reader.__name__} unpacks nothing")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("query", READERS)
def test_a_row_is_unpacked_in_the_order_of_its_query(query: str, dialect: str) -> None:
    assert unpacked(READERS[query]) == columns(named_sql.load(dialect)[query])
