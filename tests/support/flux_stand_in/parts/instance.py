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

    def names(self):
        """Host names by rank."""
        return names_of(self.resources())

    def within(self, jobspec, free):
        """Of what is free, the ranks that meet the job's constraint (RFC 31), as the real schedulers do."""
        constraint = jobspec["attributes"]["system"].get("constraints", {})
        held = self.resources()["execution"].get("properties", {})
        return {
            rank: kinds
            for rank, kinds in free.items()
            if meets(constraint, rank, self.names()[rank], {name for name, on in held.items() if rank in ids(on)})
        }

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
            held = place(job["jobspec"], self.within(job["jobspec"], self.free()))
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


def names_of(resources):
    """Host names by rank of an R."""
    execution = resources["execution"]
    ranks = sorted(rank for part in execution["R_lite"] for rank in ids(part["rank"]))
    return dict(zip(ranks, hostlist(",".join(execution["nodelist"])), strict=True))


def hostlist(text):
    """The names of a list with one bracket at the end of a name at most: n[0-3],m1."""
    found, depth, word = [], 0, ""
    for letter in text + ",":
        depth += (letter == "[") - (letter == "]")
        if letter != "," or depth:
            word += letter
            continue
        prefix, bracket, inside = word.partition("[")
        found += [f"{prefix}{number}" for number in ids(inside[:-1])] if bracket else [word]
        word = ""
    return found


def meets(constraint, rank, name, properties):
    """One node and one constraint."""
    for operator, values in constraint.items():
        if operator == "properties":
            ok = all((one[1:] not in properties) if one[0] == "^" else one in properties for one in values)
        elif operator == "hostlist":
            ok = name in hostlist(",".join(values))
        elif operator == "ranks":
            ok = rank in ids(",".join(values))
        else:
            each = [meets(one, rank, name, properties) for one in values]
            ok = {"and": all(each), "or": any(each) or not each, "not": not all(each)}[operator]
        if not ok:
            return False
    return True


def r_of(job, names):
    """What a running job holds."""
    lite = [
        {"rank": rank, "children": {type: ",".join(map(str, sorted(ids))) for type, ids in kinds.items()}}
        for rank, kinds in sorted(job["held"].items())
    ]
    limit = job["jobspec"]["attributes"]["system"].get("duration")
    end = job["t_run"] + limit if limit else 0.0
    listed = [",".join(names[int(rank)] for rank in sorted(job["held"]))]
    execution = {"R_lite": lite, "nodelist": listed, "starttime": job["t_run"], "expiration": end}
    return {"version": 1, "execution": execution}


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
    return place(jobspec, instance.within(jobspec, whole)) is not None
