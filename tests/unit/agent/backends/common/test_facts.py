"""How often facts are read, and which nodes are reported as up."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common.facts import CachedFacts, MarkedNodes
from rainbow_sched.agent.core.values import ClusterFacts
from rainbow_sched.model.errors import Unavailable

NODES = ("n1", "n2", "n3")
states = st.dictionaries(st.sampled_from([*NODES, "gone"]), st.sampled_from(["down", "drained"]))


async def test_facts_are_looked_for_once_per_interval_and_old_ones_stand_when_that_fails():
    now, looks = [0.0], []

    async def look() -> ClusterFacts:
        looks.append(now[0])
        if now[0] == 20.0:
            raise Unavailable("no")
        return ClusterFacts(manager="m", state={"at": now[0]})

    kept = CachedFacts("m", 10.0, lambda: now[0])
    seen = []
    for at in (0.0, 5.0, 10.0, 20.0, 21.0, 30.0):
        now[0] = at
        seen.append((await kept.get(look)).state["at"])
    assert (seen, looks) == ([0.0, 0.0, 10.0, 10.0, 10.0, 30.0], [0.0, 10.0, 20.0, 30.0])


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
