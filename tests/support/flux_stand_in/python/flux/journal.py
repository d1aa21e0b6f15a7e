"""The job manager's journal of the stand-in's instance, made from what its folder shows.

It has the events that matter (RFC 21), with the contexts that the real one gives them.
"""

import errno
import json
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "parts"))

from instance import names_of, r_of

LOOK = 0.02  # seconds between two looks at the folder: there is no daemon that could tell


class Journal:
    """A stream of entries: the active jobs, an empty one, then what happens."""

    def __init__(self, path):
        self._path = path
        self._names = names_of(json.loads((path / "resource.json").read_text()))
        self._seen = {}
        self._entries = []
        self._guest = (path / "guest").exists()
        for job in self._jobs():
            if job["state"] == "INACTIVE":
                self._seen[job["id"]] = len(events(job))
            else:
                self._tell(job)
        self._entries.append({"id": -1, "events": []})

    def get(self):
        """The next entry."""
        if self._guest:
            raise OSError(errno.EPERM, "Request requires owner credentials")
        while not self._entries:
            if not (self._path / "resource.json").exists():
                return None  # as the real one does when its broker has died
            for job in self._jobs():
                self._tell(job)
            if not self._entries:
                time.sleep(LOOK)
        return self._entries[0]

    def reset(self):
        """Go on to the one after."""
        self._entries.pop(0)

    def _jobs(self):
        found = []
        for path in self._path.glob("jobs/*/job.json"):
            try:
                found.append(json.loads(path.read_text()))
            except FileNotFoundError:
                continue
        return sorted(found, key=lambda job: job["id"])

    def _tell(self, job):
        told = events(job)
        for name, at, context in told[self._seen.get(job["id"], 0) :]:
            entry = {"id": job["id"], "events": [{"timestamp": at, "name": name, "context": context}]}
            if name == "submit":
                entry["jobspec"] = job["jobspec"]
            if name == "alloc":
                entry["R"] = r_of(job, self._names)
            self._entries.append(entry)
        self._seen[job["id"]] = len(told)


def events(job):
    """All that has happened to a job, in order."""
    at = job["t_submit"]
    found = [("submit", at, {"userid": job["userid"], "urgency": 16, "flags": 0, "version": 1})]
    found += [(name, at, {}) for name in ("validate", "depend", "priority")]
    if "t_run" in job:
        found += [("alloc", job["t_run"], {}), ("start", job["t_run"], {})]
    if job["state"] != "INACTIVE":
        return found
    ended = job.get("t_cleanup", job["t_inactive"])
    if "exception" in job:
        type, note = job["exception"]
        found.append(("exception", ended, {"type": type, "severity": 0, "note": note, "userid": job["userid"]}))
    if "waitstatus" in job:
        found.append(("finish", ended, {"status": job["waitstatus"]}))
    return [*found, ("clean", job["t_inactive"], {})]
