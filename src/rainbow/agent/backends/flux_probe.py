"""Run by `flux python`, inside Flux's own Python: asks the scheduler about a jobspec without submitting it.

Reads the jobspec on stdin and writes one JSON object: `fluxion` (is it the scheduler),
`policy` (its queue policy), `infeasible` (why it can never run, or nothing) and `at` (when
it would start, in seconds since the epoch, by running jobs and reservations; None: unknown).
It imports nothing of Rainbow, because Flux's Python does not have it.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
from typing import Any

DEFAULT_POLICY = "fcfs"


def probe(handle: Any, jobspec: dict[str, Any]) -> dict[str, Any]:
    """Ask, and take every refusal as an answer."""
    found: dict[str, Any] = {"fluxion": True, "policy": "", "infeasible": "", "at": None}
    try:
        handle.rpc("feasibility.check", {"jobspec": jobspec}).get()
    except OSError as problem:
        if problem.errno not in (errno.ENOSYS, errno.EPERM):
            found["infeasible"] = problem.strerror or str(problem)
    try:
        payload = {"cmd": "without_allocating_future", "jobid": -1, "jobspec": json.dumps(jobspec)}
        found["at"] = float(handle.rpc("sched-fluxion-resource.match", payload).get()["at"])
    except OSError as problem:
        found["fluxion"] = problem.errno != errno.ENOSYS
    if found["fluxion"]:
        found["policy"] = queue_policy(handle)
    return found


def queue_policy(handle: Any) -> str:
    """Fluxion's queue policy, as it runs."""
    try:
        params = handle.rpc("sched-fluxion-qmanager.params").get()["params"]
    except (OSError, KeyError):
        return DEFAULT_POLICY
    return str(params.get("queue-policy", DEFAULT_POLICY))


def main() -> None:
    """Read, ask, write."""
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # this folder has a flux.py of its own
    flux = importlib.import_module("flux")  # only Flux's own Python has it
    sys.stdout.write(json.dumps(probe(flux.Flux(), json.load(sys.stdin))))


if __name__ == "__main__":
    main()
