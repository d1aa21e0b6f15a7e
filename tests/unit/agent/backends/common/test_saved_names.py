"""Which nodes are reported as up, and which finished jobs are remembered."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common.saved_names import FinishedTags, MarkedNodes

NODES = ("n1", "n2", "n3")
states = st.dictionaries(st.sampled_from([*NODES, "gone"]), st.sampled_from(["down", "drained"]))


@given(reports=st.lists(st.tuples(states, st.booleans()), max_size=8))
def test_up_is_reported_only_of_nodes_that_were_not(tmp_path_factory, reports):
    """The second value of a report: the agent has restarted before it."""
    path: Path = tmp_path_factory.mktemp("marks") / "marked.json"
    marked, before = MarkedNodes(path), set()
    for not_up, restarted in reports:
        if restarted:
            marked = MarkedNodes(path)
        before |= not_up.keys() & set(NODES)
        assert marked.report(not_up, NODES) == {name: not_up.get(name, "up") for name in NODES if name in before}


def test_the_oldest_go_while_the_agent_runs_and_a_restart_finds_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "forgotten"
    gone = FinishedTags(path, max_tags=10)
    for n in range(1_000):
        gone.add(f"rb-{n}-1")
        gone.add(f"rb-{n}-1")
        assert len(path.read_text().split()) <= 20
    assert all(f"rb-{n}-1" in gone for n in range(990, 1_000))
    again = FinishedTags(path, max_tags=10)
    again.read()
    assert path.read_text().split() == [f"rb-{n}-1" for n in range(1_000) if f"rb-{n}-1" in gone]
    assert all((f"rb-{n}-1" in again) is (f"rb-{n}-1" in gone) for n in range(1_000))


def test_a_first_start_finds_nothing(tmp_path: Path) -> None:
    gone = FinishedTags(tmp_path / "forgotten")
    gone.read()
    assert "rb-1-1" not in gone
