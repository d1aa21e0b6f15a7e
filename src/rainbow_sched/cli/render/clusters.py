"""How clusters look: one line each, or one of them in full, from plain rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rainbow_sched.cli.render.jobs import seconds
from rainbow_sched.cli.render.listings import Column, Listing, table, text
from rainbow_sched.cli.render.terminal import clean, one_line
from rainbow_sched.cli.render.times import ago
from rainbow_sched.model.bid import TrackRecord
from rainbow_sched.model.cluster_rules import short_duration


def free_of(cluster: Mapping[str, Any], type: str) -> str:
    """`12/64`: how much of a resource is free, of how much."""
    found = [total for total in cluster.get("totals", ()) if total["type"] == type]
    if not found:
        return "-"
    return f"{sum(total['free'] for total in found)}/{sum(total['all'] for total in found)}"


def seen(cluster: Mapping[str, Any], now: float) -> str:
    """How long ago the cluster last spoke."""
    at = seconds(cluster.get("seen_at"))
    return "never" if at is None else ago(now - at)


def track_record(cluster: Mapping[str, Any]) -> str:
    """`93% of 120, x1.4`: how often jobs started by the bid's p90, and how much longer than said they waited."""
    record = TrackRecord.from_mapping(cluster.get("record", {}))
    held = record.p90_held
    if held is None:
        return "-"
    return f"{held:.0%} of {record.jobs}, x{math.exp(record.log_bias / record.weight):.1f}"


def listing(now: float) -> Listing:
    """How `rainbow clusters` lists."""
    return Listing(
        schema="rainbow.clusters/1",
        key="clusters",
        keys=(
            *("name", "standing", "manager", "registered_at", "seen_at", "state", "state_at", "totals"),
            *("subsystems", "queued", "running", "record", "reason", "rules", "wrong_nodes", "node_rules", "tree"),
        ),
        columns=(
            Column("NAME", text("name")),
            Column("MANAGER", text("manager")),
            Column("STATE", text("standing")),
            Column("SEEN", lambda row: seen(row, now), right=True),
            Column("NODES(free/all)", lambda row: free_of(row, "node")),
            Column("CORES", lambda row: free_of(row, "core")),
            Column("GPU", lambda row: free_of(row, "gpu")),
            Column("QUEUE", text("queued"), right=True),
            Column("RUNS", text("running"), right=True),
            Column("BIDS(p90 held, bias)", track_record),
            Column("SUBSYSTEMS", lambda row: ",".join(row.get("subsystems", ())), wide=True),
            Column("REASON", text("reason"), wide=True),
        ),
        fields={
            "nodes": lambda row: free_of(row, "node"),
            "seen": lambda row: seen(row, now),
        },
        empty="no clusters",
    )


def said_rules(rules: Mapping[str, Any]) -> str:
    """`users ana, bob; groups lab; at most 4 nodes and 2h per job; at most 10 jobs of one user; signed jobs only`."""
    words = [f"{what} {one_line(', '.join(rules[what]))}" for what in ("users", "groups") if rules.get(what)]
    most = [f"{rules['max_nodes']} nodes"] if rules.get("max_nodes") else []
    most += [short_duration(rules["max_time"])] if rules.get("max_time") else []
    words += [f"at most {' and '.join(most)} per job"] if most else []
    words += [f"at most {rules['max_queued']} jobs of one user"] if rules.get("max_queued") else []
    words += ["signed jobs only"] if rules.get("signed") else []
    return "; ".join(words)


def said_nodes(cluster: Mapping[str, Any]) -> str:
    """Whether jobs stay on the nodes that meet their requirements, and how often the manager gave others."""
    rules = cluster.get("node_rules", {})
    if not rules:
        said = "not enforced: it has no agent"
    elif not rules.get("hosts"):
        said = "not enforced: its agent does not keep jobs on nodes; upgrade it"
    else:
        said = "enforced"
        if words := ", ".join(rules.get("subsystems", ())):
            said += f"; the manager is told {one_line(words)} in its own words"
    wrong = cluster.get("wrong_nodes", 0)
    return said + (f"; {wrong} job{'' if wrong == 1 else 's'} returned because of wrong nodes" if wrong else "")


def in_full(cluster: Mapping[str, Any], now: float) -> str:
    """One cluster with its totals and its state."""
    lines = [
        f"{one_line(cluster['name'])}: {cluster.get('standing', 'unknown')}"
        + (f" ({one_line(cluster['reason'])})" if cluster.get("reason") else ""),
        f"  manager     {one_line(cluster.get('manager', '')) or 'unknown: no agent has told'}",
        f"  seen        {seen(cluster, now)}" + ("" if seen(cluster, now) == "never" else " ago"),
        f"  jobs        {cluster.get('running', 0)} running, {cluster.get('queued', 0)} waiting there",
        f"  subsystems  {one_line(', '.join(cluster.get('subsystems', ()))) or 'none'}",
        f"  bids        {track_record(cluster)}",
        f"  nodes       {said_nodes(cluster)}",
    ]
    if rules := said_rules(cluster.get("rules", {})):
        lines.append(f"  rules       {rules}")
    totals = table(
        (
            Column("TYPE", lambda total: total["type"]),
            Column("FREE", lambda total: str(total["free"]), right=True),
            Column("ALL", lambda total: str(total["all"]), right=True),
            Column("VERTICES", lambda total: str(total["vertices"]), right=True),
            Column("UNIT", lambda total: total.get("unit", "")),
        ),
        cluster.get("totals", ()),
        indent="  ",
    )
    lines += totals.splitlines()
    state = cluster.get("state", {})
    if state:
        at = seconds(cluster.get("state_at"))
        lines.append(f"  state{'' if at is None else f', reported {ago(now - at)} ago'}:")
        lines += [f"    {one_line(str(key))} = {one_line(str(value))}" for key, value in sorted(state.items())]
    return "\n".join(lines) + "\n"


def tree(cluster: Mapping[str, Any]) -> str:
    """The containment tree as the server drew it."""
    return "".join(f"{clean(line)}\n" for line in cluster.get("tree", ()))
