"""What is installed is what is locked, and what is locked is what `pyproject.toml` asks for."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("development", "pip", "prototype", "uv")
INSTALLED = ("development", "pip")  # what `make setup` installs
_ENTRY = re.compile(r"^(\S.*?)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)\n(?: +#.*\n)*", re.MULTILINE)


def entries(lock: str) -> Iterator[tuple[Requirement, int]]:
    """Each requirement of a lock and how many hashes it has; everything else in the file is a comment."""
    text = re.sub(r"^#.*\n", "", (ROOT / f"requirements/{lock}.txt").read_text(), flags=re.MULTILINE)
    end = 0
    for entry in _ENTRY.finditer(text):
        assert entry.start() == end, f"{lock}: not a locked requirement: {text[end : end + 80]!r}"
        end = entry.end()
        yield Requirement(entry[1]), entry[2].count("--hash=")
    assert end == len(text), f"{lock}: not a locked requirement: {text[end : end + 80]!r}"


def pinned(requirement: Requirement) -> str:
    """The one version that a locked requirement allows."""
    (only,) = requirement.specifier
    assert only.operator == "==", requirement
    assert not only.version.endswith(".*"), requirement
    return only.version


def locked_here(*locks: str) -> dict[str, str]:
    """Name to version of what the locks hold for this Python on this system."""
    every = [requirement for lock in locks for requirement, _ in entries(lock)]
    here = [one for one in every if one.marker is None or one.marker.evaluate()]
    found = {canonicalize_name(one.name): pinned(one) for one in here}
    assert len(found) == len(here), "a package is locked at two versions"
    return found


def is_local_folder(found: Distribution) -> bool:
    """Whether it was installed from a folder of this machine, such as this one or a plugin of the developer's own."""
    return "dir_info" in json.loads(found.read_text("direct_url.json") or "{}")


@pytest.mark.skipif(
    os.environ.get("RAINBOW_VERSIONS", "locked") != "locked", reason="optional: these versions are not the locked ones"
)
def test_what_is_installed_is_what_is_locked() -> None:
    installed = {canonicalize_name(one.name): one.version for one in distributions() if not is_local_folder(one)}
    locked = locked_here(*INSTALLED)
    differing = {
        name: f"installed {installed.get(name, 'not at all')}, locked {locked.get(name, 'not at all')}"
        for name in installed.keys() | locked.keys()
        if installed.get(name) != locked.get(name)
    }
    assert differing == {}, "run make clean setup"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_nothing_but_versions_with_hashes(lock: str) -> None:
    every = list(entries(lock))
    assert every
    assert [str(one) for one, hashes in every if not pinned(one) or not hashes or one.url] == []


def asked_for() -> Iterator[tuple[str, Requirement]]:
    """Each requirement of pyproject.toml with the lock that has to meet it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    needed = [project["build-system"]["requires"], project["project"]["dependencies"], *extras.values()]
    needed += [groups.pop("dev"), groups.pop("proto")]
    for lock, lists in {"development": needed, **{name: [some] for name, some in groups.items()}}.items():
        yield from ((lock, Requirement(one)) for some in lists for one in some)


@pytest.mark.parametrize(("lock", "asked"), [pytest.param(*both, id=" ".join(map(str, both))) for both in asked_for()])
def test_the_lock_meets_what_the_project_asks_for(lock: str, asked: Requirement) -> None:
    version = locked_here(lock).get(canonicalize_name(asked.name))
    assert version is not None, f"{asked} is not in requirements/{lock}.txt; run make upgrade"
    assert asked.specifier.contains(version), f"{asked} is locked at {version}; run make upgrade"


@pytest.mark.parametrize("asked", sorted({str(one) for _, one in asked_for()}))
def test_every_requirement_has_a_lower_bound_that_can_be_tested(asked: str) -> None:
    assert {one.operator for one in Requirement(asked).specifier} & {">=", "=="}, asked


def test_the_pages_name_the_wheel_that_is_built() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {one for page in pages for one in re.findall(r"rainbow_sched-[^`' ]*?\.whl", page.read_text())}
    assert named == {f"rainbow_sched-{version}-py3-none-any.whl"}
    on_an_index = [page.name for page in pages if re.search(r"pip install '?rainbow-sched", page.read_text())]
    assert on_an_index == [], "Rainbow is on no package index"
