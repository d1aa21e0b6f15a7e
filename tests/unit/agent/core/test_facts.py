"""What an agent says of its cluster: at once when it changes, and not more than once a second."""

from __future__ import annotations

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.reactor import due
from rainbow_sched.agent.core.values import ClusterFacts
from tests.unit.agent.core.test_reactor import Story


def test_facts_are_sent_when_they_change():
    story = Story()
    story.tell(e.Started())
    story.tell(e.BackendUpdated((), ClusterFacts(manager="local", state={"cores_free": 2})))
    story.answer()
    assert story.message().facts.state == {"cores_free": 2}
    story.answer()
    assert story.message().facts is None


def a_waiting_agent() -> Story:
    """Its facts are told, and one message waits for news."""
    story = Story()
    story.tell(e.Started())
    story.tell(e.BackendUpdated((), facts(4)))
    while story.state.in_flight is None or story.state.in_flight.wait == 0:
        story.answer(after=2.0)
    return story


def facts(free: int) -> ClusterFacts:
    return ClusterFacts(manager="slurm", state={"nodes_free": free}, marks={"n1": "up" if free == 4 else "down"})


def test_an_idle_agent_tells_at_once_that_a_node_went_down():
    story = a_waiting_agent()
    waiting = story.state.in_flight.seq
    [sent] = story.tell(e.BackendUpdated((), facts(3)), after=3.0)
    assert (sent.message.facts, sent.message.wait) == (facts(3), 0.0)
    assert story.state.listening == waiting, "the call that waits may still bring an offer"
    story.answer()
    assert story.state.facts_reported == facts(3)
    assert story.tell(e.BackendUpdated((), facts(3)), after=3.0) == [], "the same again is no news"


def test_facts_that_flutter_are_told_once_a_second_and_the_last_one_is():
    story = a_waiting_agent()
    begun, sent = story.now, 0
    for step in range(1, 41):
        sent += len(story.tell(e.BackendUpdated((), facts(step % 4)), after=0.1))
        if story.state.in_flight is not None and story.state.in_flight.wait == 0:
            story.answer(after=0.0)
    assert sent <= story.now - begun + 1
    while story.state.facts_reported != facts(0):
        story.tell(e.Tick(), after=max(0.0, due(story.state, story.now) - story.now))
        if story.state.in_flight is not None:
            story.answer(after=0.0)
    assert story.now <= begun + 4.0 + 1.1
