"""The tree keeps its own rules: short files, a sentence for each module, nothing of the workshop in it."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LONGEST = 500  # lines


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository; generated code is left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [ROOT / name for name in listed if "/pb/" not in name and (ROOT / name).is_file()]


def modules() -> list[Path]:
    """Every Python file that is written by hand."""
    return tracked("*.py")


def test_no_file_is_too_long_to_read_in_one_sitting() -> None:
    long = {str(p.relative_to(ROOT)): n for p in modules() if (n := len(p.read_text().splitlines())) > LONGEST}
    assert long == {}


def test_every_module_opens_with_a_sentence() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path.read_text().strip() and not (ast.get_docstring(ast.parse(path.read_text())) or "").strip()
    ]
    assert silent == []


def test_the_architecture_page_names_every_room_with_its_sentence() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    for room in sorted((ROOT / "src/rainbow_sched").iterdir()):
        if not (room / "__init__.py").is_file() or room.name == "pb":
            continue
        sentence = (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "").splitlines()[0]
        assert f"`{room.name}`" in page, room.name
        assert sentence in page, f"{room.name}: {sentence}"


@pytest.mark.parametrize("word", ["/work/", "/root/", "TODO", "FIXME"])
def test_nothing_of_the_workshop_is_in_the_tree(word: str) -> None:
    me = Path(__file__)
    found = [
        str(path.relative_to(ROOT))
        for path in tracked("*.py", "*.md", "*.toml", "*.yaml", "*.sh", "tools/*", "Makefile")
        if path != me and re.search(re.escape(word), path.read_text(errors="replace"))
    ]
    assert found == []


def test_generated_code_is_what_the_generator_makes(tmp_path: Path) -> None:
    import sys

    pytest.importorskip("grpc_tools", reason="optional: with the newest versions the generator is not installed")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import generate_protos
    finally:
        sys.path.pop(0)
    generate_protos.generate(tmp_path / "pb")
    made = {p.relative_to(tmp_path / "pb"): p.read_text() for p in (tmp_path / "pb").rglob("*.py*")}
    kept = {
        p.relative_to(ROOT / "src/rainbow_sched/pb"): p.read_text()
        for p in (ROOT / "src/rainbow_sched/pb").rglob("*.py*")
        if p.suffix in (".py", ".pyi")
    }
    assert made == kept, "run `make proto`"


def product() -> list[Path]:
    """The hand-written modules of the package."""
    return [path for path in modules() if path.is_relative_to(ROOT / "src")]


def test_a_class_name_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for path in product():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


NOUNS_LIKE_VERBS = {"binding", "host_binding"}
NOT_NOUNS = """
apply ask build call cancel check choose compile create decide delete discover encode evaluate explain find finish
forget generate get give hold keep known legacy local make merge new old open parse pending poll prepare quick read
receive register remove resolve retry run save schedule select send serve show simple slow small start stop store
submit take tell told wait write
"""


def test_modules_are_nouns() -> None:
    """Commands are the exception: they are named after what the user types."""
    names = {path.stem for path in product() if path.parent.name != "commands"} - NOUNS_LIKE_VERBS
    assert {name for name in names if name in NOT_NOUNS.split() or name.endswith(("ing", "ed"))} == set()
