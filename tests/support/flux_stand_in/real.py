"""Real Flux instances for tests, when `flux` is on PATH: a broker for each rank, any resources, either scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.model.hostlist import parse_idset

START_SECONDS = 60.0
SIMPLE = ("--conf=modules.alternatives.sched=sched-simple", "--conf=modules.alternatives.feasibility=sched-simple")


def real_flux() -> str | None:
    """The real program, if there is one."""
    return shutil.which("flux")


class RealFlux:
    """A running instance."""

    def __init__(self, program: str, uri: str) -> None:
        self.program = program
        self.uri = uri

    def ask(self, *words: str, feed: str | None = None) -> str:
        """What `flux` says to these words."""
        done = subprocess.run(
            [self.program, *words],
            env={**os.environ, "FLUX_URI": self.uri},
            input=feed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def has_fluxion(self) -> bool:
        """True if Fluxion schedules."""
        return "sched-fluxion-qmanager" in self.ask("module", "list")

    def set_states(self, *, drained: list[int] | None = None) -> None:
        """Say which ranks are drained."""
        now = self.ask("resource", "status", "--no-header", "--states=drain", "--format={ranks}").split()
        for rank in (rank for text in now for rank in parse_idset(text)):
            self.ask("resource", "undrain", str(rank))
        for rank in drained or ():
            self.ask("resource", "drain", str(rank), "a test")

    def purge(self) -> None:
        """Forget all jobs that have ended."""
        self.ask("job", "purge", "--force", "--num-limit=0")


def ranks(r: Mapping[str, Any]) -> list[int]:
    """The ranks of an R."""
    return [rank for part in r["execution"]["R_lite"] for rank in parse_idset(part["rank"])]


def hosts(r: Mapping[str, Any]) -> str:
    """The names of an R. Brokers have names of their own, and Flux takes no constraint with a name that none has."""
    return ",".join(r["execution"]["nodelist"])


@contextlib.contextmanager
def a_real_flux(r: Mapping[str, object], *settings: str, fluxion: bool = True) -> Iterator[RealFlux]:
    """An instance with these resources; skips, loudly, where there is no Flux. `settings`: words for `flux start`.

    With `fluxion` it has the scheduler that Flux chooses, which is Fluxion where that is installed.
    """
    program = real_flux()
    if program is None:
        pytest.skip("optional: no flux on PATH")
    with tempfile.TemporaryDirectory(prefix="rainbow-flux-") as name:
        folder = Path(name)
        (folder / "R.json").write_text(json.dumps(r))
        hold = (
            f"flux getattr local-uri > {name}/uri.new && mv {name}/uri.new {name}/uri;"
            f" while [ ! -e {name}/stop ]; do sleep 0.1; done"
        )
        words = [program, "start", f"--test-size={len(ranks(r))}", f"--test-hosts={hosts(r)}"]
        words += [*settings, *(() if fluxion else SIMPLE)]
        words += [f"--conf=resource.path={name}/R.json", "--conf=resource.noverify=true", "sh", "-c", hold]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (folder / "uri").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the Flux instance did not come up")
                time.sleep(0.05)  # a daemon in another process is awaited; nothing tells us when
            yield RealFlux(program, (folder / "uri").read_text().strip())
        finally:
            (folder / "stop").touch()
            process.wait(timeout=60)
