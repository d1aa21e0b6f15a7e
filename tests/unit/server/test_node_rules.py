"""What agents announce about nodes is read however much of it there is."""

from __future__ import annotations

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.server.handlers.agents import MAX_RULE_CHARACTERS, MAX_SUBSYSTEMS, sync_in


def announced(*subsystems: str) -> NodeRules | None:
    rules = agents_pb2.NodeRules(hosts=True, subsystems=subsystems, groups=True)
    return sync_in(agents_pb2.SyncRequest(cluster="east", epoch="e.1", seq=1, node_rules=rules)).node_rules


def test_an_agent_that_announces_nothing_is_told_from_one_that_announces_no_words() -> None:
    assert sync_in(agents_pb2.SyncRequest(cluster="east", epoch="e.1", seq=1)).node_rules is None
    assert announced() == NodeRules(hosts=True, groups=True)
    assert announced("gpu", "partition") == NodeRules(True, frozenset({"gpu", "partition"}), True)


def test_too_many_words_cost_no_sync() -> None:
    found = announced(*(f"s{number}" for number in range(1_000)), "x" * 100_000)
    assert found is not None
    assert len(found.subsystems) == MAX_SUBSYSTEMS


def test_why_a_manager_takes_one_group_is_read_as_one_short_line() -> None:
    rules = agents_pb2.NodeRules(hosts=True, merges=True, one_group="because\n  of " + "x" * 10_000)
    found = sync_in(agents_pb2.SyncRequest(cluster="east", epoch="e.1", seq=1, node_rules=rules)).node_rules
    assert found is not None
    assert found.one_group.startswith("because of x")
    assert len(found.one_group) <= MAX_RULE_CHARACTERS
    assert found.merges
    assert NodeRules.of(found.to_json()) == found
    assert NodeRules.of({"hosts": True, "subsystems": [], "groups": False}) == NodeRules(hosts=True)  # of older servers
