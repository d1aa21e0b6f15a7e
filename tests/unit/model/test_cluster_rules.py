"""A cluster's rules: what they admit, what they refuse and in which words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.model.cluster_rules import ClusterRules, requested_nodes, short_duration
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Count, Group, Level, Request

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


CORE = Level(type="core")


def a_job(nodes: int, duration: float | None = None) -> Request:
    return asking(Level(type="node", count=Count(nodes), inside=(CORE,)), duration)


def asking(level: Level, duration: float | None = None) -> Request:
    return Request(groups=(Group(levels=(level,)),), duration=duration)


@pytest.mark.parametrize(
    ("level", "nodes"),
    [
        (Level(type="node", count=Count(3), inside=(CORE,)), 3),
        (Level(type="node", count=Count(1, 100), inside=(CORE,)), 100),
        (Level(type="node", count=Count(1, None), inside=(CORE,)), float("inf")),
        (Level(type="node", count=Count(64), shared=True, inside=(CORE,)), 4),
        (Level(type="node", count=Count(10), shared=True, inside=(Level(type="core", count=Count(9)),)), 10),
        (Level(type="node", count=Count(10), shared=True, inside=(Level(type="gpu"),)), 1),
        (Level(type="core", count=Count(40)), 3),
        (Level(type="slot", count=Count(40), inside=(Level(type="core", count=Count(2)),)), 5),
        (Level(type="rack", count=Count(2), inside=(Level(type="node", count=Count(3), inside=(CORE,)),)), 6),
        (Level(type="gpu", count=Count(9)), 1),
    ],
)
def test_nodes_are_counted_however_they_are_asked_for(level: Level, nodes: float) -> None:
    assert requested_nodes(asking(level), 16.0) == nodes


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
    why = rules.refuses(a_job(nodes, duration), per_node=4.0, signed=signed, queued=queued)
    assert (why is not None) == any(broken)
    if why is not None:
        assert (why[0] is Fit.NEVER) == any(broken[:3])


def test_a_refusal_says_what_is_allowed_and_what_is_asked() -> None:
    rules = ClusterRules(max_nodes=4, max_time=7200.0, max_queued=10)
    said = [
        rules.refuses(a_job(8, 60.0), per_node=4.0, signed=False, queued=0),
        rules.refuses(a_job(4, 10_800.0), per_node=4.0, signed=False, queued=0),
        rules.refuses(a_job(4), per_node=4.0, signed=False, queued=0),
        rules.refuses(a_job(4, 60.0), per_node=4.0, signed=False, queued=10),
    ]
    assert [why for _, why in filter(None, said)] == [
        "allows at most 4 nodes per job; this job asks for 8",
        "allows at most 2h per job; this job asks for 3h",
        "allows at most 2h per job; this job has no time limit (-t)",
        "allows at most 10 jobs per user at a time; its owner has 10",
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
    assert short_duration(seconds) == text
