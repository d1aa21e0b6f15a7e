"""Run by `flux python`, inside Flux's own Python: tells what happens in an instance, and asks its scheduler.

It speaks in lines of JSON. On stdout: `{"journal": ...}` for each entry of the job manager's
journal, `{"caught_up": true}` after the history of what is active now, `{"lost": "why"}` if
there is no journal (guests may not read it), and answers. On stdin: questions. It ends when
stdin does. It imports nothing of Rainbow, because Flux's Python does not have it.
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
_NEVER = (errno.ENODEV, errno.EINVAL, errno.EOVERFLOW)  # Fluxion's, and sched-simple's; others are no answer
_ENDED, _BROKEN = 0, 1  # exit codes
_WRITING = threading.Lock()


def tell(**said: Any) -> None:
    """One line to the agent."""
    with _WRITING:
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def follow(handle: Any, streaming: int, tell: Callable[..., None] = tell) -> None:
    """Tell the journal on: the active jobs' history, then whatever happens, until the instance ends the stream."""
    try:
        stream = handle.rpc(JOURNAL, {"full": False}, 0, streaming)
        while True:
            entry = stream.get()
            if entry is None:  # what Flux's Python says when the broker is gone
                raise OSError(errno.EPIPE, "the instance has ended")
            if entry["events"]:
                tell(journal=slim(entry))
            else:
                tell(caught_up=True)
            stream.reset()
    except OSError as problem:
        tell(lost=problem.strerror or str(problem))
        if problem.errno not in (errno.EPERM, errno.ENOSYS):
            os._exit(_BROKEN)  # the instance is gone; the agent starts us again


def slim(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without what the agent has no use for: commands, files and attributes of others' jobs can be long."""
    if "jobspec" not in entry:
        return entry
    system = entry["jobspec"].get("attributes", {}).get("system", {})
    kept = {key: system[key] for key in ("job", "duration") if key in system}
    return {**entry, "jobspec": {"resources": entry["jobspec"].get("resources"), "attributes": {"system": kept}}}


def answer(handle: Any, lines: Iterable[str], tell: Callable[..., None] = tell) -> None:
    """Answer each question; what Flux refuses is an answer, too."""
    for line in lines:
        question = json.loads(line)
        try:
            tell(n=question["n"], answer=QUESTIONS[question["ask"]](handle, question["of"]))
        except OSError as problem:
            tell(n=question["n"], problem=problem.strerror or str(problem))


def scheduler(handle: Any, _: Any = None) -> dict[str, Any]:
    """Which scheduler the instance has: `fluxion` with its queue policy, or another."""
    try:
        params = handle.rpc("sched-fluxion-qmanager.params").get()["params"]
    except (OSError, KeyError) as problem:
        refused = isinstance(problem, OSError) and problem.errno == errno.ENOSYS
        return {"fluxion": not refused, "policy": "" if refused else DEFAULT_POLICY}
    return {"fluxion": True, "policy": str(params.get("queue-policy", DEFAULT_POLICY))}


def probe(handle: Any, jobspec: dict[str, Any]) -> dict[str, Any]:
    """What the scheduler says of a jobspec that is not submitted.

    `infeasible`: why it can never run, or nothing; `at`: when it would start, in seconds since the epoch,
    by running jobs and reservations; None: unknown.
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
            found["at"] = None  # older than the question, or for the owner only
    return found


QUESTIONS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {"scheduler": scheduler, "probe": probe}


def main() -> None:
    """A handle for each thread: they may not share one."""
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # this folder has a flux.py of its own
    try:
        flux = importlib.import_module("flux")  # only Flux's own Python has it
        streaming = importlib.import_module("flux.constants").FLUX_RPC_STREAMING
        handles = flux.Flux(), flux.Flux()
    except (ImportError, AttributeError, OSError) as problem:
        tell(lost=str(problem))
        return
    threading.Thread(target=follow, args=(handles[0], streaming), daemon=True).start()
    answer(handles[1], sys.stdin)
    sys.stdout.flush()
    os._exit(_ENDED)  # the other thread waits in C


if __name__ == "__main__":
    main()
