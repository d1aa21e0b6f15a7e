"""Compile the tree of an expression to a Python code object.

The code is made of calls of the functions in `OPERATIONS`, constants, arithmetic on floats, and Python's own `and`,
`or` and `if`. It is built as a syntax tree and not as text, so that nothing in an expression can become code.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rainbow_sched.selection.expressions.errors import BadExpression
from rainbow_sched.selection.expressions.operations import MAX_FLOAT, OPERATIONS
from rainbow_sched.selection.expressions.parser import Node

Run: TypeAlias = Callable[[Mapping[str, Any]], Any]
_AT: Any = {"lineno": 1, "col_offset": 0}  # Python wants a place for every node
_INLINE: dict[str, ast.operator] = {"+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div()}
_ORDER: dict[str, ast.cmpop] = {"<": ast.Lt(), "<=": ast.LtE(), ">": ast.Gt(), ">=": ast.GtE()}
_CHOICE: dict[str, ast.cmpop] = {"min": ast.LtE(), "max": ast.GtE()}  # of two: the left side if this holds


def compile_tree(text: str, tree: Node) -> tuple[Run, frozenset[str]]:
    """Return the function that evaluates `tree`, and the names of the variables that it may read."""
    compiler = _Compiler(text)
    code = compile(ast.Expression(_function(compiler.code(tree))), "<expression>", "eval")
    names = {"__builtins__": {}, "float": float, **OPERATIONS, **compiler.patterns}
    run: Run = eval(code, names)  # noqa: S307  # built above, from a fixed set of operations
    return run, frozenset(compiler.names)


class _Compiler:
    """Translates nodes to Python's syntax; collects the variables and the patterns that the code uses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._inlined = 0
        self.names: set[str] = set()
        self.patterns: dict[str, Callable[[str], bool]] = {}

    def code(self, node: Node) -> ast.expr:
        """Return the Python expression that evaluates `node`."""
        op, args, position = node
        place = _constant((self._text, position))
        if op == "constant":
            return _constant(args[0])
        if op == "name":
            self.names.add(args[0])
            return self._variable(args[0], place)
        if op in ("=~", "!~"):
            return _call(op, self.code(args[0]), self._pattern(op, args[1]), place)
        if op == "call" and args[0] in _CHOICE and len(args) == 3:
            return self._inline(*args, place)
        if op == "call":
            return _call(f"call {args[0]}", place, *map(self.code, args[1:]))
        if op in _INLINE or op in _ORDER:
            return self._inline(op, args[0], args[1], place)
        return _operator(op, [self.code(arg) for arg in args], place)

    def _variable(self, name: str, place: ast.expr) -> ast.expr:
        """Return code that calls nothing but `get` if the value is a float and finite.

        `v if (v := env.get(name)).__class__ is float and -L <= v <= L else variable(v, name, place)`
        """
        self._inlined += 1
        v = f"v{self._inlined}"
        get = ast.Call(ast.Attribute(_name("env"), "get", ast.Load(), **_AT), [_constant(name)], [], **_AT)
        is_float = ast.Compare(
            ast.Attribute(_assign(v, get), "__class__", ast.Load(), **_AT), [ast.Is()], [_name("float")], **_AT
        )
        test = ast.BoolOp(ast.And(), [is_float, _finite(_name(v))], **_AT)
        return ast.IfExp(test, _name(v), _call("name", _name(v), _constant(name), place), **_AT)

    def _pattern(self, op: str, node: Node) -> ast.expr:
        if node.op != "constant" or not isinstance(node.args[0], str):
            raise BadExpression(f"{op} takes a pattern in quotes, such as 'gpu-*'", self._text, node.position)
        name = f"pattern {len(self.patterns)}"
        self.patterns[name] = compile_glob(node.args[0])
        return _name(name)

    def _inline(self, op: str, left: Node, right: Node, place: ast.expr) -> ast.expr:
        """Return code that calls nothing if both sides are floats and the result is finite.

        For `left * right` it is, with -L and L the largest floats:
        `r if (x := left).__class__ is (y := right).__class__ is float and -L <= (r := x * y) <= L else times(x, y)`
        """
        self._inlined += 1
        x, y, r = (f"{letter}{self._inlined}" for letter in "xyr")
        classes = [
            ast.Attribute(_assign(name, self.code(side)), "__class__", ast.Load(), **_AT)
            for name, side in ((x, left), (y, right))
        ]
        tests: list[ast.expr] = [ast.Compare(classes[0], [ast.Is(), ast.Is()], [classes[1], _name("float")], **_AT)]
        if op == "/":
            tests.append(_name(y))
        if op in _ORDER:
            result: ast.expr = ast.Compare(_name(x), [_ORDER[op]], [_name(y)], **_AT)
        elif op in _CHOICE:
            left_wins = ast.Compare(_name(x), [_CHOICE[op]], [_name(y)], **_AT)
            result = ast.IfExp(left_wins, _name(x), _name(y), **_AT)
        else:
            value = _assign(r, ast.BinOp(_name(x), _INLINE[op], _name(y), **_AT))
            tests.append(_finite(value))
            result = _name(r)
        test = ast.BoolOp(ast.And(), tests, **_AT) if len(tests) > 1 else tests[0]
        sides = (_name(x), _name(y))
        call = _call(f"call {op}", place, *sides) if op in _CHOICE else _call(op, *sides, place)
        return ast.IfExp(test, result, call, **_AT)


def _operator(op: str, parts: list[ast.expr], place: ast.expr) -> ast.expr:
    if op in ("&&", "||"):
        truths = [_call("truth", part, _constant(op), place) for part in parts]
        return ast.BoolOp(ast.And() if op == "&&" else ast.Or(), truths, **_AT)
    if op == "?":
        return ast.IfExp(_call("truth", parts[0], _constant(op), place), parts[1], parts[2], **_AT)
    if op == "??":
        return _call(op, _name("env"), *map(_function, parts))
    if op == "list":
        return ast.Tuple(parts, ast.Load(), **_AT)
    return _call(op, place, *parts) if op.startswith("prefix") else _call(op, *parts, place)


def _finite(value: ast.expr) -> ast.expr:
    return ast.Compare(_constant(-MAX_FLOAT), [ast.LtE(), ast.LtE()], [value, _constant(MAX_FLOAT)], **_AT)


def _constant(value: Any) -> ast.expr:
    return ast.Constant(value, **_AT)


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load(), **_AT)


def _assign(name: str, value: ast.expr) -> ast.expr:
    return ast.NamedExpr(ast.Name(name, ast.Store(), **_AT), value, **_AT)


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(_name(name), list(args), [], **_AT)


def _function(body: ast.expr) -> ast.expr:
    """Return `lambda env: body`."""
    return ast.Lambda(ast.arguments([], [ast.arg("env", **_AT)], None, [], [], None, []), body, **_AT)


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return a test for a pattern with * and ?, in time linear in the text: fnmatch does not try a part twice."""
    match = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match
    return lambda text: match(text) is not None
