"""Counts, requests, terms, amounts, names, state and credentials: what cannot be meant cannot be built."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.model.cluster import checked_state, cluster_name
from rainbow_sched.model.credential import Credential, CredentialKind, compose, id_of
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import Delivery, Terms
from rainbow_sched.model.quantities import human_bytes, in_bytes, parse_bytes
from rainbow_sched.model.request import Count, Group, Level, Request, Requirement, Task, Within

CORE = Level(type="core")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, -3), (4, 2), (2**50, None), (1, 2**50)])
def test_a_count_is_positive_and_in_order(low: int, high: int | None) -> None:
    with pytest.raises(Invalid):
        Count(low, high)


def test_a_count_without_a_maximum_is_one_number() -> None:
    assert Count(4).max == 4
    assert Count(4).exact
    assert not Count(4, None).exact


def test_requests_are_bounded_in_depth_and_size() -> None:
    deep = CORE
    for _ in range(40):
        deep = Level(type="x", inside=(deep,))
    with pytest.raises(Invalid):
        Request(groups=(Group(levels=(deep,)),))
    with pytest.raises(Invalid):
        Request(groups=(Group(levels=(CORE,) * 2000),))
    with pytest.raises(Invalid):
        Request(groups=())
    for duration in (0, -1, float("nan"), float("inf")):
        with pytest.raises(Invalid):
            Request(groups=(Group(levels=(CORE,)),), duration=duration)


def test_parts_that_say_nothing_are_refused() -> None:
    for make in (
        lambda: Level(type=""),
        lambda: Level(type="node", shared=True),
        lambda: Group(levels=()),
        lambda: Requirement("io"),
        lambda: Requirement("", (Within("a", min=1),)),
        lambda: Within("a"),
        Task,
        lambda: Task(command=("a",), script="b"),
    ):
        with pytest.raises(Invalid):
            make()


@pytest.mark.parametrize(
    "values",
    [
        {"priority": 10**9},
        {"retries": -1},
        {"retries": 101},
        {"reruns": -1},
        {"reruns": 101},
        {"prefer": "fun"},
        {"max_cost": -1.0},
    ],
)
def test_terms_out_of_bounds_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        Terms(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "delivery", "reruns", "runs"),
    [
        ({}, Delivery.AT_MOST_ONCE, 0, 1),
        ({"retries": 2}, Delivery.AT_MOST_ONCE, 0, 3),
        ({"reruns": 2}, Delivery.AT_LEAST_ONCE, 2, 3),
        ({"delivery": Delivery.AT_LEAST_ONCE}, Delivery.AT_LEAST_ONCE, 3, 4),
        ({"delivery": Delivery.AT_LEAST_ONCE, "retries": 2, "reruns": 1}, Delivery.AT_LEAST_ONCE, 1, 4),
    ],
)
def test_a_job_is_at_least_once_exactly_if_it_has_reruns(
    values: dict[str, object], delivery: Delivery, reruns: int, runs: int
) -> None:
    terms = Terms(**values)  # type: ignore[arg-type]
    assert (terms.delivery, terms.reruns, terms.runs) == (delivery, reruns, runs)


@given(st.integers(1, 10**15), st.sampled_from(["B", "KB", "MiB", "G", "TB", "kib"]))
def test_amounts_are_read_as_they_are_written(amount: int, unit: str) -> None:
    assert parse_bytes(f"{amount}{unit}") == in_bytes(amount, unit)


@given(st.from_regex(r"[0-9]{1,18}(\.[0-9]{1,9})?", fullmatch=True), st.sampled_from(["B", "KB", "MiB", "G", "EB"]))
def test_amounts_with_decimals_are_rounded_up(number: str, unit: str) -> None:
    assert parse_bytes(f"{number}{unit}") == math.ceil(Fraction(number) * parse_bytes(f"1{unit}"))


def test_amounts_round_up_and_print_short() -> None:
    assert parse_bytes("1.5G") == 3 * 2**29
    assert parse_bytes("100") == 100_000_000
    assert human_bytes(2**34) == "16GiB"
    assert human_bytes(2**30 + 1) == "1.0GiB"
    for text in ("", "G", "-1G", "1e9", "4 cores", "9" * 40):
        with pytest.raises(Invalid):
            parse_bytes(text)


@pytest.mark.parametrize("name", ["", ".", "-a", "a-", "a b", "a/b", "%", "ä", "a\n", "a" * 129])
def test_names_that_cannot_be_typed_or_shown_are_refused(name: str) -> None:
    with pytest.raises(Invalid):
        cluster_name(name)


def test_state_keeps_plain_values_only() -> None:
    plain = {"a": 1, "b": 2.5, "c": "x", "d": True, "e": None, "f": [1, "x"]}
    assert checked_state(plain) == plain
    for value in (float("nan"), float("inf"), {"x": 1}, [[1]], "x" * 5000, 2**70):
        with pytest.raises(Invalid):
            checked_state({"a": value})


def test_a_credential_is_recognised_by_its_id_and_only_by_its_whole_text() -> None:
    text = compose(CredentialKind.USER, "abcdefghijkl", "S" * 43)
    assert id_of(text) == "abcdefghijkl"
    for odd in ("", "rbw_usr_abc_x", text + "x", " " + text, text.replace("usr", "USR")):
        assert id_of(odd) is None


def test_scopes_that_mean_nothing_are_refused() -> None:
    for scope in ("", "root", "submit", "submit:", "job:read", "job:write:all", "agent:a b"):
        with pytest.raises(Invalid):
            Credential(id="a" * 12, kind=CredentialKind.USER, digest=b"", owner="ana", scopes=(scope,), created_at=0.0)
