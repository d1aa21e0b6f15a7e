"""The `constraint` policy, from the prototype: priorities of filter, calc, sort and select steps over cluster numbers.

Variables come from the cluster's state, then the request's parameters, then `BUILT_IN_VARIABLES`.
A calculated variable belongs to one decision; it changes neither the state nor other requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.selection.bid_scores import estimate
from rainbow_sched.selection.expressions import EvaluationError, Expression
from rainbow_sched.selection.options import take
from rainbow_sched.selection.policies.contract import Ranked, Ranking
from rainbow_sched.selection.policies.steps import Calc, Filter, Priority, Program, Select, Sort, parse_program

BUILT_IN_VARIABLES: Mapping[str, Callable[[Candidate, Demand], object]] = {
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


_Row: TypeAlias = tuple[str, dict[str, Any]]  # a cluster's name and its variables
_Reasons: TypeAlias = dict[str, list[str]]  # for each cluster, why each priority dropped it


@dataclass(frozen=True, slots=True)
class ConstraintPolicy:
    """Rank by the first priority that leaves a cluster."""

    program: Program

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ConstraintPolicy:
        """Read the option `priorities`: YAML, a list of {priority, steps}."""
        text = take("constraint", options, {"priorities": ""})["priorities"]
        if not text.strip():
            raise Invalid("policy 'constraint' needs the option 'priorities': a YAML list of {priority, steps}")
        return cls(parse_program(text))

    @property
    def wants_bids(self) -> bool:
        """True if an expression reads a bid."""
        return "bid.start" in self.program.names or "bid.cost" in self.program.names

    @property
    def wants_slots(self) -> bool:
        """True if an expression reads a slot count."""
        return "slots_now" in self.program.names or "slots_ever" in self.program.names

    @property
    def wants_ages(self) -> bool:
        """True if an expression reads the age of the state."""
        return "state_age" in self.program.names

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Try the priorities in order; the first that leaves clusters ranks them."""
        reasons: _Reasons = {candidate.name: [] for candidate in candidates}
        built_in = [name for name in self.program.names if name in BUILT_IN_VARIABLES]
        parameters = demand.parameters
        for priority in self.program.priorities:
            rows: list[_Row] = [(c.name, {**parameters, **c.state}) for c in candidates]
            if built_in:
                rows = [
                    (c.name, {**{name: BUILT_IN_VARIABLES[name](c, demand) for name in built_in}, **env})
                    for c, (_, env) in zip(candidates, rows, strict=True)
                ]
            left = _run(priority, rows, reasons, rng)
            if left:
                kept = {name for name, _ in left}
                dropped = {name: "; ".join(why) for name, why in reasons.items() if name not in kept}
                return Ranking(_ranked(left, priority), dropped)
        return Ranking([], {name: "; ".join(why) for name, why in reasons.items()})


def _run(priority: Priority, rows: list[_Row], reasons: _Reasons, rng: Random) -> list[_Row]:
    for step in priority.steps:
        if not rows:
            break
        if isinstance(step, Filter):
            rows = _filter(step, rows, reasons, priority)
        elif isinstance(step, Calc):
            rows = _calc(step.expression, step.variable, rows, reasons, priority)
        elif isinstance(step, Sort):
            rows = _sort(step, rows, reasons, priority)
        else:
            rows = _select(step, rows, rng)
    return rows


def _filter(step: Filter, rows: list[_Row], reasons: _Reasons, priority: Priority) -> list[_Row]:
    run, left = step.expression.run, []
    for row in rows:
        name, env = row
        try:
            value = run(env)
        except EvaluationError as error:
            reasons[name].append(_out(priority, error))
            continue
        if value is True:
            left.append(row)
        elif value is False:
            reasons[name].append(_is_false(priority, step.expression, env))
        else:
            reasons[name].append(f"priority {priority.number}: filter {step.expression.text} is not true or false")
    return left


def _calc(expression: Expression, variable: str, rows: list[_Row], reasons: _Reasons, priority: Priority) -> list[_Row]:
    run, left = expression.run, []
    for row in rows:
        name, env = row
        try:
            env[variable] = run(env)
        except EvaluationError as error:
            reasons[name].append(_out(priority, error))
        else:
            left.append(row)
    return left


def _sort(step: Sort, rows: list[_Row], reasons: _Reasons, priority: Priority) -> list[_Row]:
    key = step.key
    left = _calc(step.expression, key, rows, reasons, priority)  # ties stay in order of name
    if all(env[key].__class__ is float for _, env in left):
        return sorted(left, key=lambda row: row[1][key], reverse=step.descending)
    # sort by type first: numbers and texts do not compare
    return sorted(left, key=lambda row: (row[1][key].__class__.__name__, row[1][key]), reverse=step.descending)


def _select(step: Select, rows: list[_Row], rng: Random) -> list[_Row]:
    if step.how == "first":
        return rows
    if step.how == "last":
        return rows[::-1]
    drawn = sorted((rng.random(), i) for i in range(len(rows)))
    return [rows[i] for _, i in drawn]


def _ranked(rows: list[_Row], priority: Priority) -> list[Ranked]:
    """Rank the rows, with the calculated and sorted numbers as terms."""
    shown = [key for key in priority.shown if all(env[key].__class__ is float for _, env in rows)]
    numbers = ", ".join(f"{key.replace('%', '%%')}=%g" for key in shown)
    shape = f"priority {priority.number}: {numbers or 'passes'}"
    ranked = []
    for place, (name, env) in enumerate(rows):
        terms = {key: env[key] for key in shown}
        ranked.append(Ranked(name, float(place), shape % tuple(terms.values()), terms))
    return ranked


def _out(priority: Priority, error: EvaluationError) -> str:
    return f"priority {priority.number}: {error.problem}"


def _is_false(priority: Priority, expression: Expression, env: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={_short(env[name])}" for name in sorted(expression.names) if name in env)
    return f"priority {priority.number}: {expression.text.strip()} is false{f' ({values})' if values else ''}"


def _short(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
