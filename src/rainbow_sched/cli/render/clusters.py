"""Format clusters: as a listing, or one cluster with all details."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rainbow_sched.cli.render.jobs import seconds
from rainbow_sched.cli.render.listings import Column, Listing, plain_columns, table, text
from rainbow_sched.cli.render.terminal import clean, one_line
from rainbow_sched.cli.render.times import format_age
from rainbow_sched.model.bid import TrackRecord
from rainbow_sched.model.cluster_rules import short_duration


def free_of(cluster: Mapping[str, Any], type: str) -> str:
    """Format the free and total amount of a resource: `12/64`."""
    totals = [total for total in cluster.get("totals", ()) if total["type"] == type]
    if not totals:
        return "-"
    return f"{sum(total['free'] for total in totals)}/{sum(total['all'] for total in totals)}"


def seen(cluster: Mapping[str, Any], now: float) -> str:
    """Format the age of the last contact."""
    at = seconds(cluster.get("seen_at"))
    return "never" if at is None else format_age(now - at)


def track_record(cluster: Mapping[str, Any]) -> str:
    """Format `93% of 120, x1.4`: the share of jobs that started before the predicted p90, and actual/predicted wait."""
    record = TrackRecord.from_mapping(cluster.get("record", {}))
    share = record.p90_held
    if share is None:
        return "-"
    return f"{share:.0%} of {record.jobs}, x{math.exp(record.log_bias / record.weight):.1f}"


def listing(now: float) -> Listing:
    """Return the layout of `rainbow clusters`."""
    return Listing(
        schema="rainbow.clusters/1",
        key="clusters",
        keys=(
            *("name", "standing", "manager", "registered_at", "seen_at", "state", "state_at", "totals"),
            *("subsystems", "queued", "running", "record", "reason", "rules", "wrong_nodes", "node_rules", "tree"),
        ),
        columns=(
            *plain_columns("NAME", "MANAGER"),
            Column("STATE", text("standing")),
            Column("SEEN", lambda row: seen(row, now), right=True),
            Column("NODES(free/all)", lambda row: free_of(row, "node")),
            Column("CORES", lambda row: free_of(row, "core")),
            Column("GPU", lambda row: free_of(row, "gpu")),
            Column("QUEUE", text("queued"), right=True),
            Column("RUNS", text("running"), right=True),
            Column("BIDS(p90 held, bias)", track_record),
            *plain_columns("SUBSYSTEMS", "REASON", wide=True),
        ),
        fields={
            "nodes": lambda row: free_of(row, "node"),
            "seen": lambda row: seen(row, now),
        },
        empty="no clusters",
    )


def format_rules(rules: Mapping[str, Any]) -> str:
    """Format `users ana; groups lab; at most 4 nodes and 2h per job; at most 10 jobs per user; signed jobs only`."""
    parts = [f"{what} {one_line(', '.join(rules[what]))}" for what in ("users", "groups") if rules.get(what)]
    limits = [f"{rules['max_nodes']} nodes"] if rules.get("max_nodes") else []
    limits += [short_duration(rules["max_time"])] if rules.get("max_time") else []
    parts += [f"at most {' and '.join(limits)} per job"] if limits else []
    parts += [f"at most {rules['max_queued']} jobs per user"] if rules.get("max_queued") else []
    parts += ["signed jobs only"] if rules.get("signed") else []
    return "; ".join(parts)


def format_node_rules(cluster: Mapping[str, Any]) -> str:
    """Describe whether node requirements are enforced, and how often the manager used wrong nodes."""
    rules = cluster.get("node_rules", {})
    if not rules:
        text = "not enforced: the cluster has no agent"
    elif not rules.get("hosts"):
        text = "not enforced: the agent is too old; upgrade it"
    else:
        text = "enforced"
        if names := ", ".join(rules.get("subsystems", ())):
            text += f"; {one_line(names)} as native constraints of the manager"
    wrong = cluster.get("wrong_nodes", 0)
    return text + (f"; {wrong} job{'' if wrong == 1 else 's'} returned because of wrong nodes" if wrong else "")


def cluster_details(cluster: Mapping[str, Any], now: float) -> str:
    """Format one cluster with its totals and its state."""
    lines = [
        f"{one_line(cluster['name'])}: {cluster.get('standing', 'unknown')}"
        + (f" ({one_line(cluster['reason'])})" if cluster.get("reason") else ""),
        f"  manager     {one_line(cluster.get('manager', '')) or 'unknown: no agent connected yet'}",
        f"  seen        {seen(cluster, now)}" + ("" if seen(cluster, now) == "never" else " ago"),
        f"  jobs        {cluster.get('running', 0)} running, {cluster.get('queued', 0)} waiting there",
        f"  subsystems  {one_line(', '.join(cluster.get('subsystems', ()))) or 'none'}",
        f"  bids        {track_record(cluster)}",
        f"  nodes       {format_node_rules(cluster)}",
    ]
    if rules := format_rules(cluster.get("rules", {})):
        lines.append(f"  rules       {rules}")
    totals = (
        Column("TYPE", text("type")),
        *plain_columns("FREE", "ALL", "VERTICES", right=True),
        Column("UNIT", text("unit")),
    )
    lines += table(totals, cluster.get("totals", ()), indent="  ").splitlines()
    state = cluster.get("state", {})
    if state:
        at = seconds(cluster.get("state_at"))
        lines.append(f"  state{'' if at is None else f', reported {format_age(now - at)} ago'}:")
        lines += [f"    {one_line(str(key))} = {one_line(str(value))}" for key, value in sorted(state.items())]
    return "\n".join(lines) + "\n"


def tree(cluster: Mapping[str, Any]) -> str:
    """Format the containment tree."""
    return "".join(f"{clean(line)}\n" for line in cluster.get("tree", ()))
