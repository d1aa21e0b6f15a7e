"""Format jobs: state letters, durations and details."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rainbow_sched.cli.render.listings import Column, Listing, text
from rainbow_sched.cli.render.times import format_duration

ENDED = {
    "succeeded": "CD",
    "failed": "F",
    "cancelled": "CA",
    "infeasible": "F",
    "expired": "TO",
    "handed_off": "HO",  # not in Flux: the cluster took the job over and reports nothing
}
STATE_WORDS = {"D": "waiting", "P": "held", "S": "pending", "R": "running", "C": "ending"}
HOLD_LETTERS = {"dependency": "D", "time": "D", "user": "P", "nothing-fits": "S"}
HOLD_REASONS = {
    "dependency": "waits for another job",
    "time": "waits for its start time",
    "user": "held; release with: rainbow release {id}",
    "nothing-fits": "no cluster fits now",
}
FILTERS: Mapping[str, frozenset[str]] = {
    "depend": frozenset({"D"}),
    "priority": frozenset({"P"}),
    "sched": frozenset({"S"}),
    "pending": frozenset({"D", "P", "S"}),
    "running": frozenset({"R", "C"}),
    "active": frozenset({"D", "P", "S", "R", "C"}),
    "completed": frozenset({"CD"}),
    "failed": frozenset({"F"}),
    "canceled": frozenset({"CA"}),
    "cancelled": frozenset({"CA"}),
    "timeout": frozenset({"TO"}),
    "handed-off": frozenset({"HO"}),
    "inactive": frozenset({"CD", "F", "CA", "TO", "HO"}),
}
STATES: Mapping[str, tuple[str, ...]] = {  # by letter: the states that the server filters by
    "D": ("held",),
    "P": ("held",),
    "S": ("held", "queued", "bound"),
    "R": ("bound",),
    "C": ("bound", "cancelling"),
    "CD": ("succeeded",),
    "F": ("failed", "infeasible"),
    "CA": ("cancelled",),
    "TO": ("expired", "failed"),
    "HO": ("handed_off",),
}


def state_letter(job: Mapping[str, Any]) -> str:
    """Return Flux's letter: D depends, P held, S waits, R runs, C ends; or CD, F, CA, TO, HO for an ended job."""
    state: str = job.get("state", "")
    if state in ENDED:
        return "TO" if state == "failed" and job.get("failure") == "time-limit" else ENDED[state]
    if state == "held":
        return HOLD_LETTERS.get(job.get("hold", ""), "P")
    if state == "bound":
        return {"running": "R", "finishing": "C"}.get(job.get("attempt_state", ""), "S")
    return "C" if state == "cancelling" else "S"


def state_word(job: Mapping[str, Any]) -> str:
    """Return the state of an active job as a word, or the final state."""
    return STATE_WORDS.get(state_letter(job)) or str(job["state"]).replace("_", " ")


def seconds(value: object) -> float | None:
    """Return a time in a row as seconds since the epoch."""
    if not isinstance(value, str):
        return None
    return datetime.datetime.fromisoformat(value).timestamp()


def elapsed(job: Mapping[str, Any], now: float) -> float:
    """Return how long the job ran, has been running, or has been waiting, in seconds."""
    began = seconds(job.get("started_at"))
    ended = seconds(job.get("ended_at"))
    if began is None:
        began = seconds(job.get("submitted_at")) or now
    return max(0.0, (ended if ended is not None else now) - began)


def info(job: Mapping[str, Any]) -> str:
    """Describe in a few words why a job waits, where it is, or how it ended."""
    state: str = job.get("state", "")
    reason: str = job.get("reason", "")
    if state in ENDED:
        code = job.get("exit_code")
        how = f"exit {code}" if code is not None and code >= 0 else f"signal {-code}" if code is not None else ""
        return reason or how
    if state == "held":
        return reason or HOLD_REASONS.get(job.get("hold", ""), "held").format(id=job["id"])
    if state == "bound":
        native = f"native {job['native_id']}" if job.get("native_id") else ""
        steps = {
            "offered": "offered, not accepted yet",
            "leased": "leased",
            "accepted": "accepted",
            "submitted": "queued there",
        }
        step = steps.get(job.get("attempt_state", ""), "")
        return ", ".join(part for part in (native, step) if part) or reason
    return reason


def short_user(job: Mapping[str, Any]) -> str:
    """Return `ana` for `user:ana`."""
    return str(job.get("owner", "")).removeprefix("user:")


def shown_name(job: Mapping[str, Any]) -> str:
    """Return the name, with the index for a job of an array: `sh[3]`."""
    index = job.get("terms", {}).get("labels", {}).get("array_index", "")
    return f"{job.get('name', '')}[{index}]" if index else str(job.get("name", ""))


def listing(now: float) -> Listing:
    """Return the layout of `rainbow jobs`."""
    return Listing(
        schema="rainbow.jobs/1",
        key="jobs",
        keys=(
            *("id", "name", "owner", "state", "cluster", "nodes", "attempt", "attempt_state"),
            *("native_id", "exit_code", "failure", "code", "hosts", "reason", "hold", "submitted_at", "started_at"),
            *("ended_at", "evaluations", "evaluated_at", "terms", "spec", "source", "unchanged"),
        ),
        name="id",
        columns=(
            Column("JOBID", text("id"), right=True),
            Column("USER", short_user),
            Column("NAME", shown_name),
            Column("ST", state_letter, right=True),
            Column("N", lambda job: str(job.get("nodes") or "-"), right=True),
            Column("CLUSTER", text("cluster")),
            Column("TIME", lambda job: format_duration(elapsed(job, now)), right=True),
            Column("TRY", text("attempt"), right=True, wide=True),
            Column("NATIVE", text("native_id"), wide=True),
            Column("NODES", text("hosts"), wide=True),
            Column("SUBMITTED", text("submitted_at"), wide=True),
            Column("EXIT", text("exit_code"), right=True, wide=True),
            Column("INFO", info),
        ),
        fields={
            "user": short_user,
            "st": state_letter,
            "status": lambda job: job.get("state", "").upper(),
            "returncode": lambda job: job.get("exit_code", ""),
            "time": lambda job: format_duration(elapsed(job, now)),
            "info": info,
        },
        empty="no jobs",
    )


ACTIVE, ENDED_GROUPS = ("running", "pending"), ("completed", "failed", "cancelled", "timeout", "handed-off")


def counts(jobs: list[dict[str, Any]], letters: frozenset[str]) -> dict[str, int]:
    """Count jobs by group, for groups with one of `letters` only."""
    by_letter = Counter(state_letter(job) for job in jobs)
    return {
        name: sum(by_letter[one] for one in FILTERS[name])
        for name in (*ACTIVE, *ENDED_GROUPS)
        if FILTERS[name] & letters
    }


def stats(jobs: list[dict[str, Any]], letters: frozenset[str]) -> str:
    """Format `3 running, 1 pending; 10 completed, 2 failed`."""
    counted = counts(jobs, letters)
    parts = [
        ", ".join(f"{counted[name]} {name}" for name in group if name in counted) for group in (ACTIVE, ENDED_GROUPS)
    ]
    return "; ".join(part for part in parts if part)
