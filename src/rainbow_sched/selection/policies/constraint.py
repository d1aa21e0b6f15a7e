"""The `constraint` policy, from the prototype: priorities of filter, calc, sort and select steps over cluster numbers.

Variables come from the cluster's state, then the request's parameters, then `BUILT_IN_VARIABLES`.
A calculated variable belongs to one decision; it changes neither the state nor other requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.selection.bid_scores import estimate
from rainbow_sched.selection.expressions import EvaluationError, Expression, compile_expression
from rainbow_sched.selection.options import read_yaml, take
from rainbow_sched.selection.policies.contract import Ranked, Ranking

MAX_PRIORITIES = 32  # bounds the time of one decision
MAX_STEPS = 64  # of one priority; bounds the time of one decision
SELECTS = ("first", "last", "random")
STEPS = ("filter", "calc", "sort_ascending", "sort_descending", "select")
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
_ASSIGN = re.compile(r"(?<![=!<>])=(?![=~])")
_VARIABLE = re.compile(r"[A-Za-z_][\w.]*|\[[^\[\]'\"\\]+\]")

_Row: TypeAlias = tuple[str, dict[str, Any]]  # a cluster's name and its variables
_Drop: TypeAlias = Callable[[str, str], None]  # records why a cluster is dropped


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep clusters for which the expression is true."""

    expression: Expression

    def run(self, rows: list[_Row], drop: _Drop, rng: Random) -> list[_Row]:
        run, left = self.expression.run, []
        for row in rows:
            name, env = row
            try:
                value = run(env)
            except EvaluationError as error:
                drop(name, error.problem)
                continue
            if value is True:
                left.append(row)
            elif value is False:
                drop(name, self._is_false(env))
            else:
                drop(name, f"filter {self.expression.text} is not true or false")
        return left

    def _is_false(self, env: Mapping[str, Any]) -> str:
        values = ", ".join(f"{name}={_short(env[name])}" for name in sorted(self.expression.names) if name in env)
        return f"{self.expression.text.strip()} is false{f' ({values})' if values else ''}"


@dataclass(frozen=True)
class Calc:
    """Calculate one more variable for each cluster."""

    variable: str
    expression: Expression

    def run(self, rows: list[_Row], drop: _Drop, rng: Random) -> list[_Row]:
        run, variable, left = self.expression.run, self.variable, []
        for row in rows:
            name, env = row
            try:
                env[variable] = run(env)
            except EvaluationError as error:
                drop(name, error.problem)
            else:
                left.append(row)
        return left


@dataclass(frozen=True)
class Sort(Calc):
    """Calculate a variable, which is named by the text of its expression, and order the clusters by it."""

    descending: bool

    def run(self, rows: list[_Row], drop: _Drop, rng: Random) -> list[_Row]:
        key = self.variable
        left = super().run(rows, drop, rng)  # ties stay in order of name
        if all(env[key].__class__ is float for _, env in left):
            return sorted(left, key=lambda row: row[1][key], reverse=self.descending)
        # sort by type first: numbers and texts do not compare
        return sorted(left, key=lambda row: (row[1][key].__class__.__name__, row[1][key]), reverse=self.descending)


@dataclass(frozen=True, slots=True)
class Select:
    """Choose the order of the remaining clusters: first, last or random."""

    how: str

    def run(self, rows: list[_Row], drop: _Drop, rng: Random) -> list[_Row]:
        if self.how == "random":
            drawn = sorted((rng.random(), i) for i in range(len(rows)))
            return [rows[i] for _, i in drawn]
        return rows if self.how == "first" else rows[::-1]


Step: TypeAlias = Filter | Calc | Select


@dataclass(frozen=True, slots=True)
class Priority:
    """A sequence of steps; the next priority is tried if it leaves no cluster."""

    number: int
    steps: tuple[Step, ...]
    shown: tuple[str, ...]  # the variables that it calculates or sorts by, in order, without duplicates

    def run(self, rows: list[_Row], reasons: Mapping[str, list[str]], rng: Random) -> list[_Row]:
        """Return the rows that all steps leave, in order; `reasons` collects why others are dropped."""

        def drop(name: str, why: str) -> None:
            reasons[name].append(f"priority {self.number}: {why}")

        for step in self.steps:
            if not rows:
                break
            rows = step.run(rows, drop, rng)
        return rows


@dataclass(frozen=True, slots=True)
class Program:
    """All priorities in order, and the variables that their expressions read."""

    priorities: tuple[Priority, ...]
    names: frozenset[str]


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
        reasons: dict[str, list[str]] = {candidate.name: [] for candidate in candidates}
        built_in = [name for name in self.program.names if name in BUILT_IN_VARIABLES]
        parameters = demand.parameters
        for priority in self.program.priorities:
            rows: list[_Row] = [(c.name, {**parameters, **c.state}) for c in candidates]
            if built_in:
                rows = [
                    (c.name, {**{name: BUILT_IN_VARIABLES[name](c, demand) for name in built_in}, **env})
                    for c, (_, env) in zip(candidates, rows, strict=True)
                ]
            left = priority.run(rows, reasons, rng)
            if left:
                kept = {name for name, _ in left}
                dropped = {name: "; ".join(why) for name, why in reasons.items() if name not in kept}
                return Ranking(_ranked(left, priority), dropped)
        return Ranking([], {name: "; ".join(why) for name, why in reasons.items()})


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


def _short(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def parse_program(text: str) -> Program:
    """Parse the option `priorities`."""
    where = "option 'priorities'"
    raw = read_yaml(text, where)
    if not isinstance(raw, list) or not raw:
        raise Invalid("expected a list of priorities, each with its steps", where=where)
    if len(raw) > MAX_PRIORITIES:
        raise Invalid(f"at most {MAX_PRIORITIES} priorities, not {len(raw)}", where=where)
    priorities = sorted((_priority(item, i, where) for i, item in enumerate(raw)), key=lambda p: p.number)
    names = {
        name
        for priority in priorities
        for step in priority.steps
        if not isinstance(step, Select)
        for name in step.expression.names
    }
    return Program(tuple(priorities), frozenset(names))


def _priority(raw: Any, index: int, where: str) -> Priority:
    where = f"{where} item {index + 1}"
    if not isinstance(raw, dict):
        raise Invalid("expected a map with `priority` and `steps`", where=where)
    for key in raw:
        if key not in ("priority", "steps"):
            raise Invalid(f"unknown key {key!r}{did_you_mean(str(key), ('priority', 'steps'))}", where=where)
    number = raw.get("priority", str(index + 1))
    if not isinstance(number, str) or not re.fullmatch(r"[+-]?\d{1,9}", number):
        raise Invalid(f"priority must be a whole number, not {str(number)[:40]!r}", where=where)
    steps = raw.get("steps")
    if not isinstance(steps, list) or not 0 < len(steps) <= MAX_STEPS:
        raise Invalid(f"steps must be a list of 1 to {MAX_STEPS} steps", where=where)
    read = tuple(_step(step, f"{where} step {i + 1}") for i, step in enumerate(steps))
    if any(isinstance(step, Select) for step in read[:-1]):
        raise Invalid("select must be the last step", where=where)
    shown = dict.fromkeys(step.variable for step in read if isinstance(step, Calc))
    return Priority(int(number), read, tuple(shown))


def _step(raw: Any, where: str) -> Step:
    if not isinstance(raw, dict) or len(raw) != 1:
        raise Invalid("a step must be one `name: text`, such as `filter: nodes_free > 0`", where=where)
    ((name, text),) = raw.items()
    if name not in STEPS:
        raise Invalid(f"there is no step {str(name)[:40]!r}{did_you_mean(str(name), STEPS)}", where=where)
    if not isinstance(text, str):
        raise Invalid(f"{name} takes text", where=where)
    if name == "select":
        if text.strip() not in SELECTS:
            raise Invalid(f"select takes first, last or random, not {text.strip()[:40]!r}", where=where)
        return Select(text.strip())
    if name == "calc":
        return _calc(text, where)
    expression = _expression(text, where)
    if name == "filter":
        return Filter(expression)
    return Sort(text.strip(), expression, descending=name == "sort_descending")


def _calc(text: str, where: str) -> Calc:
    equals = _ASSIGN.search(text)
    variable = text[: equals.start()].strip() if equals else ""
    if equals is None or not _VARIABLE.fullmatch(variable):
        raise Invalid(f"calc must be `name=expression`, not {text[:60]!r}", where=where)
    return Calc(variable.strip("[]").strip(), _expression(text[equals.end() :], where))


def _expression(text: str, where: str) -> Expression:
    try:
        return compile_expression(text)
    except Invalid as error:
        raise Invalid(str(error), where=where) from None
