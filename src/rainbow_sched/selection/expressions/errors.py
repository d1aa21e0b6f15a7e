"""What can be wrong with an expression, shown with a caret under the character at fault."""

from __future__ import annotations

from rainbow_sched.model.errors import Invalid

SHOWN = 60  # characters of a long expression that are shown around the caret


class ExpressionError(Invalid):
    """An expression that cannot be read or evaluated; `position` counts characters from 0."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(f"{message}, at character {position + 1}\n{caret(text, position)}")
        self.problem = message
        self.position = position


class BadExpression(ExpressionError):
    """The text is not an expression, or is over a limit."""


class EvaluationError(ExpressionError):
    """The expression is well-formed, but these values have no result: a text times a number, a division by zero."""


class MissingVariable(EvaluationError):
    """The expression names a variable that this cluster and this request do not have."""

    def __init__(self, name: str, text: str, position: int) -> None:
        super().__init__(f"{name!r} is not known", text, position)
        self.name = name


def caret(text: str, position: int) -> str:
    """Two lines: the expression (or the part around `position`), and a caret under the character."""
    start = max(0, min(position - SHOWN // 2, len(text) - SHOWN))
    line = "".join(c if c.isprintable() else " " for c in text[start : start + SHOWN])
    return f"  {line}\n  {' ' * (position - start)}^"
