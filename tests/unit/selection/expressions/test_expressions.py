"""The expression language gives the results it documents, and invalid text gives an error with its position."""

from __future__ import annotations

import pytest

from rainbow_sched.selection.expressions import BadExpression, EvaluationError, MissingVariable, compile_expression

VARIABLES: dict[str, object] = {
    "nodes_free": 20,
    "cost": 3.5,
    "arch": "zen4",
    "gpu": True,
    "tags": ["fast", 7, None],
    "name-with-dash": 4,
    "labels.team": "red",
    "nothing": None,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 4 - 3", 3.0),
        ("2 ** 3 ** 2", 64.0),  # from left to right, as the prototype's engine
        ("-2 ** 2", 4.0),
        ("2 * -3", -6.0),
        ("7 % 3", 1.0),
        ("-7 % 3", -1.0),
        (".5 + 1e2 + 0x10", 116.5),
        ("nodes_free > 0 && cost <= 3.5", True),
        ("nodes_free > 0 || missing > 1", True),
        ("!(nodes_free == 20)", False),
        ("arch == 'zen4'", True),
        ('arch != "zen4"', False),
        ("arch < 'zen5'", True),
        ("1 == true", False),
        ("'1' == 1", False),
        ("nodes_free > 10 ? 'many' : 'few'", "many"),
        ("false ? 1 : true ? 2 : 3", 2.0),
        ("missing ?? 5", 5.0),
        ("nothing ?? missing ?? 6", 6.0),
        ("cost ?? missing", 3.5),
        ("(missing ?? 1) + 1", 2.0),
        ("arch IN ('zen3', 'zen4')", True),
        ("arch in ('zen3')", False),
        ("7 IN tags", True),
        ("'7' IN tags", False),
        ("[name-with-dash] + 1", 5.0),
        ("labels.team == 'red'", True),
        ("arch =~ 'zen*'", True),
        ("arch !~ 'zen?'", False),
        ("arch =~ 'ze'", False),
        ("6 & 3", 2.0),
        ("6 | 3", 7.0),
        ("6 ^ 3", 5.0),
        ("1 << 4 >> 2", 4.0),
        ("1 | 2 << 1", 5.0),
        ("1 << 1 + 1", 4.0),
        ("4 & 6 == 4", True),
        ("~0", -1.0),
        ("'n' + 1 + true", "n1true"),
        ("'it\\'s'", "it's"),
        ("min(3, 1, 2) + max(4) + abs(-2)", 7.0),
        ("ceil(1.2) + floor(1.8)", 3.0),
        ("round(2.5) + round(-2.5) + round(1.25, 1)", 1.3),
        ("gpu && !false", True),
    ],
)
def test_an_expression_has_the_documented_value(text: str, value: object) -> None:
    result = compile_expression(text)(VARIABLES)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "a value is missing"),
        ("1 +", 3, "a value is missing"),
        ("a > > b", 4, "expected a value, found '>'"),
        ("(1 + 2", 6, "expected ')'"),
        ("1 2", 2, "unexpected 2.0"),
        ("a = b", 2, "use == to compare"),
        ("'open", 0, "no closing quote"),
        ("[a", 0, "[name-with-dash]"),
        ("1a", 0, "not a number"),
        ("1e999", 0, "too large"),
        ("a ? 1", 5, "expected ':'"),
        ("sqrt(4)", 0, "there is no function 'sqrt'"),
        ("min()", 4, "expected a value"),
        ("abs(1, 2)", 0, "abs takes 1 values, not 2"),
        ("a =~ b", 5, "a pattern in quotes"),
        ("a; b", 1, "unexpected ';'"),
        ("x.__class__()", 0, "there is no function"),
    ],
)
def test_a_bad_expression_is_refused_with_a_caret_under_its_position(text: str, position: int, message: str) -> None:
    with pytest.raises(BadExpression) as caught:
        compile_expression(text)
    assert caught.value.position == position
    assert message in str(caught.value)
    assert str(caught.value).splitlines()[-1] == "  " + " " * position + "^"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("1e308 * 10", "too large"),
        ("1e308 + 1e308", "too large"),
        ("9 ** 9 ** 9 ** 9", "too large"),
        ("(0 - 1) ** 0.5", "is not a number"),
        ("0 ** -1", "is not a number"),
        ("1 + true", "takes numbers or texts"),
        ("arch * 2", "takes two numbers, not a text and a number"),
        ("arch > 1", "compares two numbers or two texts"),
        ("1 && true", "takes true or false, not a number"),
        ("cost ? 1 : 2", "takes true or false"),
        ("!1", "takes true or false"),
        ("-arch", "takes a number"),
        ("1.5 & 1", "whole numbers"),
        ("1 << 53", "0 to 52 places"),
        ("4 << 52", "must be below 2**53"),
        ("1 IN 1", "takes a list"),
        ("cost =~ 'a*'", "takes a text"),
        ("min(1, 'a')", "min takes numbers"),
        ("round(1, 99)", "0 to 15 digits"),
        ("tags + 'a'", "a list cannot be concatenated"),
    ],
)
def test_values_without_a_result_are_a_typed_error(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        compile_expression(text)(VARIABLES)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["missing + 1", "1 + missing", "nothing > 0", "min(missing)", "missing IN (1, 2)"])
def test_a_missing_variable_is_named(text: str) -> None:
    with pytest.raises(MissingVariable) as caught:
        compile_expression(text)(VARIABLES)
    assert caught.value.name in ("missing", "nothing")


def test_a_division_by_zero_is_not_hidden_by_a_default() -> None:
    with pytest.raises(EvaluationError):
        compile_expression("1 / 0 ?? 5")({})


def test_an_expression_lists_the_variables_it_reads() -> None:
    assert compile_expression("a + min(b, [c-d]) > 0 ? x.y : 'e'").names == {"a", "b", "c-d", "x.y"}


def test_numbers_that_are_not_finite_are_refused() -> None:
    for bad in (float("inf"), float("nan"), 10**400):
        with pytest.raises(EvaluationError, match="finite"):
            compile_expression("a > 0")({"a": bad})


def test_evaluating_leaves_the_variables_alone() -> None:
    before = {"a": 1, "b": [1, 2]}
    compile_expression("a + 1 IN b")(before)
    assert before == {"a": 1, "b": [1, 2]}
