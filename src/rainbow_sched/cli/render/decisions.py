"""Format decisions: a plan, and the explanation of a job.

A plan has the candidates with the chosen one marked, and the reasons of the other clusters. An explanation has the
state of the job, each cluster's reasons, possible changes, and the timeline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rainbow_sched.cli.render.jobs import ENDED, info, seconds, state_letter, state_word
from rainbow_sched.cli.render.listings import Column, plain_columns, table, text
from rainbow_sched.cli.render.terminal import COLUMNS, hanging, one_line, pad, width
from rainbow_sched.cli.render.times import format_age, format_clock, format_duration
from rainbow_sched.cli.shell.exit_codes import ExitCode
from rainbow_sched.model.decision import Chosen, Decision, Row
from rainbow_sched.model.request import Request

TICK, CROSS = "✔", "✗"
FIT_WORDS = {"now": "NOW", "later": "LATER", "never": "NEVER", "unknown": "UNKNOWN", "closed": "SKIP"}
MAX_CHANGES = 3  # of one cluster, so that the output stays short
MAX_OPTION_CHARS = 80  # a longer option is shown as dots


def needed(request: Request) -> int:
    """Return the number of slots of a request, to compare with `slots_now` and `slots_ever`."""
    levels = [level for group in request.groups for level in group.levels]
    return levels[0].count.min if len(levels) == 1 else 1


def exit_code(decision: Decision) -> ExitCode:
    """Return 0 if the job fits now, 75 if a cluster can run it later, 3 if none ever can."""
    outcome = decision.outcome
    if not isinstance(outcome, Chosen):
        return ExitCode.LATER if _possible_clusters(decision) else ExitCode.UNSATISFIABLE
    winner = next(row for row in decision.rows() if row.name == outcome.cluster)
    return ExitCode.OK if winner.fit == "now" else ExitCode.LATER


def excluded(decision: Decision, name: str) -> bool:
    """Return True if the owner excluded the cluster with -M or --not."""
    limits = decision.record.get("limits", {})
    return is_left_out(name, limits.get("only", ()), limits.get("never", ()))


def is_left_out(name: str, only: Collection[str], never: Collection[str]) -> bool:
    """Return True if `name` is not in a non-empty `only`, or is in `never`."""
    return bool(only and name not in only) or name in never


def _possible_clusters(decision: Decision) -> int:
    """Return how many clusters that may be chosen can run the job now or later."""
    if not isinstance(decision.outcome, Chosen) and not decision.outcome.ever:
        return 0
    could = {row.name for row in decision.rows() if row.fit in ("now", "later", "unknown")}
    return sum(not excluded(decision, name) for name in could)


def candidates(decision: Decision, *, wanted: int | None, now: float, managers: Mapping[str, str] | None = None) -> str:
    """Format the table of candidates, best first; empty if there are none."""
    rows = [_candidate(row, decision, wanted, now, managers or {}) for row in decision.rows() if row.rank is not None]
    if not rows:
        return ""
    named = plain_columns("CLUSTER", "MANAGER", "MATCH")
    numbers = plain_columns("START", "WAIT", "COST", "SCORE", right=True)
    return table((*named, *numbers, Column("CHOSEN", text("chosen"), blank="")), rows, indent=" ")


def _candidate(
    row: Row, decision: Decision, wanted: int | None, now: float, managers: Mapping[str, str]
) -> Mapping[str, str]:
    start, cost = row.estimate.get("start"), row.estimate.get("cost")
    if row.fit == "now":
        free = f"{row.slots_now} free" if row.slots_now else "fits"  # submit does not count more slots than needed
    else:
        free = f"{row.slots_now} free of {row.slots_ever}" if row.slots_ever else "fits later"
    return {
        "cluster": row.name,
        "manager": managers.get(row.name, ""),
        "match": free if wanted is None else f"{free} / {wanted} needed",
        "start": "" if start is None else format_clock(now + start, now),
        "wait": "" if start is None else format_duration(start),
        "cost": "" if cost is None else f"{cost:.2f}",
        "score": "" if row.score is None else f"{row.score:.3g}",
        "chosen": TICK if row.name == decision.winner else "",
    }


def rejected(
    decision: Decision, explanations: Sequence[Mapping[str, Any]], managers: Mapping[str, str], limit: int = COLUMNS
) -> str:
    """Format each rejected cluster with its first reasons."""
    by_name = {entry["cluster"]: entry for entry in explanations}
    out: dict[str, list[str]] = {}
    for row in decision.rows():
        if row.rank is None and not excluded(decision, row.name):
            all_reasons = (one_line(row.reason), *sentences(by_name.get(row.name, {})))
            out[row.name] = [reason for reason in dict.fromkeys(all_reasons) if reason]
    for name, entry in by_name.items():
        if entry["fit"] == "closed":
            out.setdefault(name, sentences(entry))
    out = {name: reasons for name, reasons in out.items() if reasons}
    if not out:
        return ""
    kinds = {name: one_line(managers.get(name, "")) for name in out}
    size = max(width(one_line(name)) for name in out)
    kind_size = max(map(width, kinds.values()))
    lines = []
    for name, reasons in out.items():
        kind = f"{pad(kinds[name], kind_size)}  " if kind_size else ""
        lines.append(hanging(f" {CROSS} {pad(one_line(name), size)}  {kind}", reasons, limit))
    return "".join(lines)


def nodes(explanations: Iterable[Mapping[str, Any]], limit: int = COLUMNS) -> str:
    """Format the nodes that the job may use on each cluster, and where this is not enforced."""
    lines = []
    for entry in explanations:
        if entry.get("fit") == "never":
            continue
        name = one_line(entry["cluster"])
        groups = entry.get("hosts", ())
        same = len({group["hosts"] for group in groups}) == 1 and len(groups) == entry.get("groups", len(groups))
        hosts = [
            one_line(group["hosts"] if same else f"{group['hosts']} (group {group['group'] + 1})") for group in groups
        ]
        parts = ["runs only on " + ", ".join(dict.fromkeys(hosts))] if hosts else []
        parts += [one_line(entry["nodes"])] if entry.get("nodes") else []
        if wrong := entry.get("wrong_nodes"):
            parts.append(f"its manager used wrong nodes {wrong} time{'' if wrong == 1 else 's'}")
        if parts:
            lines.append(hanging(f" Nodes of {name}: ", ["; ".join(parts)], limit))
    return "".join(lines)


def sentences(entry: Mapping[str, Any], most: int = 2) -> list[str]:
    """Return the first reasons of an explanation."""
    return [one_line(str(item.get("sentence", ""))) for item in entry.get("reasons", ())[:most]]


def changes(explanations: Iterable[Mapping[str, Any]], limit: int = COLUMNS) -> str:
    """Format `Would fit if: -N 2 → corona · gpu 2 instead of 4 → perl`, for clusters that the job does not fit now."""
    by_sentence: dict[str, list[str]] = {}
    for entry in explanations:
        if entry["fit"] in ("now", "closed"):
            continue
        for change in entry.get("changes", ())[:MAX_CHANGES]:
            by_sentence.setdefault(one_line(str(change.get("sentence", ""))), []).append(one_line(entry["cluster"]))
    if not by_sentence:
        return ""
    parts = [f"{change} → {', '.join(names[:3])}" for change, names in list(by_sentence.items())[: 2 * MAX_CHANGES]]
    return hanging(" Would fit if: ", [" · ".join(parts)], limit)


def policy_line(decision: Decision) -> str:
    """Format `Policy weighted (formula=...): 0.91 = 0.6*start + ...`."""
    options = decision.record["policy"]["options"]
    option_text = ", ".join(f"{key}={_brief(str(value))}" for key, value in options.items())
    shown = f"Policy {one_line(decision.policy)}" + (f" ({option_text})" if option_text else "")
    winner = next((row for row in decision.rows() if row.name == decision.winner), None)
    return f"{shown}: {one_line(winner.reason)}.\n" if winner is not None and winner.reason else f"{shown}.\n"


def _brief(value: str) -> str:
    """Return a short value of an option, or dots for a long one."""
    return one_line(value) if "\n" not in value and len(value) <= MAX_OPTION_CHARS else "..."


def verdict(decision: Decision) -> str:
    """Return the outcome as a sentence; empty if a cluster was chosen."""
    outcome = decision.outcome
    if isinstance(outcome, Chosen):
        return ""
    count = _possible_clusters(decision)
    if not count:
        reasons = f": {'; '.join(outcome.reasons)}" if next(decision.rows(), None) is None else ""
        return f"No cluster can ever run it{reasons}.\n"
    return f"No cluster can run it now; {count} cluster{'' if count == 1 else 's'} can later.\n"


def plan(
    decision: Decision,
    explanations: Sequence[Mapping[str, Any]],
    *,
    request: Request,
    now: float,
    managers: Mapping[str, str] | None = None,
    source: str = "",
    limit: int = COLUMNS,
) -> str:
    """Return the output of `rainbow plan`."""
    known = managers or {}
    selected = [entry for entry in explanations if not excluded(decision, entry["cluster"])]
    parts = [
        candidates(decision, wanted=needed(request), now=now, managers=known),
        rejected(decision, selected, known, limit),
        nodes(selected, limit),
        changes(selected, limit),
        verdict(decision),
    ]
    if request.ignored:
        parts.append(f"Ignored from {source or 'the flags'}: {one_line('; '.join(request.ignored))}\n")
    return "".join((*parts, policy_line(decision)))


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


def cluster_lines(explanations: Sequence[Mapping[str, Any]], limit: int = COLUMNS) -> str:
    """Format one line per cluster: ` corona  LATER  nodes: 2 free, 8 needed`."""
    size = max((width(one_line(entry["cluster"])) for entry in explanations), default=0)
    lines = []
    for entry in explanations:
        lead = f" {pad(one_line(entry['cluster']), size)}  {FIT_WORDS.get(entry['fit'], '?'):<7}  "
        lines.append(hanging(lead, sentences(entry) or [f"{entry.get('slots_now', 0)} would fit"], limit))
    return "".join(lines)


def last_decision(decision: Decision | None, now: float, *, ended: bool) -> str:
    """Format the last decision and its reasons."""
    if decision is None:
        return f"There is no decision{'' if ended else ' yet'}.\n"
    when = format_clock(decision.record["at"], now)
    if decision.winner is None:
        reasons = [one_line(reason) for reason in decision.record["outcome"]["reasons"]]
        of_others = tuple(f"{one_line(row.name)}: " for row in decision.rows() if excluded(decision, row.name))
        why = "; ".join([reason for reason in reasons if not reason.startswith(of_others)][:3])
        what = "no cluster" if not decision.record["outcome"].get("ever", True) else "wait"
        return f"Last decision at {when}: {what}" + (f" ({why})" if why else "") + f". {policy_line(decision)}"
    return f"Last decision at {when}: {one_line(decision.winner)}. {policy_line(decision)}"


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
    explanations = [e for e in view.get("explanations", ()) if not is_left_out(e["cluster"], only, never)]
    ended = job["state"] in ENDED
    parts = [headline(job, explanations, now), last_decision(decision, now, ended=ended)]
    if not ended or verbose:
        parts.append(unknown_reports(view.get("events", ()), now))
    if not ended or verbose:
        parts += [
            cluster_lines(explanations, limit),
            nodes(explanations, limit),
            changes(explanations, limit),
        ]
    if verbose:
        if decision is not None:
            parts.append(candidates(decision, wanted=None, now=now))
            parts.append(rejected(decision, (), {}, limit))
        parts.append(timeline(view.get("events", ()), now))
    else:
        parts.append(f" Timeline, bids, scores: rainbow explain {job['id']} -v, or -o json\n")
    return "".join(parts)
