"""Expressions over a cluster's state and a job's parameters, compiled once and evaluated in about a microsecond.

Numbers (all floats), text, true and false, arithmetic, comparisons, `&& || !`, `a ? b : c`,
`a ?? b`, `x IN (a, b)`, `=~` with a glob, and a few functions. There are no loops and no attributes;
size, nesting and every result are bounded. `docs/policies.md` describes the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rainbow_sched.selection.expressions.compiler import Run, compile_tree
from rainbow_sched.selection.expressions.errors import BadExpression, EvaluationError, ExpressionError, MissingVariable
from rainbow_sched.selection.expressions.parser import parse

__all__ = ["BadExpression", "EvaluationError", "Expression", "ExpressionError", "MissingVariable", "compile_expression"]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression; it holds no state between calls."""

    text: str
    names: frozenset[str]  # the variables it may read
    run: Run

    def __call__(self, variables: Mapping[str, object]) -> object:
        """Return the value for these variables; raise EvaluationError or MissingVariable if there is none."""
        return self.run(variables)


def compile_expression(text: str) -> Expression:
    """Compile `text`; raise BadExpression with the position of a syntax error."""
    run, names = compile_tree(text, parse(text))
    return Expression(text, names, run)
