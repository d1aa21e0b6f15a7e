"""Expressions agree with Python's own arithmetic, and hostile text neither takes long nor escapes."""

from __future__ import annotations

import fnmatch
import math
import re
from contextlib import suppress
from types import CodeType, FunctionType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.selection.expressions import BadExpression, EvaluationError, ExpressionError, compile_expression
from rainbow_sched.selection.expressions.compiler import compile_glob
from rainbow_sched.selection.expressions.operations import OPERATIONS
from rainbow_sched.selection.expressions.parser import MAX_DEPTH, MAX_NODES, PRECEDENCE

VARIABLES = {"a": 3.0, "b": -0.5, "c": 17.0}
PYTHON = {"%": "math.fmod({}, {})", "&&": "({} and {})", "||": "({} or {})"}


class Tree:
    """A generated expression: in our syntax with the fewest parentheses, in Python with all."""

    def __init__(self, ours: str, python: str, precedence: int) -> None:
        self.ours, self.python, self.precedence = ours, python, precedence


leaves = st.one_of(
    st.integers(0, 20).map(lambda n: Tree(str(n), f"{float(n)!r}", 99)),
    st.sampled_from(sorted(VARIABLES)).map(lambda name: Tree(name, name, 99)),
)


def _inside(tree: Tree, precedence: int, *, right: bool) -> str:
    lower = tree.precedence < precedence or (right and tree.precedence == precedence)
    return f"({tree.ours})" if lower else tree.ours


def _binary(op: str, x: Tree, y: Tree) -> Tree:
    precedence = PRECEDENCE[op]
    ours = f"{_inside(x, precedence, right=False)} {op} {_inside(y, precedence, right=True)}"
    return Tree(ours, PYTHON.get(op, f"({{}} {op} {{}})").format(x.python, y.python), precedence)


def _grown(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    def negated(x: Tree) -> Tree:
        return Tree(f"-{_inside(x, 50, right=False)}", f"(-{x.python})", 50)

    def called(parts: tuple[str, Tree, Tree]) -> Tree:
        name, x, y = parts
        return Tree(f"{name}({x.ours}, {y.ours})", f"{name}({x.python}, {y.python})", 99)

    return st.one_of(
        st.builds(_binary, st.sampled_from(["+", "-", "*", "/", "%"]), children, children),
        children.map(negated),
        st.tuples(st.sampled_from(["min", "max"]), children, children).map(called),
    )


sums = st.recursive(leaves, _grown, max_leaves=12)
comparisons = st.builds(_binary, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), sums, sums)
truths = st.one_of(comparisons, st.sampled_from(["true", "false"]).map(lambda t: Tree(t, t.title(), 99)))
logic = st.builds(_binary, st.sampled_from(["&&", "||"]), truths, truths)


@given(st.one_of(sums, comparisons, logic))
@settings(max_examples=300, deadline=None)
def test_results_agree_with_pythons_own_arithmetic(tree: Tree) -> None:
    try:
        expected = eval(tree.python, {"math": math, "min": min, "max": max, **VARIABLES})  # noqa: S307  # the oracle, on text made above
    except (ZeroDivisionError, ValueError, OverflowError):
        with pytest.raises(EvaluationError):
            compile_expression(tree.ours)(VARIABLES)
        return
    assert compile_expression(tree.ours)(VARIABLES) == expected


@given(st.text(alphabet="ab01.'\"()[]+-*/%<>=!&|^~?:, IN\\\n", max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_text_has_a_value_or_a_typed_error(text: str) -> None:
    value: object = None
    with suppress(ExpressionError):
        value = compile_expression(text)({"a": 1.0, "b": "x"})
    assert value is None or isinstance(value, bool | float | str | tuple)
    assert not isinstance(value, float) or math.isfinite(value)


@given(st.text(alphabet="ab*?.[", max_size=8), st.text(alphabet="ab.[", max_size=10))
@settings(max_examples=500, deadline=None)
def test_globs_agree_with_the_standard_library(pattern: str, text: str) -> None:
    oracle = re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
    assert compile_glob(pattern)(text) is (oracle.match(text) is not None)


def test_the_ends_of_a_glob_do_not_share_a_character() -> None:
    assert not compile_glob("ab*b")("ab")
    assert not compile_glob("a*bc*c")("abc")
    assert compile_glob("a*b*b")("abb")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500,
        "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1),
        "-" * 500 + "1",
        "!" * 900 + "true",
        "+".join("1" * (MAX_NODES // 2 + 2)),
        "true ? 1 : " * 60 + "1",
        "min(" * 200,
        "a" * 2_000,
        "[" * 1_000,
        "1" * 1_000 + "." * 20,
        "__import__('os').system('true')",
        "lambda: 0",
        "a\x00b",
        "١ + ١",
        "'" + "\\" * 999,
    ],
)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(BadExpression):
        compile_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9**9**9",
        "2**1024",
        "x" + "+x" * 90,
        "1e308*1e308",
    ],
)
def test_hostile_values_raise_an_error_quickly(text: str) -> None:
    with pytest.raises(EvaluationError):
        compile_expression(text)({"x": "y" * 4_000})


def test_a_pattern_made_to_backtrack_does_not() -> None:
    test = compile_glob("*a" * 400 + "b")
    assert not test("a" * 4_096)


def test_the_deepest_allowed_nesting_works() -> None:
    assert compile_expression("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH)({}) == 1.0
    assert compile_expression("+".join("1" * (MAX_NODES // 2)))({}) == MAX_NODES / 2
    assert compile_expression("+".join(["(1)"] * 2 * MAX_DEPTH))({}) == 2 * MAX_DEPTH


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


@given(st.one_of(sums, comparisons, logic))
@settings(max_examples=100, deadline=None)
def test_compiled_code_uses_nothing_but_the_operations(tree: Tree) -> None:
    run = compile_expression(f"'__import__' != x.__class__ && [os.system] ?? ({tree.ours})").run
    assert isinstance(run, FunctionType)
    assert _names(run.__code__) <= {*OPERATIONS, "float", "__class__", "get"}
    assert run.__globals__["__builtins__"] == {}
