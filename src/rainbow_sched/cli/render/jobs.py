"""How jobs look: Flux's letters for states, how long, and what there is to know, from plain rows."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rainbow_sched.cli.render.listings import Column, Listing, text
from rainbow_sched.cli.render.times import short

ENDED = {
    "succeeded": "CD",
    "failed": "F",
    "cancelled": "CA",
    "infeasible": "F",
    "expired": "TO",
    "handed_off": "HO",  # ours: the cluster owns it now, and nobody will tell how it ends
}
WORDS = {"D": "waiting", "P": "held", "S": "pending", "R": "running", "C": "ending"}
HELD = {"dependency": "D", "time": "D", "user": "P", "nothing-fits": "S"}
WAITS_FOR = {
    "dependency": "waits for another job",
    "time": "waits for its start time",
    "user": "held; rainbow release lets it go",
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
STATES: Mapping[str, tuple[str, ...]] = {  # what the server is asked for, before the letters decide
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


def letter(job: Mapping[str, Any]) -> str:
    """D depends, P held, S waits, R runs, C ends; CD done, F failed, CA cancelled, TO too late, HO handed off."""
    state: str = job.get("state", "")
    if state in ENDED:
        return "TO" if state == "failed" and job.get("failure") == "time-limit" else ENDED[state]
    if state == "held":
        return HELD.get(job.get("hold", ""), "P")
    if state == "bound":
        return {"running": "R", "finishing": "C"}.get(job.get("attempt_state", ""), "S")
    return "C" if state == "cancelling" else "S"


def word(job: Mapping[str, Any]) -> str:
    """The letter of a job that has not ended as a word, or how it ended."""
    return WORDS.get(letter(job)) or str(job["state"]).replace("_", " ")


def seconds(value: object) -> float | None:
    """A row's time as seconds since the epoch."""
    if not isinstance(value, str):
        return None
    return datetime.datetime.fromisoformat(value).timestamp()


def elapsed(job: Mapping[str, Any], now: float) -> float:
    """How long it ran, or runs, or has been waiting."""
    began = seconds(job.get("started_at"))
    ended = seconds(job.get("ended_at"))
    if began is None:
        began = seconds(job.get("submitted_at")) or now
    return max(0.0, (ended if ended is not None else now) - began)


def info(job: Mapping[str, Any]) -> str:
    """What there is to know in a few words: why it waits, where it is, how it ended."""
    state: str = job.get("state", "")
    reason: str = job.get("reason", "")
    if state in ENDED:
        code = job.get("exit_code")
        how = f"exit {code}" if code is not None and code >= 0 else f"signal {-code}" if code is not None else ""
        return reason or how
    if state == "held":
        return reason or WAITS_FOR.get(job.get("hold", ""), "held")
    if state == "bound":
        native = f"native {job['native_id']}" if job.get("native_id") else ""
        where = {
            "offered": "offered, not taken yet",
            "leased": "leased",
            "accepted": "accepted",
            "submitted": "queued there",
        }
        step = where.get(job.get("attempt_state", ""), "")
        return ", ".join(part for part in (native, step) if part) or reason
    return reason


def short_user(job: Mapping[str, Any]) -> str:
    """`user:ana` as `ana`."""
    return str(job.get("owner", "")).removeprefix("user:")


def shown_name(job: Mapping[str, Any]) -> str:
    """The name; of a member of an array with its index: `sh[3]`."""
    index = job.get("terms", {}).get("labels", {}).get("array_index", "")
    return f"{job.get('name', '')}[{index}]" if index else str(job.get("name", ""))


def listing(now: float) -> Listing:
    """How `rainbow jobs` lists."""
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
            Column("ST", letter, right=True),
            Column("N", lambda job: str(job.get("nodes") or "-"), right=True),
            Column("CLUSTER", text("cluster")),
            Column("TIME", lambda job: short(elapsed(job, now)), right=True),
            Column("TRY", text("attempt"), right=True, wide=True),
            Column("NATIVE", text("native_id"), wide=True),
            Column("NODES", text("hosts"), wide=True),
            Column("SUBMITTED", text("submitted_at"), wide=True),
            Column("EXIT", text("exit_code"), right=True, wide=True),
            Column("INFO", info),
        ),
        fields={
            "user": short_user,
            "st": letter,
            "status": lambda job: job.get("state", "").upper(),
            "returncode": lambda job: job.get("exit_code", ""),
            "time": lambda job: short(elapsed(job, now)),
            "info": info,
        },
        empty="no jobs",
    )


LIVE, OVER = ("running", "pending"), ("completed", "failed", "cancelled", "timeout", "handed-off")


def counts(jobs: list[dict[str, Any]], asked: frozenset[str]) -> dict[str, int]:
    """How many of each kind: only of what was asked for, since the others were not counted."""
    found = Counter(letter(job) for job in jobs)
    return {name: sum(found[one] for one in FILTERS[name]) for name in (*LIVE, *OVER) if FILTERS[name] & asked}


def stats(jobs: list[dict[str, Any]], asked: frozenset[str]) -> str:
    """`3 running, 1 pending; 10 completed, 2 failed`."""
    counted = counts(jobs, asked)
    parts = [", ".join(f"{counted[name]} {name}" for name in group if name in counted) for group in (LIVE, OVER)]
    return "; ".join(part for part in parts if part)
