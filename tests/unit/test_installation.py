"""What is missing is installed from where this installation came from."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from rainbow_sched import __version__, installation
from rainbow_sched.installation import install_command, require_extra
from rainbow_sched.model.errors import Unsupported

PIP = f"{shlex.quote(sys.executable)} -m pip install"
WHEEL = f"rainbow_sched-{__version__}-py3-none-any.whl"
REQUIRES = ["click>=8", 'numpy>=2; extra == "agent"', 'no-such-package>=1; extra == "server"']


def installed_from(monkeypatch: pytest.MonkeyPatch, folder: Path, origin: dict[str, object] | None) -> None:
    """Let the installation be one that pip recorded with this `direct_url.json`."""
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    lines = ["Metadata-Version: 2.4", "Name: rainbow-sched", f"Version: {__version__}"]
    lines += [f"Requires-Dist: {one}" for one in REQUIRES]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    here = metadata.PathDistribution(folder)
    everywhere = metadata.distribution

    def find(name: str) -> metadata.Distribution:
        return here if name == "rainbow-sched" else everywhere(name)

    monkeypatch.setattr(installation.metadata, "distribution", find)
    monkeypatch.setattr(installation.metadata, "requires", lambda name: find(name).requires)


def test_a_clone_is_set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed_from(monkeypatch, tmp_path, {"url": "file:///home/ana/rain%20bow", "dir_info": {"editable": True}})
    assert install_command("agent") == "make -C '/home/ana/rain bow' setup"


def test_a_wheel_on_this_machine_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "a b" / WHEEL
    wheel.parent.mkdir()
    wheel.touch()
    installed_from(monkeypatch, tmp_path, {"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("server,agent") == f"{PIP} '{wheel}[server,agent]'"


def test_a_wheel_from_the_web_is_named_by_its_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = f"https://lab.edu/{WHEEL}"
    installed_from(monkeypatch, tmp_path, {"url": address, "archive_info": {}})
    assert install_command("sign") == f"{PIP} 'rainbow-sched[sign] @ {address}'"


@pytest.mark.parametrize("origin", [None, {"url": f"file:///no/such/{WHEEL}", "archive_info": {}}])
def test_a_wheel_that_is_gone_has_to_be_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: dict[str, object] | None
) -> None:
    installed_from(monkeypatch, tmp_path, origin)
    assert install_command("agent") == f"{PIP} '{WHEEL}[agent]' (`make dist` builds this wheel)"


def test_an_extra_is_there_only_if_all_its_packages_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed_from(monkeypatch, tmp_path, None)
    require_extra("agent", "the agent")
    with pytest.raises(Unsupported, match=r"the demo needs no-such-package, which is not installed; run: .*\[server\]"):
        require_extra("server", "the demo")
