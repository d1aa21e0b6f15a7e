"""An instance of the stand-in: a folder with its resources and jobs, and what fits where."""

import fcntl
import json
import os
import pathlib
import subprocess
import sys
import time

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "flux"


def f58(number):
    letters = ""
    while number:
        number, rest = divmod(number, 58)
        letters = BASE58[rest] + letters
    force = os.environ.get("FLUX_F58_FORCE_ASCII")
    return ("f" if force else "ƒ") + letters


def number_of(word):
    if word.isdecimal():
        return int(word)
    found = 0
    for letter in word[1:]:
        found = found * 58 + BASE58.index(letter)
    return found


class Instance:
    """The folder, locked."""

    def __init__(self, path):
        self.path = path
        self._lock = (path / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self):
        self._lock.close()

    def jobs(self):
        found = [json.loads(p.read_text()) for p in self.path.glob("jobs/*/job.json")]
        return sorted(found, key=lambda job: job["id"])

    def put(self, job):
        place = self.path / "jobs" / str(job["id"])
        place.mkdir(parents=True, exist_ok=True)
        (place / ".job.json").write_text(json.dumps(job))
        (place / ".job.json").replace(place / "job.json")

    def resources(self):
        return json.loads((self.path / "resource.json").read_text())

    def free(self):
        """Core ids that no job holds, by rank; drained and offline ranks have none."""
        out = self.states()
        found = {}
        for part in self.resources()["execution"]["R_lite"]:
            for rank in ids(part["rank"]):
                if rank not in out["offline"] and rank not in out["drained"]:
                    found[rank] = {type: ids(text) for type, text in part["children"].items()}
        for job in self.jobs():
            for rank, held in job.get("held", {}).items() if job["state"] == "RUN" else ():
                for type, taken in held.items():
                    if int(rank) in found:
                        kept = [one for one in found[int(rank)][type] if one not in taken]
                        found[int(rank)][type] = kept
        return found

    def states(self):
        try:
            return json.loads((self.path / "states.json").read_text())
        except FileNotFoundError:
            return {"offline": [], "drained": []}

    def advance(self):
        """Start what fits, in order."""
        for job in self.jobs():
            if job["state"] != "SCHED":
                continue
            held = place(job["jobspec"], self.free())
            if held is None:
                return
            job["held"], job["state"], job["t_run"] = held, "RUN", time.time()
            self.put(job)
            subprocess.Popen(
                [sys.executable, str(PROGRAM), "--run", str(self.path), str(job["id"])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def ids(text):
    if isinstance(text, int):
        return [text]
    found = []
    for part in str(text).split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1) if part else ()
    return found


def idset(numbers):
    return ",".join(map(str, sorted(numbers)))


def place(jobspec, free):
    """First fit of V1's two shapes, or None."""
    top = jobspec["resources"][0]
    slot = top["with"][0] if top["type"] == "node" else top
    need = {part["type"]: part["count"] for part in slot["with"]}
    held, left = {}, top["count"]
    for rank, kinds in sorted(free.items()):
        while left and all(len(kinds.get(type, [])) >= count for type, count in need.items()):
            for type, count in need.items():
                held.setdefault(str(rank), {}).setdefault(type, []).extend(kinds[type][:count])
                kinds[type] = kinds[type][count:]
            left -= 1
            if top["type"] == "node":
                break
    return None if left else held


def tasks_of(jobspec, held):
    count = jobspec["tasks"][0]["count"]
    return count["total"] if "total" in count else jobspec["resources"][0]["count"]


def ever(jobspec, instance):
    whole = {}
    for part in instance.resources()["execution"]["R_lite"]:
        for rank in ids(part["rank"]):
            whole[rank] = {type: ids(text) for type, text in part["children"].items()}
    return place(jobspec, whole) is not None
