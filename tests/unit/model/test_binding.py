"""Which requirements a manager is handed in its own words, and which are kept by the allowed hosts."""

from __future__ import annotations

import pytest

from rainbow_sched.model.binding import NodeRules, is_passed_on, is_passed_on_fully
from rainbow_sched.model.request import Equals, Requirement, Within

RULES = NodeRules(hosts=True, subsystems=frozenset({"features"}))
NAMED = Equals("name", "avx2")


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("features", (NAMED,)), True),
        (Requirement("features", (NAMED, Equals("default", True))), True),
        (Requirement("io", (NAMED,)), False),
        (Requirement("features", (Equals("default", True),)), False),  # nothing that a manager could be told
        (Requirement("features", (NAMED, Within("level", min=2))), False),
        (Requirement("features", (NAMED,), below=(Requirement("features", (NAMED,)),)), False),
    ],
)
def test_only_what_is_named_by_equality_is_passed_on(requirement: Requirement, expected: bool):
    assert is_passed_on(requirement, RULES) is expected
    assert not is_passed_on(requirement, NodeRules())


def test_a_name_with_something_else_is_passed_on_and_does_not_say_all():
    assert is_passed_on_fully(Requirement("features", (NAMED,)), RULES)
    both = Requirement("features", (NAMED, Equals("level", 3)))
    assert is_passed_on(both, RULES)
    assert not is_passed_on_fully(both, RULES)
    assert not is_passed_on_fully(Requirement("io", (NAMED,)), RULES)
