"""Errors of expressions, shown with a caret under the position."""

from __future__ import annotations

from rainbow_sched.model.errors import Invalid

SHOWN_CHARS = 60  # of a long expression, around the caret


class ExpressionError(Invalid):
    """An expression is invalid or cannot be evaluated; `position` counts characters from 0."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(f"{message}, at character {position + 1}\n{caret(text, position)}")
        self.problem = message
        self.position = position


class BadExpression(ExpressionError):
    """The text is not an expression or exceeds a limit."""


class EvaluationError(ExpressionError):
    """The expression has no result for these values: text times a number, division by zero."""


class MissingVariable(EvaluationError):
    """The expression uses a variable that neither the cluster nor the request has."""

    def __init__(self, name: str, text: str, position: int) -> None:
        super().__init__(f"{name!r} is not known", text, position)
        self.name = name


def caret(text: str, position: int) -> str:
    """Return two lines: the expression (or the part around `position`), and a caret under the position."""
    start = max(0, min(position - SHOWN_CHARS // 2, len(text) - SHOWN_CHARS))
    line = "".join(c if c.isprintable() else " " for c in text[start : start + SHOWN_CHARS])
    return f"  {line}\n  {' ' * (position - start)}^"
