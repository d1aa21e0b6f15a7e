"""The product's wheel, and empty virtual environments that it is installed into, without an index.

The other packages come from the wheels that `make setup` kept, which are the locked versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(sys.prefix) / "wheels"
_PIP = ("-q", "--disable-pip-version-check", "--no-index", "--find-links", str(KEPT))


def build_wheel(into: Path, tree: Path = ROOT, umask: int = -1) -> Path:
    """Build the wheel of `tree` as `make dist` does."""
    environment = {**os.environ, "RAINBOW_VENV": sys.prefix}
    command = [str(tree / "tools/build-wheel"), str(into)]
    subprocess.run(command, check=True, timeout=60, env=environment, capture_output=True, umask=umask)
    (wheel,) = into.glob("rainbow_sched-*.whl")
    return wheel


def copy_of_the_tree(into: Path) -> Path:
    """A copy of what git keeps; every file is as new as the copy."""
    listed = [
        "git",
        "ls-files",
        "-z",
        "-co",
        "--exclude-standard",
        "src",
        "examples",
        "tools",
        "*.toml",
        "*.md",
        "LICENSE",
    ]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, into / name)
    (into / "tools/build-wheel").chmod(0o755)
    return into


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with nothing in it but what is installed by its methods."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin/python"

    @property
    def rainbow(self) -> str:
        """Its program `rainbow`."""
        return str(self.folder / "bin/rainbow")

    def create(self, *, with_pip: bool = False) -> Environment:
        """Make it; `with_pip` with the pip that came with Python."""
        assert KEPT.is_dir(), f"there are no wheels in {KEPT}; run make clean setup"
        venv.create(self.folder, with_pip=with_pip, symlinks=True)
        return self

    def install(self, wheel: Path, extras: str = "") -> Environment:
        """Install the wheel by the newest pip that we have; it works on other environments, too."""
        what = f"{wheel}[{extras}]" if extras else str(wheel)
        command = [sys.executable, "-m", "pip", "--isolated", "--python", str(self.python), "install", *_PIP, what]
        subprocess.run(command, check=True, timeout=120)
        return self

    def install_by_its_own_pip(self, wheel: Path) -> Environment:
        """Install the wheel as a user does."""
        command = [str(self.python), "-m", "pip", "--isolated", "install", *_PIP, str(wheel)]
        subprocess.run(command, check=True, timeout=120)
        return self

    def packages(self) -> set[str]:
        """The names of what is installed in it."""
        code = "from importlib.metadata import distributions as d; print(*(one.name for one in d()))"
        done = subprocess.run([self.python, "-c", code], check=True, timeout=60, capture_output=True, text=True)
        return set(done.stdout.split())
