"""Scopes: covering and sharing agree with writing every name out."""

from __future__ import annotations

import fnmatch
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.credential import covers, expand, intersect

NAMES = ["".join(signs) for size in range(1, 5) for signs in itertools.product("ab", repeat=size)]
patterns = st.text("ab*?", min_size=1, max_size=4)


def opened(pattern: str) -> set[str]:
    """Every short name that a pattern stands for."""
    return {name for name in NAMES if fnmatch.fnmatchcase(name, pattern)}


@given(wide=patterns, narrow=patterns)
@settings(max_examples=400)
def test_a_scope_that_covers_another_opens_all_of_it(wide: str, narrow: str) -> None:
    if covers(f"submit:{wide}", f"submit:{narrow}"):
        assert opened(narrow) <= opened(wide)


@given(wide=patterns, name=st.sampled_from(NAMES))
@settings(max_examples=200)
def test_a_pattern_covers_exactly_the_names_it_stands_for(wide: str, name: str) -> None:
    assert covers(f"submit:{wide}", f"submit:{name}") == (name in opened(wide))


@given(one=st.lists(patterns, max_size=3), other=st.lists(patterns, max_size=3))
@settings(max_examples=300)
def test_what_two_sets_share_is_never_more_than_either_opens(one: list[str], other: list[str]) -> None:
    shared = intersect([f"submit:{p}" for p in one], [f"submit:{p}" for p in other])
    found = set().union(*(opened(scope.partition(":")[2]) for scope in shared))
    assert found <= set().union(*map(opened, one)) & set().union(*map(opened, other))


def test_a_star_is_not_one_letter() -> None:
    assert not covers("submit:?", "submit:*")
    assert not covers("submit:a?", "submit:a*")


def test_verbs_do_not_mix_and_reaches_are_ordered() -> None:
    assert not covers("submit:*", "agent:a")
    assert not covers("job:read:all", "job:cancel:own")
    assert covers("job:read:group", "job:read:own")
    assert not covers("job:read:own", "job:read:group")
    assert covers("admin", "register:*")
    assert not covers("submit:*", "admin")


def test_only_an_administrator_s_token_is_an_administrator() -> None:
    assert intersect(["admin"], ["submit:*", "job:read:own"]) == {"submit:*", "job:read:own"}
    assert "admin" in intersect(["admin"], ["admin"])


def test_an_unknown_group_opens_nothing() -> None:
    assert expand(["submit:@lab", "job:read:own"], {}) == {"job:read:own"}
    assert expand(["submit:@lab"], {"lab": ["x", "y"]}) == {"submit:x", "submit:y"}
