"""Benchmark of selection: expressions, the constraint policy and whole decisions, compared with plain Python.

It reports ratios within one run, because the speed of a shared machine varies.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from rainbow_sched.model.bid import Bid
from rainbow_sched.model.candidate import Candidate, ClusterReport, Demand
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.candidate_set import CandidateSet, FleetPartCache
from rainbow_sched.selection.decisions import Criteria, Question, decide, replay
from rainbow_sched.selection.expressions import compile_expression
from rainbow_sched.selection.policies import built_in

FORMULA = "(cost_per_node_hour * (memory_per_node * seconds_per_gb)/60/60)"
PRIORITIES = f"""
- priority: 1
  steps:
  - filter: nodes_free > 0
  - calc: memory_min=min(100, memory_per_node - 100)
  - calc: build_cost={FORMULA}
  - sort_ascending: build_cost
  - select: first
"""
DEMAND = Demand(parameters={"seconds_per_gb": 0.4})
NOW = 1e9


def fleet(size: int, *, bids: bool = False) -> list[Candidate]:
    """Return clusters that fit, each with five numbers of state."""
    return [
        Candidate.of(
            ClusterReport(
                name=f"cluster-{i:04}",
                state={
                    "nodes_free": i % 50,
                    "cost_per_node_hour": 3.5 + i % 7,
                    "memory_per_node": 200,
                    "queue_depth": i % 11,
                    "cores_free": 64,
                },
                at=NOW - 12.5,
            ),
            Fit.NOW,
            slots_now=i % 50,
            slots_ever=200,
            bid=_bid(i) if bids else None,
        )
        for i in range(size)
    ]


def _bid(i: int) -> Bid:
    start = float(i * 7 % 100)
    return Bid(
        cluster=f"cluster-{i:04}",
        yes=True,
        asked_at=NOW,
        valid_until=NOW + 60,
        start_p50=start,
        start_p90=start * 2,
        cost=1.5 * (i % 9),
    )


def best(work: Callable[[], object], rounds: int = 30, number: int = 1) -> float:
    """Return the shortest time of `rounds`, in seconds per call."""
    shortest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(number):
            work()
        shortest = min(shortest, (time.perf_counter() - start) / number)
    return shortest


def plain_expression(v: dict[str, float]) -> float:
    """Evaluate FORMULA in Python."""
    return v["cost_per_node_hour"] * (v["memory_per_node"] * v["seconds_per_gb"]) / 60 / 60


def plain_constraint(candidates: list[Candidate]) -> list[tuple[str, float, str, dict[str, float]]]:
    """Evaluate PRIORITIES in plain Python, with the same terms and reasons."""
    rows = []
    for c in candidates:
        v: dict[str, Any] = {**DEMAND.parameters, **c.state}
        if v["nodes_free"] > 0:
            terms = {"memory_min": min(100.0, v["memory_per_node"] - 100.0), "build_cost": plain_expression(v)}
            rows.append((c.name, terms))
    rows.sort(key=lambda row: row[1]["build_cost"])
    return [
        (name, float(i), f"memory_min={terms['memory_min']:g}, build_cost={terms['build_cost']:g}", terms)
        for i, (name, terms) in enumerate(rows)
    ]


def plain_decision(candidates: list[Candidate], seed: int) -> str:
    """Draw a cluster and dump the state of all clusters as one dict per cluster."""
    rng = Random(seed)
    order = sorted((rng.random(), c.name) for c in sorted(candidates, key=lambda c: c.name))
    rows = [
        {"name": c.name, "fit": c.fit, "now": c.slots_now, "ever": c.slots_ever, "state": c.state, "at": c.report.at}
        for c in candidates
    ]
    return json.dumps({"winner": order[0][1], "ranked": [name for _, name in order], "clusters": rows})


def _line(what: str, ours: float, plain: float, unit: float, limit: str) -> None:
    name = {1e6: "us", 1e3: "ms"}[unit]
    times = f"{ours * unit:8.2f} {name}  plain {plain * unit:8.2f} {name}"
    print(f"  {what:<44} {times}  ratio {ours / plain:5.1f}  ({limit})")


def main(arguments: list[str]) -> None:
    """Print one line per measurement: ours, plain Python, their ratio, and the limit."""
    variables = {"cost_per_node_hour": 3.0, "memory_per_node": 200.0, "seconds_per_gb": 0.4}
    run = compile_expression(FORMULA).run
    small, large, with_bids = fleet(100), fleet(1_000), fleet(8, bids=True)
    options = {"priorities": PRIORITIES}
    policies, fleet_parts = built_in(), FleetPartCache()  # as a service holds them

    def constraint() -> object:
        return policies.build("constraint", options).rank(large, DEMAND, Random(0))

    def decision(policy: str, candidates: list[Candidate], options: dict[str, str] | None = None) -> str:
        criteria = Criteria(demand=DEMAND, policy=policy, options=options or {})
        question = Question(criteria=criteria, candidates=CandidateSet(candidates, fleet_parts), now=NOW)
        return decide(question, policies).to_json()

    print("choosing: ours, the same in plain Python, and the ratio of the two")
    formula = best(lambda: run(variables), number=2_000), best(lambda: plain_expression(variables), number=2_000)
    _line("one expression, 4 operations", *formula, 1e6, "under 5 us")
    _line("constraint, 1,000 clusters", best(constraint), best(lambda: plain_constraint(large)), 1e3, "under 5 ms")
    plain = best(lambda: plain_decision(small, 1), number=5)
    for policy in ("random", "least", "spread"):
        ours = best(partial(decision, policy, small), number=5)
        _line(f"{policy}, 100 clusters, with its record", ours, plain, 1e6, "under 500 us")
    ours = best(lambda: decision("constraint", small, options), number=5)
    _line("constraint, 100 clusters, with its record", ours, plain, 1e6, "under 1000 us")
    _line("start, 8 bids, with its record", best(lambda: decision("start", with_bids), number=5), plain, 1e6, "-")
    stored = decision("random", small)
    _line(f"replay of {len(stored):,} bytes", best(lambda: replay(stored, policies), number=5), plain, 1e6, "-")


if __name__ == "__main__":
    main(sys.argv[1:])
