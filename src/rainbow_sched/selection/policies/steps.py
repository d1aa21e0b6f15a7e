"""Parse the steps of the `constraint` policy from YAML into an immutable program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.selection.expressions import Expression, compile_expression
from rainbow_sched.selection.options import read_yaml

MAX_PRIORITIES = 32
MAX_STEPS = 64
SELECTS = ("first", "last", "random")
STEPS = ("filter", "calc", "sort_ascending", "sort_descending", "select")
_ASSIGN = re.compile(r"(?<![=!<>])=(?![=~])")
_VARIABLE = re.compile(r"[A-Za-z_][\w.]*|\[[^\[\]'\"\\]+\]")


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep clusters for which the expression is true."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class Calc:
    """Calculate one more variable for each cluster."""

    variable: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Sort:
    """Order the clusters by the expression's value."""

    expression: Expression
    descending: bool

    @property
    def key(self) -> str:
        """The variable that holds the sort value: a variable's name or the text of the expression."""
        return self.expression.text.strip()


@dataclass(frozen=True, slots=True)
class Select:
    """Choose the order of the remaining clusters: first, last or random."""

    how: str


Step: TypeAlias = Filter | Calc | Sort | Select


@dataclass(frozen=True, slots=True)
class Priority:
    """A sequence of steps; the next priority is tried if it leaves no cluster."""

    number: int
    steps: tuple[Step, ...]
    shown: tuple[str, ...]  # the variables that it calculates or sorts by, in order, without duplicates


@dataclass(frozen=True, slots=True)
class Program:
    """All priorities in order, and the variables that their expressions read."""

    priorities: tuple[Priority, ...]
    names: frozenset[str]


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
    shown = [step.variable if isinstance(step, Calc) else step.key for step in read if isinstance(step, Calc | Sort)]
    return Priority(int(number), read, tuple(dict.fromkeys(shown)))


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
    return Filter(expression) if name == "filter" else Sort(expression, name == "sort_descending")


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
