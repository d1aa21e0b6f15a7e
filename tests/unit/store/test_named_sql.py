"""Named queries are found, cut at their parameters, and bound in order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rainbow_sched.store
from rainbow_sched.store import named_sql
from rainbow_sched.store.schema import migrations

PACKAGE = Path(rainbow_sched.store.__file__).parent


def test_parameters_become_placeholders_in_their_order() -> None:
    one = named_sql.statement("SELECT :b, :a, :b WHERE x = 'é'", "?")
    assert one.bind({"a": 1, "b": 2}) == ("SELECT ?, ?, ? WHERE x = 'é'", (2, 1, 2))


def test_a_list_becomes_as_many_placeholders_as_it_has_values() -> None:
    some = named_sql.statement("x IN (:*ids) AND y = :y", "%s")
    assert some.bind({"ids": [1, 2, 3], "y": 4}) == ("x IN (%s, %s, %s) AND y = %s", (1, 2, 3, 4))


def test_a_percent_sign_survives_postgresqls_placeholders() -> None:
    assert named_sql.statement("a % :b", "%s").bind({"b": 1}) == ("a %% %s", (1,))


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_both_databases_have_every_query_that_the_code_names(dialect: str) -> None:
    known = named_sql.load(dialect)
    verbs = {"rows", "row", "change", "change_many", "returning", "text", "also", "_ids"}
    named = {
        arg.value
        for file in [*PACKAGE.glob("*.py"), *PACKAGE.glob("tables/*.py")]
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in verbs
        for arg in node.args[:1]
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    }
    assert len(named) > 60
    assert named <= known.keys()
    assert not any("{" in text.replace("'{}'", "") for text in known.values())


def test_every_query_is_used() -> None:
    source = "".join(f.read_text("utf-8") for f in [*PACKAGE.glob("*.py"), *PACKAGE.glob("tables/*.py")])
    texts = "".join(f.read_text("utf-8") for f in PACKAGE.glob("queries/*.sql"))
    unused = [
        name
        for name in named_sql.load("sqlite")
        if f'"{name}"' not in source and f"'{name}'" not in source and f"{{{name}}}" not in texts
    ]
    assert [name for name in unused if not name.startswith("audit_")] == []


def test_a_migration_is_cut_into_statements_in_the_words_of_each_database() -> None:
    first = migrations()[0]
    ours, theirs = first.statements("sqlite"), first.statements("postgresql")
    assert len(ours) == len(theirs) > 20
    assert all(statement.startswith("CREATE ") for statement in ours)
    assert not any(word in "\n".join(theirs) for word in ("BLOB", "ROWID", "INTEGER"))


def test_migrations_are_numbered_from_one_without_gap() -> None:
    assert [m.version for m in migrations()] == list(range(1, len(migrations()) + 1))


def test_an_insert_of_one_row_becomes_one_of_many() -> None:
    insert = "INSERT INTO t (a, b) VALUES (?, 'x') ON CONFLICT (a) DO UPDATE SET b = excluded.b"
    assert named_sql.of_rows(insert, 2) == insert.replace("(?, 'x')", "(?, 'x'), (?, 'x')")
    assert named_sql.of_rows("UPDATE t SET a = ?", 2) == ""
