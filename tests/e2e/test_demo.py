"""The demo succeeds and leaves no files or processes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.server_process import RAINBOW


@pytest.mark.timeout(150)
def test_the_demo_runs_its_jobs_and_cleans_up() -> None:
    before = set(Path(tempfile.gettempdir()).glob("rainbow-demo-*"))
    done = subprocess.run([*RAINBOW, "demo"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No cluster can ever run it." in done.stdout
    assert done.stdout.count("done, once") == 2, "once in the command, once in its output"
    assert set(Path(tempfile.gettempdir()).glob("rainbow-demo-*")) <= before
