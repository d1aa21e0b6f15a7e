"""Run with `flux python` in Flux's own Python: streams the instance's events and queries its scheduler.

The protocol is JSON lines. On stdout: `{"journal": ...}` for each entry of the job manager's journal,
`{"caught_up": true}` after the history of active jobs, `{"lost": "why"}` without a journal (guests may not read it),
and answers. On stdin: jobspecs to probe. The process ends with its stdin. It does not import Rainbow, which Flux's
Python does not have.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

JOURNAL = "job-manager.events-journal"
DEFAULT_POLICY = "fcfs"
_NEVER = (errno.ENODEV, errno.EINVAL, errno.EOVERFLOW)  # from Fluxion and sched-simple; other codes are no answer
_ENDED, _BROKEN = 0, 1  # exit codes
_WRITING = threading.Lock()


def tell(**fields: Any) -> None:
    """Write one line to the agent."""
    with _WRITING:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def follow(handle: Any, streaming: int, tell: Callable[..., None] = tell) -> None:
    """Stream the journal, first the history of active jobs, until the instance closes it."""
    try:
        stream = handle.rpc(JOURNAL, {"full": False}, 0, streaming)
        while True:
            entry = stream.get()
            if entry is None:  # Flux's Python returns None when the broker is gone
                raise OSError(errno.EPIPE, "the instance has ended")
            if entry["events"]:
                tell(journal=without_unused_fields(entry))
            else:
                tell(caught_up=True)
            stream.reset()
    except OSError as problem:
        tell(lost=problem.strerror or str(problem))
        if problem.errno not in (errno.EPERM, errno.ENOSYS):
            os._exit(_BROKEN)  # the instance is gone; the agent restarts the bridge


def without_unused_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without unused fields: other users' commands, files and attributes can be long."""
    if "jobspec" not in entry:
        return entry
    system = entry["jobspec"].get("attributes", {}).get("system", {})
    system_fields = {key: system[key] for key in ("job", "duration") if key in system}
    return {
        **entry,
        "jobspec": {"resources": entry["jobspec"].get("resources"), "attributes": {"system": system_fields}},
    }


def answer(handle: Any, lines: Iterable[str], tell: Callable[..., None] = tell) -> None:
    """Probe each jobspec; an error of Flux is an answer too."""
    for line in lines:
        question = json.loads(line)
        try:
            tell(n=question["n"], answer=probe(handle, question["of"]))
        except OSError as problem:
            tell(n=question["n"], problem=problem.strerror or str(problem))


def scheduler(handle: Any) -> dict[str, Any]:
    """Return whether the scheduler is Fluxion, and its queue policy."""
    try:
        params = handle.rpc("sched-fluxion-qmanager.params").get()["params"]
    except (OSError, KeyError) as problem:
        refused = isinstance(problem, OSError) and problem.errno == errno.ENOSYS
        return {"fluxion": not refused, "policy": "" if refused else DEFAULT_POLICY}
    return {"fluxion": True, "policy": str(params.get("queue-policy", DEFAULT_POLICY))}


def probe(handle: Any, jobspec: dict[str, Any]) -> dict[str, Any]:
    """Return the scheduler's answer for a jobspec without submitting it.

    `infeasible`: why it can never run, or empty; `at`: estimated start in seconds since the epoch, with running jobs
    and reservations; None: unknown.
    """
    found: dict[str, Any] = {**scheduler(handle), "infeasible": "", "at": None}
    try:
        handle.rpc("feasibility.check", {"jobspec": jobspec}).get()
    except OSError as problem:
        if problem.errno in _NEVER:
            found["infeasible"] = problem.strerror or str(problem)
    if found["fluxion"] and not found["infeasible"]:
        try:
            payload = {"cmd": "without_allocating_future", "jobid": -1, "jobspec": json.dumps(jobspec)}
            found["at"] = float(handle.rpc("sched-fluxion-resource.match", payload).get()["at"])
        except OSError:
            found["at"] = None  # an older Flux, or a query for the owner only
    return found


def main() -> None:
    """Follow the journal and answer queries, each with its own handle: threads cannot share one."""
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # this directory has a package named flux
    try:
        flux = importlib.import_module("flux")  # only in Flux's own Python
        streaming = importlib.import_module("flux.constants").FLUX_RPC_STREAMING
        handles = flux.Flux(), flux.Flux()
    except (ImportError, AttributeError, OSError) as problem:
        tell(lost=str(problem))
        return
    threading.Thread(target=follow, args=(handles[0], streaming), daemon=True).start()
    answer(handles[1], sys.stdin)
    sys.stdout.flush()
    os._exit(_ENDED)  # the other thread is blocked in C


if __name__ == "__main__":
    main()
