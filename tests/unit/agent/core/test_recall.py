"""An agent keeps how far the server's database had come, and tells a restored server everything it knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import compacted, last_mark, restored
from rainbow_sched.agent.core.mailbox import report_of_end
from rainbow_sched.agent.core.reactor import react
from rainbow_sched.agent.core.state import MAX_PAST_ATTEMPTS, AgentState
from rainbow_sched.agent.core.values import LocalAttempt, PastAttempt, Phase, Result, Update
from rainbow_sched.agent.runtime.journal import line, parse
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import request_from_proto, request_to_proto
from rainbow_sched.protocol.messages import AttemptRef, Offer, RecalledOffer, Report, SyncAnswer, SyncRequest
from tests.unit.agent.core.test_reactor import DONE, OFFER, REF, Story


def test_the_newest_mark_is_shown_in_every_message_and_kept_by_the_journal() -> None:
    story = Story()
    story.tell(e.Started())
    assert story.message().mark == ""
    story.answer(offers=(OFFER,), mark="1.a.5.seal")
    assert story.message().mark == "1.a.5.seal"
    story.tell(e.OfferChecked(OFFER, None))
    story.tell(e.RecordStored(REF, "offer"))
    story.answer(confirms=(REF,), mark="1.a.6.seal")
    story.tell(e.RecordStored(REF, "intent"))
    story.answer()  # an answer without a mark takes nothing away
    assert story.state.mark == "1.a.6.seal"
    records = [command.record for command in story.all(e.WriteJournal)]
    assert [record.get("mark") for record in records] == ["1.a.5.seal", "1.a.6.seal"], "before it is submitted"
    assert last_mark(records) == "1.a.6.seal"
    kept, _ = parse(b"".join(map(line, compacted(story.state.attempts.values(), {}, story.state.mark))), "journal")
    assert last_mark(kept) == "1.a.6.seal"
    assert restored(kept) == restored(records)


def test_a_journal_of_an_older_agent_has_no_mark() -> None:
    story = Story().submitted()
    records = [command.record for command in story.all(e.WriteJournal)]
    assert last_mark(records) == ""
    assert all("mark" not in record for record in records), "nor has one that speaks with an older server"


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        (Phase.OFFERED, "accepted"),
        (Phase.ACCEPTED, "accepted"),
        (Phase.CONFIRMED, "confirmed"),
        (Phase.INTENT, "confirmed"),
        (Phase.SUBMITTED, "confirmed"),
        (Phase.RUNNING, "confirmed"),
    ],
)
def test_everything_that_is_held_is_told_with_its_offer(phase: Phase, told: str) -> None:
    story = Story(AgentState(attempts={REF: LocalAttempt(offer=OFFER, phase=phase)}))
    story.tell(e.Started())
    assert story.message().recall is None
    story.answer(resync=True, recall=True)
    recall = story.message().recall
    assert recall is not None
    assert [(one.ref, one.phase, one.offer) for one in recall.attempts] == [
        (REF, told, RecalledOffer(name="", owner="", spec="{}", terms="{}"))
    ]
    assert recall.complete


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.FINISHED])
def test_an_end_is_told_whether_it_is_still_held_or_only_remembered(phase: Phase) -> None:
    other, never = AttemptRef(8, 2, "t8"), AttemptRef(9, 1, "t9")
    past = {
        other: PastAttempt(result=Result(state=AttemptState.CANCELLED)),
        never: PastAttempt(reason="not confirmed in time"),
    }
    attempt = LocalAttempt(offer=OFFER, phase=phase, result=DONE, nodes="n1")
    story = Story(AgentState(attempts={REF: attempt}, past=past))
    story.tell(e.Started())
    story.answer(resync=True, recall=True)
    recall = story.message().recall
    assert recall is not None
    told = {one.ref: one for one in recall.attempts}
    assert {ref: one.phase for ref, one in told.items()} == {REF: "ended", other: "ended", never: "never"}
    assert told[REF].report == replace(report_of_end(REF, DONE), nodes="n1")
    assert told[other].report == Report(ref=other, state=AttemptState.CANCELLED)


def test_an_attempt_that_was_adopted_by_its_tag_is_told_without_an_offer() -> None:
    story = Story(AgentState(attempts={REF: LocalAttempt(offer=Offer(ref=REF), phase=Phase.RUNNING)}))
    story.tell(e.Started())
    story.answer(resync=True, recall=True)
    recall = story.message().recall
    assert recall is not None
    assert [one.offer for one in recall.attempts] == [None]


def test_nothing_of_a_message_counts_as_told_when_the_server_asks_for_everything() -> None:
    story = Story().running()
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=DONE),)))
    story.tell(e.RecordStored(REF, "end"))
    assert story.message().reports
    story.answer(resync=True, recall=True)
    again = story.message()
    assert again.recall is not None
    assert again.reports, "the report is told again"
    assert again.wait == 0.0
    story.answer(resync=True, recall=True)  # it was not taken: the whole answer was lost, say
    story.tell(e.Tick(), after=2.0)
    assert story.message().recall is not None
    story.answer(acked=(REF,))
    story.tell(e.Tick(), after=30.0)
    assert not story.state.recalling, "it was taken"
    assert REF not in story.state.attempts


def test_an_agent_that_has_forgotten_some_says_so() -> None:
    past = {AttemptRef(n, 1, f"t{n}"): PastAttempt(result=DONE) for n in range(MAX_PAST_ATTEMPTS)}
    story = Story(AgentState(past=past))
    story.tell(e.Started())
    story.answer(resync=True, recall=True)
    recall = story.message().recall
    assert recall is not None
    assert not recall.complete


def test_an_expected_attempt_that_is_over_is_told_as_ended() -> None:
    """As the server expects it, it is reported as well: the answer to a restored server is the same in both ways."""
    story = Story(AgentState(past={REF: PastAttempt(result=DONE)}))
    story.tell(e.Started())
    story.answer(resync=True, recall=True, expected=(REF,))
    assert [report.ref for report in story.message().reports] == [REF]
    assert story.all(e.Submit) == []


def test_a_remembered_end_that_a_restored_server_does_not_understand_is_kept_until_one_does() -> None:
    story = Story(AgentState(past={REF: PastAttempt(result=DONE)}))
    story.tell(e.Started())
    story.answer(resync=True, recall=True, server="a")
    assert story.message().recall is not None
    story.answer(unknown=(REF,), server="a")
    assert [report.ref for report in story.message().reports] == [REF], "it is held again"
    story.answer(unknown=(REF,), server="a")
    story.tell(e.Tick(), after=30.0)
    assert story.message().reports == ()
    story.answer(server="b")
    assert [report.ref for report in story.message().reports] == [REF]
    story.answer(acked=(REF,), server="b")
    assert REF not in story.state.attempts


def test_everything_that_is_told_arrives_as_it_was() -> None:
    held = LocalAttempt(
        offer=replace(OFFER, name="n", owner="ana", spec="{}", terms='{"labels":{}}'), phase=Phase.RUNNING
    )
    ended, never = AttemptRef(8, 2, "t8"), AttemptRef(9, 1, "t9")
    state = AgentState(
        attempts={REF: held}, past={ended: PastAttempt(result=DONE), never: PastAttempt(reason="no")}, mark="1.a.6.seal"
    )
    state, _ = react(state, e.Started(), 1.0)
    assert state.in_flight is not None
    state, commands = react(state, e.SyncAnswered(SyncAnswer(ack=state.in_flight.seq, resync=True, recall=True)), 2.0)
    [sent] = [command.message for command in commands if isinstance(command, e.SendSync)]
    request = SyncRequest(message=sent, cluster="east", epoch="e.1", recalls=True)
    told = request_from_proto(agents_pb2.SyncRequest.FromString(request_to_proto(request).SerializeToString())).message
    assert told.mark == "1.a.6.seal"
    assert told.recall is not None
    by_ref = {(one.ref.job, one.ref.n, one.ref.token): one for one in told.recall.attempts}
    offer = by_ref[7, 1, "token"].offer
    assert offer is not None
    assert (offer.name, offer.owner, offer.spec, offer.terms) == ("n", "ana", "{}", '{"labels":{}}')
    assert by_ref[8, 2, "t8"].phase == "ended"
    assert by_ref[8, 2, "t8"].report is not None
    assert by_ref[9, 1, "t9"].phase == "never"
