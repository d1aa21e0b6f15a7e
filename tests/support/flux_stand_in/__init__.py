"""Flux instances for tests: the stand-in beside this file, or the real one when it is on PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

STAND_IN = Path(__file__).with_name("flux")
START_SECONDS = 60.0


def an_r(nodes: Mapping[str, str], gpus: str = "", properties: Mapping[str, str] | None = None) -> dict[str, object]:
    """An R: host name to its cores as an idset."""
    lite = []
    for rank, cores in enumerate(nodes.values()):
        children = {"core": cores, "gpu": gpus} if gpus else {"core": cores}
        lite.append({"rank": str(rank), "children": children})
    execution = {"R_lite": lite, "starttime": 0.0, "expiration": 0.0, "nodelist": list(nodes)}
    if properties:
        execution["properties"] = dict(properties)
    return {"version": 1, "execution": execution}


class StandIn:
    """An instance of the stand-in."""

    program = str(STAND_IN)

    def __init__(self, folder: Path, r: Mapping[str, object], *, fluxion: bool = True, policy: str = "fcfs") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "resource.json").write_text(json.dumps(r))
        (folder / "scheduler.json").write_text(json.dumps({"fluxion": fluxion, "policy": policy}))
        self.uri = f"local://{folder}"
        self.environment = {**os.environ, "FLUX_URI": self.uri}

    def set_states(self, *, offline: list[int] | None = None, drained: list[int] | None = None) -> None:
        """Say which ranks are down or drained."""
        states = {"offline": offline or [], "drained": drained or []}
        (self.folder / "states.json").write_text(json.dumps(states))

    def stop(self) -> None:
        """Nothing listens any more."""
        (self.folder / "resource.json").rename(self.folder / "stopped.json")

    def start(self) -> None:
        """Back again."""
        (self.folder / "stopped.json").rename(self.folder / "resource.json")


def real_flux() -> str | None:
    """The real program, if there is one."""
    return shutil.which("flux")


def real_instance(r: Mapping[str, object]) -> Iterator[str]:
    """The URI of a real instance with these resources while it runs; skips, loudly, where there is no Flux."""
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
        words = [
            program,
            "start",
            f"--conf=resource.path={name}/R.json",
            "--conf=resource.noverify=true",
            "sh",
            "-c",
            hold,
        ]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (folder / "uri").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the Flux instance did not come up")
                time.sleep(0.05)  # a daemon in another process is awaited; nothing tells us when
            yield (folder / "uri").read_text().strip()
        finally:
            (folder / "stop").touch()
            process.wait(timeout=30)
