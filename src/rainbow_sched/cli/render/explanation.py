"""Format the explanation of a job: its state, each cluster's reasons, possible changes, and its timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rainbow_sched.cli.render import plan
from rainbow_sched.cli.render.jobs import ENDED, info, seconds, state_letter, state_word
from rainbow_sched.cli.render.terminal import COLUMNS, hanging, one_line, pad, width
from rainbow_sched.cli.render.times import format_age, format_clock
from rainbow_sched.model.decision import Decision

FIT_WORDS = {"now": "NOW", "later": "LATER", "never": "NEVER", "unknown": "UNKNOWN", "closed": "SKIP"}


def headline(job: Mapping[str, Any], explanations: Sequence[Mapping[str, Any]], now: float) -> str:
    """Format `Job 122 (train) is PENDING since 09:02:00; evaluated 14 times, last 6s ago. No cluster ...`.

    An ended job is `Job 2 (sh) succeeded on here at 12:27:35 (exit 0).`
    """
    name = f" ({one_line(job['name'])})" if job.get("name") else ""
    nodes = f" ({one_line(job['hosts'])})" if job.get("hosts") else ""
    where = f" on {one_line(job['cluster'])}{nodes}" if job.get("cluster") else ""
    since = seconds(job.get("ended_at")) or seconds(job.get("started_at")) or seconds(job.get("submitted_at"))
    if job["state"] in ENDED:
        when = f" at {format_clock(since, now)}" if since else ""
        known = "exit 0" if job.get("exit_code") == 0 and job["state"] == "succeeded" else one_line(info(job))
        return f"Job {job['id']}{name} {state_word(job)}{where}{when}{f' ({known})' if known else ''}.\n"
    when = f" since {format_clock(since, now)}" if since else ""
    count = job.get("evaluations", 0)
    at = seconds(job.get("evaluated_at"))
    last = f", last {format_age(now - at)} ago" if at is not None else ""
    evaluated = f"evaluated {count} time{'' if count == 1 else 's'}{last}"
    parts = [f"Job {job['id']}{name} is {state_word(job).upper()}{where}{when}; {evaluated}."]
    waits = state_letter(job) in "DPS" and not job.get("cluster")
    if waits:
        parts.append(_outlook(explanations))
    known = "" if waits and job.get("hold") == "nothing-fits" else info(job)  # the decision has more details
    if known:
        parts.append(f"{one_line(known)}.")
    return " ".join(parts) + "\n"


def _outlook(explanations: Sequence[Mapping[str, Any]]) -> str:
    by_fit = [entry["fit"] for entry in explanations]
    now, later = by_fit.count("now"), by_fit.count("later") + by_fit.count("unknown")
    if now:
        return f"{now} cluster{'' if now == 1 else 's'} can run it now."
    if later:
        return f"No cluster can run it now; {later} cluster{'' if later == 1 else 's'} can later."
    closed = by_fit.count("closed")  # not evaluated
    if closed:
        return f"No cluster can run it now; {closed} cluster{' accepts' if closed == 1 else 's accept'} no jobs."
    return "No cluster can ever run it."


def verdicts(explanations: Sequence[Mapping[str, Any]], limit: int = COLUMNS) -> str:
    """Format one line per cluster: ` corona  LATER  nodes: 2 free, 8 needed`."""
    size = max((width(one_line(entry["cluster"])) for entry in explanations), default=0)
    lines = []
    for entry in explanations:
        lead = f" {pad(one_line(entry['cluster']), size)}  {FIT_WORDS.get(entry['fit'], '?'):<7}  "
        lines.append(hanging(lead, plan.sentences(entry) or [f"{entry.get('slots_now', 0)} would fit"], limit))
    return "".join(lines)


def last_decision(decision: Decision | None, now: float, *, ended: bool) -> str:
    """Format the last decision and its reasons."""
    if decision is None:
        return f"There is no decision{'' if ended else ' yet'}.\n"
    when = format_clock(decision.record["at"], now)
    if decision.winner is None:
        reasons = [one_line(reason) for reason in decision.record["outcome"]["reasons"]]
        of_others = tuple(f"{one_line(row.name)}: " for row in decision.rows() if plan.excluded(decision, row.name))
        why = "; ".join([reason for reason in reasons if not reason.startswith(of_others)][:3])
        what = "no cluster" if not decision.record["outcome"].get("ever", True) else "wait"
        return f"Last decision at {when}: {what}" + (f" ({why})" if why else "") + f". {plan.policy_line(decision)}"
    return f"Last decision at {when}: {one_line(decision.winner)}. {plan.policy_line(decision)}"


def timeline(events: Sequence[Mapping[str, Any]], now: float) -> str:
    """Format all events of the job, oldest first."""
    lines = []
    for event in events:
        at = format_clock(seconds(event.get("at")) or now, now)
        detail = ", ".join(
            f"{key}={one_line(str(value))}" for key, value in event.get("detail", {}).items() if value != ""
        )
        lines.append(f" {at}  {event['kind']:<13} {event['state']:<11} {detail}".rstrip() + "\n")
    return "Timeline:\n" + "".join(lines) if lines else ""


def unknown_reports(events: Sequence[Mapping[str, Any]], now: float) -> str:
    """Format the reports of agents that the server stored but does not understand."""
    lines = []
    for event in events:
        detail = event.get("detail", {})
        if "unknown_report" in detail:
            at = format_clock(seconds(event.get("at")) or now, now)
            who = f"{one_line(str(detail.get('cluster')))} reported at {at} of attempt {detail.get('of')}"
            lines.append(f" {who}: {one_line(str(detail['unknown_report']))}\n   {one_line(str(detail.get('why')))}\n")
    if not lines:
        return ""
    remedy = " The agent sends it again after a restart or an upgrade of the server, or after its own restart.\n"
    return "Reports that the server does not understand and ignored:\n" + "".join(lines) + remedy


def explain(view: Mapping[str, Any], *, now: float, verbose: bool, limit: int = COLUMNS) -> str:
    """Return the output of `rainbow explain`."""
    job = view["job"]
    decision = Decision.from_record(view["decision"]) if view.get("decision") else None
    terms = job.get("terms", {})
    only, never = terms.get("only_clusters", ()), terms.get("not_clusters", ())
    explanations = [e for e in view.get("explanations", ()) if not plan.is_left_out(e["cluster"], only, never)]
    ended = job["state"] in ENDED
    parts = [headline(job, explanations, now), last_decision(decision, now, ended=ended)]
    if not ended or verbose:
        parts.append(unknown_reports(view.get("events", ()), now))
    if not ended or verbose:
        parts += [
            verdicts(explanations, limit),
            plan.nodes(explanations, limit),
            plan.changes(explanations, limit),
        ]
    if verbose:
        if decision is not None:
            parts.append(plan.candidates(decision, wanted=None, now=now))
            parts.append(plan.rejected(decision, (), {}, limit))
        parts.append(timeline(view.get("events", ()), now))
    else:
        parts.append(f" Timeline, bids, scores: rainbow explain {job['id']} -v, or -o json\n")
    return "".join(parts)
