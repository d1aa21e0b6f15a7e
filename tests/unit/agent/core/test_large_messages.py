"""An agent with more to say than one message may hold says it in several, and forgets nothing."""

from __future__ import annotations

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.state import AgentLimits, AgentState
from rainbow_sched.agent.core.values import LocalAttempt, Phase, Result
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import request_from_proto, request_to_proto
from rainbow_sched.protocol.messages import MAX_ENTRIES, AttemptRef, Offer, SyncRequest
from rainbow_sched.server.admission.calls import MAX_BULK_MESSAGE_BYTES
from tests.unit.agent.core.test_reactor import DONE, Story

COUNT = 20_500


def message(story: Story) -> agents_pb2.SyncRequest:
    """The last message, as a server reads it."""
    sent = request_to_proto(SyncRequest(message=story.message(), cluster="east", epoch="e.1"))
    request_from_proto(sent)
    assert sent.ByteSize() < MAX_BULK_MESSAGE_BYTES
    assert len(sent.held) + len(sent.reports) + len(sent.accepts) + len(sent.rejects) <= MAX_ENTRIES
    return sent


def a_story(held: list[LocalAttempt]) -> Story:
    story = Story(AgentState(limits=AgentLimits(max_jobs=2 * COUNT), attempts={one.ref: one for one in held}))
    story.tell(e.Started())
    story.answer(resync=True)
    return story


def test_thousands_of_ends_are_reported_in_several_messages() -> None:
    ended = [
        LocalAttempt(offer=Offer(ref=AttemptRef(i, 1, f"t{i}")), phase=Phase.FINISHED, result=DONE)
        for i in range(COUNT)
    ]
    story = a_story(ended)
    for _ in range(2 * COUNT // 1_000):
        reports = message(story).reports
        if story.state.in_flight is None or not reports:
            break
        story.answer(acked=tuple(AttemptRef(r.attempt.job, r.attempt.n, r.attempt.token) for r in reports))
    assert story.state.attempts == {}, "every end was told, and the server has it"


def test_of_more_jobs_than_a_message_can_name_each_is_named_in_turn() -> None:
    many = MAX_ENTRIES + 5
    offers = (Offer(ref=AttemptRef(i, 1, f"t{i}")) for i in range(many))
    held = (LocalAttempt(offer=offer, phase=Phase.RUNNING, reported="running") for offer in offers)
    story = a_story(list(held))
    named: set[int] = set()
    for _ in range(5):
        named.update(held.attempt.job for held in message(story).held)
        if len(named) == many:
            return
        story.answer(after=25.0)
    raise AssertionError(f"{many - len(named)} jobs were never named")


def test_long_reasons_do_not_make_a_message_too_large_for_the_server() -> None:
    result = Result(state=AttemptState.FAILED, reason="cannot start " + "x" * 2_000_000)
    ended = [
        LocalAttempt(offer=Offer(ref=AttemptRef(i, 1, f"t{i}")), phase=Phase.FINISHED, result=result) for i in range(64)
    ]
    story = a_story(ended)
    assert len(message(story).reports) == 64
    assert message(story).reports[0].reason.startswith("cannot start")
