"""How a plan and an explanation look: candidates with the chosen one ticked, the others with their reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rainbow_sched.cli.render.listings import Column, table
from rainbow_sched.cli.render.terminal import COLUMNS, hung, one_line, width
from rainbow_sched.cli.render.times import clock, short
from rainbow_sched.cli.shell.exit_codes import Exit
from rainbow_sched.model.decision import Chosen, Decision, Row
from rainbow_sched.model.request import Request

TICK, CROSS = "✔", "✗"
MAX_CHANGES = 3
MAX_OPTION = 80


def needed(request: Request) -> int:
    """How many slots are asked for: the count that `slots_now` and `slots_ever` are measured against."""
    levels = [level for group in request.groups for level in group.levels]
    return levels[0].count.min if len(levels) == 1 else 1


def exit_code(decision: Decision) -> Exit:
    """0 if it fits now, 75 if something could run it later, 3 if nothing ever could."""
    outcome = decision.outcome
    if not isinstance(outcome, Chosen):
        return Exit.LATER if _hopes(decision) else Exit.UNSATISFIABLE
    winner = next(row for row in decision.rows() if row.name == outcome.cluster)
    return Exit.OK if winner.fit == "now" else Exit.LATER


def excluded(decision: Decision, name: str) -> bool:
    """True if the job's owner left this cluster out with -M or --not: that needs no reason."""
    limits = decision.record.get("limits", {})
    return left_out(name, limits.get("only", ()), limits.get("never", ()))


def left_out(name: str, only: Collection[str], never: Collection[str]) -> bool:
    """True if `name` is not among `only`, where that says anything, or is among `never`."""
    return bool(only and name not in only) or name in never


def asked_for(decision: Decision, explanations: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The explanations of clusters that the owner did not leave out."""
    return [entry for entry in explanations if not excluded(decision, entry["cluster"])]


def _hopes(decision: Decision) -> int:
    """How many of the clusters that may be chosen could run it at some time."""
    if not isinstance(decision.outcome, Chosen) and not decision.outcome.ever:
        return 0
    could = {row.name for row in decision.rows() if row.fit in ("now", "later", "unknown")}
    return sum(not excluded(decision, name) for name in could)


def candidates(decision: Decision, *, wanted: int | None, now: float, managers: Mapping[str, str] | None = None) -> str:
    """The table of the clusters that are left, best first; empty when there is none."""
    rows = [_candidate(row, decision, wanted, now, managers or {}) for row in decision.rows() if row.rank is not None]
    if not rows:
        return ""
    return table(
        (
            Column("CLUSTER", lambda row: row["cluster"]),
            Column("MANAGER", lambda row: row["manager"]),
            Column("MATCH", lambda row: row["match"]),
            Column("START", lambda row: row["start"], right=True),
            Column("WAIT", lambda row: row["wait"], right=True),
            Column("COST", lambda row: row["cost"], right=True),
            Column("SCORE", lambda row: row["score"], right=True),
            Column("CHOSEN", lambda row: row["chosen"], blank=""),
        ),
        rows,
        indent=" ",
    )


def _candidate(
    row: Row, decision: Decision, wanted: int | None, now: float, managers: Mapping[str, str]
) -> Mapping[str, str]:
    start, cost = row.estimate.get("start"), row.estimate.get("cost")
    if row.fit == "now":
        have = f"{row.slots_now} free" if row.slots_now else "fits"  # submit does not count how much more would
    else:
        have = f"{row.slots_now} free of {row.slots_ever}" if row.slots_ever else "fits later"
    return {
        "cluster": row.name,
        "manager": managers.get(row.name, ""),
        "match": have if wanted is None else f"{have} / {wanted} needed",
        "start": "" if start is None else clock(now + start, now),
        "wait": "" if start is None else short(start),
        "cost": "" if cost is None else f"{cost:.2f}",
        "score": "" if row.score is None else f"{row.score:.3g}",
        "chosen": TICK if row.name == decision.winner else "",
    }


def rejected(
    decision: Decision, explanations: Sequence[Mapping[str, Any]], managers: Mapping[str, str], limit: int = COLUMNS
) -> str:
    """Each cluster that is out, with its first reasons below each other."""
    by_name = {entry["cluster"]: entry for entry in asked_for(decision, explanations)}
    out: dict[str, list[str]] = {}
    for row in decision.rows():
        if row.rank is None and not excluded(decision, row.name):
            said = (one_line(row.reason), *sentences(by_name.get(row.name, {})))
            out[row.name] = [reason for reason in dict.fromkeys(said) if reason]
    for name, entry in by_name.items():
        if entry["fit"] == "closed":
            out.setdefault(name, sentences(entry))
    out = {name: why for name, why in out.items() if why}
    if not out:
        return ""
    size = max(width(one_line(name)) for name in out)
    kind = max(width(one_line(managers.get(name, ""))) for name in out)
    lines = []
    for name, why in out.items():
        shown, manager = one_line(name), one_line(managers.get(name, ""))
        gaps = " " * (size - width(shown)), " " * (kind - width(manager))
        lead = f" {CROSS} {shown}{gaps[0]}  {manager}{gaps[1]}{'  ' if kind else ''}"
        lines.append(hung(lead, why, limit))
    return "".join(lines)


def nodes(explanations: Iterable[Mapping[str, Any]], limit: int = COLUMNS) -> str:
    """To which nodes the job is bound on each cluster, and where that is not enforced or was not kept."""
    lines = []
    for entry in explanations:
        if entry.get("fit") == "never":
            continue
        name = one_line(entry["cluster"])
        groups = entry.get("hosts", ())
        alike = len({group["hosts"] for group in groups}) == 1 and len(groups) == entry.get("groups", len(groups))
        said = [
            one_line(group["hosts"] if alike else f"{group['hosts']} (group {group['group'] + 1})") for group in groups
        ]
        parts = ["runs only on " + ", ".join(dict.fromkeys(said))] if said else []
        parts += [one_line(entry["nodes"])] if entry.get("nodes") else []
        if wrong := entry.get("wrong_nodes"):
            parts.append(f"its manager gave wrong nodes {wrong} time{'' if wrong == 1 else 's'}")
        if parts:
            lines.append(hung(f" Nodes of {name}: ", ["; ".join(parts)], limit))
    return "".join(lines)


def sentences(entry: Mapping[str, Any], most: int = 2) -> list[str]:
    """The first reasons of an explanation."""
    return [one_line(str(item.get("sentence", ""))) for item in entry.get("reasons", ())[:most]]


def changes(explanations: Iterable[Mapping[str, Any]], limit: int = COLUMNS) -> str:
    """`Would fit if: -N 2 → corona · gpu 2 instead of 4 → perl`."""
    by_sentence: dict[str, list[str]] = {}
    for entry in explanations:
        for change in entry.get("changes", ())[:MAX_CHANGES]:
            by_sentence.setdefault(one_line(str(change.get("sentence", ""))), []).append(one_line(entry["cluster"]))
    if not by_sentence:
        return ""
    said = [f"{what} → {', '.join(where[:3])}" for what, where in list(by_sentence.items())[: 2 * MAX_CHANGES]]
    return hung(" Would fit if: ", [" · ".join(said)], limit)


def policy_line(decision: Decision) -> str:
    """`Policy weighted (formula=...): 0.91 = 0.6*start + ...`."""
    options = decision.record["policy"]["options"]
    said = ", ".join(f"{key}={_brief(str(value))}" for key, value in options.items())
    shown = f"Policy {one_line(decision.policy)}" + (f" ({said})" if said else "")
    winner = next((row for row in decision.rows() if row.name == decision.winner), None)
    return f"{shown}: {one_line(winner.reason)}.\n" if winner is not None and winner.reason else f"{shown}.\n"


def _brief(value: str) -> str:
    """An option's value where it is short; a whole text of rules is not shown again."""
    return one_line(value) if "\n" not in value and len(value) <= MAX_OPTION else "..."


def verdict(decision: Decision) -> str:
    """What comes of it, in one sentence; empty when a cluster was chosen."""
    outcome = decision.outcome
    if isinstance(outcome, Chosen):
        return ""
    count = _hopes(decision)
    if not count:
        nobody = f": {'; '.join(outcome.reasons)}" if next(decision.rows(), None) is None else ""
        return f"No cluster could ever run it{nobody}.\n"
    return f"Nothing can run it now; {count} cluster{'' if count == 1 else 's'} could later.\n"


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
    """Everything that `rainbow plan` prints."""
    known = managers or {}
    parts = [
        candidates(decision, wanted=needed(request), now=now, managers=known),
        rejected(decision, explanations, known, limit),
        nodes(asked_for(decision, explanations), limit),
        changes((entry for entry in asked_for(decision, explanations) if entry["fit"] not in ("now", "closed")), limit),
        verdict(decision),
    ]
    if request.ignored:
        parts.append(f"Ignored from {source or 'the flags'}: {one_line('; '.join(request.ignored))}\n")
    return "".join((*parts, policy_line(decision)))
