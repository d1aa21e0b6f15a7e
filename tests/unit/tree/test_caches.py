"""The page of caches against the code: what is cached, and how much of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src/rainbow_sched"
PAGE = (ROOT / "docs/caches.md").read_text()
PURE = ("model", "documents", "jobspecs", "matching", "selection")
TABLES = ("dict", "list", "set", "OrderedDict", "defaultdict", "deque", "Counter", "WeakValueDictionary", "local")
# These compare objects that they hold, within one call.
IDENTITY_IN_ONE_CALL = {"graphs/formats/flux_r.py", "service/scheduling/pending_jobs.py"}


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """The hand-written modules of the packages, by path; of all packages if none is named."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("pb/") and (not packages or name.split("/")[0] in packages):
            yield name, ast.parse(path.read_text())


def cached_functions(module: ast.Module) -> Iterator[str]:
    """The functions that functools caches for the whole process."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (
                node.name for each in node.decorator_list if re.search(r"\bcache\b|lru_cache", ast.unparse(each))
            )
        elif isinstance(node, ast.Assign) and "lru_cache" in ast.unparse(node.value):
            yield ast.unparse(node.targets[0])


def tables(module: ast.Module) -> Iterator[str]:
    """What is assigned at module level and can be filled: an empty display, or a container made without contents."""
    for node in module.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Dict | ast.List | ast.Set):
            filled = value.keys if isinstance(value, ast.Dict) else value.elts
        elif isinstance(value, ast.Call) and re.split(r"[.\[]", ast.unparse(value.func))[0] in TABLES:
            filled = value.args
        else:
            continue
        if not filled:
            yield ast.unparse(node)


def test_the_pure_packages_cache_nothing_for_the_whole_process() -> None:
    found = {name: [*cached_functions(module), *tables(module)] for name, module in modules(*PURE)}
    assert {name: what for name, what in found.items() if what} == {}


def test_no_cache_is_keyed_by_the_identity_of_an_object_that_may_be_gone() -> None:
    users = {
        name
        for name, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id" and node.args
    }
    assert users <= IDENTITY_IN_ONE_CALL


def test_every_cache_is_on_the_page() -> None:
    classes = {node.name for _, m in modules() for node in ast.walk(m) if isinstance(node, ast.ClassDef)}
    caches = {name for name in classes if name.endswith("Cache")}
    functions = {name for _, module in modules() for name in cached_functions(module)}
    assert {name for name in caches | functions if f"`{name}`" not in PAGE} == set()
    assert {"AnswerCache", "RequestCache", "terms_of"} <= caches | functions


def test_the_page_has_the_bounds_of_the_code() -> None:
    bounds = {
        f"{ast.unparse(node.targets[0])} = {ast.get_source_segment(source, node.value)}"
        for path in sorted(SOURCE.rglob("*.py"))
        for source in [path.read_text()]
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("MAX_CACHED")
    }
    assert {bound for bound in bounds if f"`{bound}`" not in PAGE} == set()
    named = set(re.findall(r"`(MAX_\w+ = [^`]+)`", PAGE))
    everywhere = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert {bound for bound in named if not re.search(rf"^{re.escape(bound)}\b", everywhere, re.M)} == set()


@pytest.mark.parametrize("text", ["_seen = {}", "_seen: dict[str, int] = {}", "_seen = OrderedDict[str, int]()"])
def test_a_table_at_module_level_is_seen(text: str) -> None:
    assert list(tables(ast.parse(text)))
