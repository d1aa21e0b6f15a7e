"""The part of Flux's Python module that the backend's bridge uses, for the stand-in's instance."""

import errno
import json
import os
import pathlib
import time

from .journal import Journal

UNLIMITED = 9223372036.0  # what Fluxion says of the end of a job without a limit


class _Answer:
    def __init__(self, value):
        self._value = value

    def get(self):
        if isinstance(self._value, OSError):
            raise self._value
        return self._value


class Flux:
    """A handle on the instance; `scheduler.json` in its folder says which scheduler it pretends to have."""

    def __init__(self):
        self._path = pathlib.Path(os.environ["FLUX_URI"].removeprefix("local://"))

    def rpc(self, topic, payload=None, nodeid=0, flags=0):
        """Answer as Fluxion or as sched-simple would."""
        if topic == "job-manager.events-journal":
            return Journal(self._path)
        fluxion = json.loads((self._path / "scheduler.json").read_text())
        if topic == "feasibility.check":
            return _Answer(self._infeasible(payload["jobspec"]))
        if not fluxion["fluxion"]:
            return _Answer(OSError(errno.ENOSYS, f"No service matching {topic} is registered"))
        if topic == "sched-fluxion-qmanager.params":
            return _Answer({"params": {"queue-policy": fluxion["policy"]}})
        return _Answer({"at": self._at(json.loads(payload["jobspec"]))})

    def _infeasible(self, jobspec):
        if jobspec["resources"][0]["count"] > 1_000:
            return OSError(errno.ENODEV, "Unsatisfiable request")
        return None

    def _at(self, jobspec):
        """Running jobs only, as Fluxion without reservations: what waits is overlooked."""
        free = sum(len(_ids(part["children"]["core"])) * len(_ids(part["rank"])) for part in self._lite())
        now, ends = time.time(), []
        for path in self._path.glob("jobs/*/job.json"):
            job = json.loads(path.read_text())
            if job["state"] == "RUN":
                cores = sum(len(kinds.get("core", [])) for kinds in job["held"].values())
                free -= cores
                limit = job["jobspec"]["attributes"]["system"]["duration"]
                ends.append((job["t_run"] + limit if limit else UNLIMITED, cores))
        top = jobspec["resources"][0]
        slot = top["with"][0] if top["type"] == "node" else top
        need = top["count"] * sum(part["count"] for part in slot["with"] if part["type"] == "core")
        for end, cores in sorted(ends):
            if free >= need:
                break
            now, free = max(now, end), free + cores
        return now

    def _lite(self):
        return json.loads((self._path / "resource.json").read_text())["execution"]["R_lite"]


def _ids(text):
    found = []
    for part in str(text).split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
