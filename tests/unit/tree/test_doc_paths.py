"""The modules and functions that the documentation names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src/rainbow_sched"
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *SOURCE.rglob("*.md"))
    if path.name != "CHANGELOG.md"  # its entries stay as they were written
)
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.py)(?::([A-Za-z_][\w.]*))?`")
PLACEHOLDERS = re.compile(r"[A-Z]{3,}|00NN")  # NAME in recipes


@cache
def files() -> frozenset[str]:
    """All Python files of the repository, by path."""
    folders = ("src", "tests", "tools", "bench", "examples")
    return frozenset(path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def names_in(path: str) -> frozenset[str]:
    """What a module defines: functions, classes, their methods, and what it assigns."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name")}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_modules_and_functions_exist(page: Path) -> None:
    missing = []
    for path, name in NAMED.findall(page.read_text()):
        if PLACEHOLDERS.search(path):
            continue
        matching = [file for file in files() if f"/{file}".endswith(f"/{path}")]
        if not matching:
            missing.append(path)
        elif name and not any(name in names_in(file) for file in matching):
            missing.append(f"{path}:{name}")
    assert missing == []
