"""A cluster's rules: what they admit, what they refuse and in which words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow.model.candidate import Demand
from rainbow.model.errors import Invalid
from rainbow.model.match import Fit
from rainbow.model.rules import ClusterRules, span

NAMES = st.frozensets(st.sampled_from(["ana", "bob", "lab", "submitter:west"]), max_size=3)
RULES = st.builds(
    ClusterRules,
    users=NAMES,
    groups=NAMES,
    max_nodes=st.none() | st.integers(1, 9),
    max_time=st.none() | st.floats(1, 1e6),
    max_queued=st.none() | st.integers(1, 9),
    signed=st.booleans(),
)


@given(RULES)
def test_rules_read_back_as_they_were_written(rules: ClusterRules) -> None:
    assert ClusterRules.of(json.loads(json.dumps(rules.to_json()))) == rules


@given(RULES, st.sampled_from(["ana", "bob", "eve", ""]), NAMES)
def test_whoever_is_named_or_in_a_named_group_is_admitted_and_nobody_else(
    rules: ClusterRules, owner: str, groups: frozenset[str]
) -> None:
    named = owner in rules.users or bool(groups & rules.groups)
    assert rules.admits(owner, groups) == (named or not (rules.users or rules.groups))


@given(RULES, st.integers(1, 12), st.none() | st.floats(1, 1e6), st.booleans(), st.integers(0, 12))
def test_a_job_is_refused_if_and_only_if_it_breaks_a_rule(
    rules: ClusterRules, nodes: int, duration: float | None, signed: bool, queued: int
) -> None:
    broken = [
        rules.max_nodes is not None and nodes > rules.max_nodes,
        rules.max_time is not None and (duration is None or duration > rules.max_time),
        rules.signed and not signed,
        rules.max_queued is not None and queued + 1 > rules.max_queued,
    ]
    why = rules.refuses(Demand(nodes=nodes, duration=duration), signed=signed, queued=queued)
    assert (why is not None) == any(broken)
    if why is not None:
        assert (why[0] is Fit.NEVER) == any(broken[:3])


def test_a_refusal_says_what_is_allowed_and_what_is_asked() -> None:
    rules = ClusterRules(max_nodes=4, max_time=7200.0, max_queued=10)
    said = [
        rules.refuses(Demand(nodes=8, duration=60.0), signed=False, queued=0),
        rules.refuses(Demand(nodes=4, duration=10_800.0), signed=False, queued=0),
        rules.refuses(Demand(nodes=4), signed=False, queued=0),
        rules.refuses(Demand(nodes=4, duration=60.0), signed=False, queued=10),
    ]
    assert [why for _, why in filter(None, said)] == [
        "allows at most 4 nodes per job; this job asks 8",
        "allows at most 2h per job; this job asks 3h",
        "allows at most 2h per job; this job does not say how long it takes (-t)",
        "allows at most 10 jobs of one user at a time; its owner has 10",
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"max_nodes": 0}, {"max_time": -1.0}, {"max_queued": 10**10}, {"users": frozenset({"a b"})},
     {"groups": frozenset({"x" * 70})}, {"users": frozenset(map(str, range(2000)))}, {"max_time": float("nan")}],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        ClusterRules(**wrong)


@pytest.mark.parametrize(
    ("seconds", "text"), [(7200, "2h"), (5400, "1.5h"), (1800, "30m"), (90, "1.5m"), (45, "45s"), (86_400, "1d")]
)
def test_a_time_is_written_as_people_write_it(seconds: float, text: str) -> None:
    assert span(seconds) == text
