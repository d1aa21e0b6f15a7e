"""Load the named SQL queries of `queries/` and bind their parameters for one database.

A query starts at a line `-- name: NAME`, or `-- name: NAME @postgresql` for one database only. `:value` is a parameter,
`:*values` a list of parameters, `{NAME}` inserts the text of another query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_HEAD = re.compile(r"^-- name: (\w+)(?: @(\w+))?$", re.MULTILINE)
_PARAMETER = re.compile(r":(\*?)([a-z_]+)")
_INSERTION = re.compile(r"\{(\w+)\}")
_ONE_ROW = re.compile(r"\bVALUES (\([^()]*\))")

Value = object  # str, int, float, bytes or None


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A SQL text split at its parameters: piece, parameter, piece, parameter, ..., piece."""

    pieces: tuple[str, ...]
    parameters: tuple[str, ...]
    lists: frozenset[str]  # those parameters that are lists
    placeholder: str
    fixed: str  # the whole text when no parameter is a list, else ""

    def bind(self, values: Mapping[str, Value]) -> tuple[str, tuple[Value, ...]]:
        """Return the text and the values in the order of its placeholders."""
        if self.fixed:
            return self.fixed, tuple(map(values.__getitem__, self.parameters))
        text, bound = [self.pieces[0]], list[Value]()
        for name, piece in zip(self.parameters, self.pieces[1:], strict=True):
            items = values[name] if name in self.lists else [values[name]]
            assert isinstance(items, list), f"{name} is a list in this query"
            text.append(", ".join([self.placeholder] * len(items)) + piece)
            bound.extend(items)
        return "".join(text), tuple(bound)


@lru_cache(maxsize=1024)
def statement(text: str, placeholder: str) -> SqlStatement:
    """Split `text` at its parameters."""
    if placeholder == "%s":
        text = text.replace("%", "%%")
    parts = _PARAMETER.split(text)
    pieces, stars, parameters = tuple(parts[0::3]), parts[1::3], tuple(parts[2::3])
    lists = frozenset(name for star, name in zip(stars, parameters, strict=True) if star)
    return SqlStatement(pieces, parameters, lists, placeholder, fixed="" if lists else placeholder.join(pieces))


@lru_cache(maxsize=256)
def of_rows(one: str, count: int) -> str:
    """Return a one-row INSERT with VALUES for `count` rows; "" if the statement has no VALUES."""
    text, found = _ONE_ROW.subn(lambda m: "VALUES " + ", ".join([m[1]] * count), one)
    return text if found == 1 else ""


@lru_cache(maxsize=4)
def load(dialect: str) -> Mapping[str, str]:
    """Return every query of one database by name, with insertions expanded."""
    queries: dict[str, str] = {}
    for file in sorted(files(__package__).joinpath("queries").iterdir(), key=lambda f: f.name):
        parts = _HEAD.split(file.read_text("utf-8"))
        for name, only, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if only in (None, dialect):
                assert name not in queries, f"two queries are named {name}"
                queries[name] = _without_comments(body)
    return {name: _expand(text, queries) for name, text in queries.items()}


def _without_comments(body: str) -> str:
    lines = (line.split("--", 1)[0].strip() for line in body.splitlines())
    return " ".join(line for line in lines if line).rstrip(";")


def _expand(text: str, texts: Mapping[str, str]) -> str:
    while _INSERTION.search(text):
        text = _INSERTION.sub(lambda m: texts[m[1]], text)
    return text
