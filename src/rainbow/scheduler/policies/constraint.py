"""The prototype's selection language: priorities of filter, calc, sort and select steps over each cluster's numbers.

Variables come from the request's parameters and the cluster's state (which wins where both
have one), and below both a few of our own: see `OWN`. A calculated variable lives in a dict
made for this decision; neither the state nor another request ever sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rainbow.model.candidate import Candidate, Demand
from rainbow.model.errors import Invalid
from rainbow.scheduler.expressions import EvaluationError, Expression
from rainbow.scheduler.options import take
from rainbow.scheduler.policies.contract import Ranked, Ranking
from rainbow.scheduler.policies.steps import Calc, Filter, Priority, Program, Select, Sort, program
from rainbow.scheduler.scoring import estimate

OWN: Mapping[str, Callable[[Candidate, Demand], object]] = {
    "name": lambda c, d: c.name,
    "fit": lambda c, d: c.fit.value,
    "slots_now": lambda c, d: c.slots_now,
    "slots_ever": lambda c, d: c.slots_ever,
    "state_age": lambda c, d: c.state_age,
    "nodes": lambda c, d: d.nodes,
    "cores": lambda c, d: d.cores,
    "duration": lambda c, d: d.duration,
    "bid.start": lambda c, d: estimate(c, d).start,
    "bid.cost": lambda c, d: estimate(c, d).cost,
}


class _Row:
    """One cluster on its way through the steps of one priority."""

    __slots__ = ("env", "name", "shown", "sort")

    def __init__(self, name: str, env: dict[str, Any]) -> None:
        self.name = name
        self.env = env
        self.shown: dict[str, float] = {}  # the numbers that were calculated or sorted by
        self.sort: Any = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """Chooses by the first priority that leaves a cluster."""

    program: Program

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Constraint:
        """`priorities`: YAML text, a list of {priority, steps}."""
        text = take("constraint", options, {"priorities": ""})["priorities"]
        if not text.strip():
            raise Invalid("policy 'constraint' needs the option 'priorities': a YAML list of {priority, steps}")
        return cls(program(text))

    @property
    def wants_bids(self) -> bool:
        """Only if an expression reads what is bid for."""
        return "bid.start" in self.program.names or "bid.cost" in self.program.names

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Go through the priorities; the first one that leaves clusters ranks them."""
        reasons: dict[str, list[str]] = {candidate.name: [] for candidate in candidates}
        own = [name for name in self.program.names if name in OWN or name.startswith("labels.")]
        for priority in self.program.priorities:
            rows = [_Row(c.name, {**_own(own, c, demand), **demand.parameters, **c.state}) for c in candidates]
            left = _run(priority, rows, reasons, rng)
            if left:
                kept = {row.name for row in left}
                dropped = {name: "; ".join(why) for name, why in reasons.items() if name not in kept}
                return Ranking([_ranked(row, place, priority) for place, row in enumerate(left)], dropped)
        return Ranking([], {name: "; ".join(why) for name, why in reasons.items()})


def _own(names: Sequence[str], candidate: Candidate, demand: Demand) -> dict[str, Any]:
    return {
        name: OWN[name](candidate, demand) if name in OWN else candidate.labels.get(name.removeprefix("labels."))
        for name in names
    }


def _run(priority: Priority, rows: list[_Row], reasons: dict[str, list[str]], rng: Random) -> list[_Row]:
    for step in priority.steps:
        if not rows:
            break
        if isinstance(step, Filter):
            rows = _filter(step, rows, reasons, priority)
        elif isinstance(step, Calc):
            rows = _calc(step, rows, reasons, priority)
        elif isinstance(step, Sort):
            rows = _sort(step, rows, reasons, priority)
        else:
            rows = _select(step, rows, rng)
    return rows


def _filter(step: Filter, rows: list[_Row], reasons: dict[str, list[str]], priority: Priority) -> list[_Row]:
    run, left = step.expression.run, []
    for row in rows:
        try:
            value = run(row.env)
        except EvaluationError as error:
            reasons[row.name].append(_out(priority, error))
            continue
        if value is True:
            left.append(row)
        elif value is False:
            reasons[row.name].append(_is_false(priority, step.expression, row.env))
        else:
            reasons[row.name].append(f"priority {priority.number}: filter {step.expression.text} is not true or false")
    return left


def _calc(step: Calc, rows: list[_Row], reasons: dict[str, list[str]], priority: Priority) -> list[_Row]:
    run, variable, left = step.expression.run, step.variable, []
    for row in rows:
        try:
            value = run(row.env)
        except EvaluationError as error:
            reasons[row.name].append(_out(priority, error))
            continue
        row.env[variable] = value
        if value.__class__ is float:
            row.shown[variable] = value
        left.append(row)
    return left


def _sort(step: Sort, rows: list[_Row], reasons: dict[str, list[str]], priority: Priority) -> list[_Row]:
    run, text, left = step.expression.run, step.expression.text.strip(), []
    for row in rows:
        try:
            value = run(row.env)
        except EvaluationError as error:
            reasons[row.name].append(_out(priority, error))
            continue
        if value.__class__ is float:
            row.shown[text] = value
        # kinds are kept apart, so that numbers and texts in one column have an order
        row.sort = (value.__class__.__name__, value)
        left.append(row)
    left.sort(key=lambda row: row.sort, reverse=step.descending)  # stable either way: ties stay by name
    return left


def _select(step: Select, rows: list[_Row], rng: Random) -> list[_Row]:
    if step.how == "first":
        return rows
    if step.how == "last":
        return rows[::-1]
    drawn = sorted((rng.random(), i) for i in range(len(rows)))
    return [rows[i] for _, i in drawn]


def _ranked(row: _Row, place: int, priority: Priority) -> Ranked:
    shown = ", ".join([f"{name}={value:g}" for name, value in row.shown.items()])
    reason = f"priority {priority.number}: {shown}" if shown else f"priority {priority.number}: passes"
    return Ranked(row.name, float(place), reason, row.shown)


def _out(priority: Priority, error: EvaluationError) -> str:
    return f"priority {priority.number}: {error.problem}"


def _is_false(priority: Priority, expression: Expression, env: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={_short(env[name])}" for name in sorted(expression.names) if name in env)
    return f"priority {priority.number}: {expression.text.strip()} is false{f' ({values})' if values else ''}"


def _short(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
