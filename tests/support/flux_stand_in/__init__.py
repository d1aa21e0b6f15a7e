"""Flux instances for tests: the stand-in beside this file; the real one is in `real.py`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

STAND_IN = Path(__file__).with_name("flux")


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

    def purge(self) -> None:
        """Forget all jobs that have ended."""
        for path in self.folder.glob("jobs/*/job.json"):
            if json.loads(path.read_text())["state"] == "INACTIVE":
                path.unlink()

    def without_python(self) -> None:
        """Its Flux has no bindings."""
        (self.folder / "no-python").touch()

    def for_a_guest(self) -> None:
        """We are not its owner."""
        (self.folder / "guest").touch()

    def stop(self) -> None:
        """Nothing listens any more."""
        (self.folder / "resource.json").rename(self.folder / "stopped.json")

    def start(self) -> None:
        """Back again."""
        (self.folder / "stopped.json").rename(self.folder / "resource.json")
