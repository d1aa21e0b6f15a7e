"""Optional packages: check that they are installed, and find the command that installs them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rainbow_sched import __version__
from rainbow_sched.model.errors import Unsupported

_NAME = "rainbow-sched"
_REQUIRED_BY_EXTRA = re.compile(r"""^([\w.-]+).*;.*\bextra == ["']([\w-]+)["']""")


def install_command(extra: str) -> str:
    """Return the command that adds the packages of `extra` to this installation."""
    try:
        recorded = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        recorded = None
    origin = json.loads(recorded) if recorded else {}
    url = origin.get("url", "")
    address = urlsplit(url)
    path = Path(unquote(address.path))
    if origin.get("dir_info", {}).get("editable"):
        return f"make -C {shlex.quote(str(path))} setup"
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if address.scheme == "file" and path.exists():
        return f"{pip} {shlex.quote(f'{path}[{extra}]')}"
    if address.scheme in ("http", "https") and "archive_info" in origin:
        return f"{pip} {shlex.quote(f'{_NAME}[{extra}] @ {url}')}"
    wheel = f"rainbow_sched-{__version__}-py3-none-any.whl"
    return f"{pip} '{wheel}[{extra}]' (`make dist` builds this wheel)"


def require_extra(extra: str, what: str) -> None:
    """Raise Unsupported if a package of `extra`, which `what` needs, is not installed."""
    try:
        required = metadata.requires(_NAME) or []
    except metadata.PackageNotFoundError:
        return  # run from the source tree: a missing package fails at import
    for requirement in required:
        named = _REQUIRED_BY_EXTRA.match(requirement)
        if named and named[2] == extra and not _is_installed(named[1]):
            raise missing(named[1], extra, what)


def missing(package: str, extra: str, what: str) -> Unsupported:
    """Return the error for a missing `package` that `what` needs, with the command that installs it."""
    return Unsupported(f"{what} needs {package}, which is not installed; run: {install_command(extra)}")


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
