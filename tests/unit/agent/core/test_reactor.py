"""The reactor's promises one by one, each in the smallest history that shows it."""

from __future__ import annotations

import json
from dataclasses import replace

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.mailbox import RETRY_SECONDS
from rainbow_sched.agent.core.reactor import due, react
from rainbow_sched.agent.core.state import AgentLimits, AgentState
from rainbow_sched.agent.core.values import Absent, JobFound, LocalAttempt, PastAttempt, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.messages import (
    AttemptRef,
    BidAnswer,
    BidRequest,
    Offer,
    OutputPiece,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
)

REF = AttemptRef(7, 1, "token")
OFFER = Offer(ref=REF, spec="{}")
DONE = Result(state=AttemptState.SUCCEEDED, exit_code=0)
AGAIN = replace(OFFER, terms=json.dumps({"delivery": "at-least-once"}))


class Story:
    """A state that events move along, and every command they led to."""

    def __init__(self, state: AgentState | None = None) -> None:
        self.state = state or AgentState(limits=AgentLimits(max_jobs=4))
        self.now = 100.0
        self.commands: list[e.Command] = []

    def tell(self, event: e.AgentEvent, after: float = 0.0) -> list[e.Command]:
        self.now += after
        self.state, commands = react(self.state, event, self.now)
        self.commands += commands
        return list(commands)

    def answer(self, after: float = 0.1, **parts: object) -> list[e.Command]:
        """The server answers the message on its way, or else the one that waits."""
        ack = self.state.in_flight.seq if self.state.in_flight is not None else self.state.listening
        return self.tell(e.SyncAnswered(SyncAnswer(ack=ack, **parts)), after)

    def all(self, kind: type) -> list[e.Command]:
        return [command for command in self.commands if isinstance(command, kind)]

    def message(self) -> SyncMessage:
        return self.all(e.SendSync)[-1].message

    def submitted(self, offer: Offer = OFFER) -> Story:
        self.tell(e.Started())
        self.answer(offers=(offer,))
        self.tell(e.OfferChecked(offer, None))
        self.tell(e.RecordStored(REF, "offer"))
        self.answer(confirms=(REF,))
        self.tell(e.RecordStored(REF, "intent"))
        self.tell(e.SubmitAnswered(REF, "n1"))
        return self

    def running(self, offer: Offer = OFFER) -> Story:
        self.submitted(offer)
        self.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.RUNNING, native="n1"),)))
        while self.state.in_flight is None or self.state.in_flight.wait == 0:
            self.answer()  # all is told; one message waits for news
        return self


def holding(phase: Phase, offer: Offer = OFFER) -> AgentState:
    return AgentState(attempts={REF: LocalAttempt(offer=offer, phase=phase)})


def ended(state: AttemptState = AttemptState.SUCCEEDED) -> e.BackendUpdated:
    return e.BackendUpdated((Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=Result(state=state)),))


def test_a_job_walks_from_offer_to_running_with_the_journal_before_each_step():
    story = Story().running()
    assert [w.kind for w in story.all(e.WriteJournal)] == ["offer", "intent", "native"]
    assert story.all(e.Submit) == [e.Submit(OFFER)]
    assert story.state.attempts[REF].phase is Phase.RUNNING


def test_nothing_is_accepted_before_the_offer_is_on_disk():
    story = Story()
    story.tell(e.Started())
    story.answer(offers=(OFFER,))
    story.tell(e.OfferChecked(OFFER, None))
    assert story.message().accepts == ()
    story.answer()
    story.tell(e.RecordStored(REF, "offer"))
    assert story.message().accepts == (REF,)


def test_a_confirm_that_comes_again_launches_nothing():
    story = Story().running()
    story.answer(confirms=(REF,))
    story.answer(confirms=(REF,))
    assert len(story.all(e.Submit)) == 1


def test_a_confirm_for_an_attempt_that_is_over_launches_nothing():
    story = Story(AgentState(past={REF: PastAttempt(reason="withdrawn")}))
    story.tell(e.Started())
    story.answer(confirms=(REF,))
    assert story.all(e.Submit) == []


def test_an_intent_found_after_a_crash_is_looked_up_and_never_submitted_blindly():
    story = Story(holding(Phase.INTENT))
    assert e.Lookup(REF) in story.tell(e.Started())
    assert story.all(e.Submit) == []


def test_a_manager_that_cannot_be_asked_is_asked_again():
    story = Story(holding(Phase.INTENT))
    story.tell(e.Started())
    story.tell(e.LookedUp(REF, Unknown("busy")))
    assert story.state.attempts[REF].phase is Phase.INTENT
    assert due(story.state, story.now) <= story.now + 5
    assert e.Lookup(REF) in story.tell(e.Tick(), after=5)


def test_an_intent_without_a_record_in_the_manager_has_an_unknown_outcome():
    story = Story(holding(Phase.INTENT))
    story.tell(e.Started())
    story.tell(e.LookedUp(REF, Absent()))
    result = story.state.attempts[REF].result
    assert (result.state, result.failure) == (AttemptState.FAILED, "outcome-unknown")
    assert story.all(e.Submit) == []


def test_an_intent_that_the_manager_certainly_never_got_is_submitted_when_the_server_has_answered():
    story = Story(holding(Phase.INTENT))
    story.tell(e.Started())
    story.tell(e.LookedUp(REF, Absent(never=True)))
    assert story.all(e.Submit) == [], "the journal may be old"
    story.answer(resync=True)
    story.answer()
    assert due(story.state, story.now) <= story.now, "it need not wait any longer"
    assert e.Lookup(REF) in story.tell(e.Tick())
    story.tell(e.LookedUp(REF, Absent(never=True)))
    assert story.all(e.Submit) == [e.Submit(OFFER)]


def test_an_end_is_reported_in_every_message_until_the_server_has_stored_it():
    story = Story().running()
    story.tell(ended())
    assert story.message().reports == ()
    story.tell(e.RecordStored(REF, "end"))
    for _ in range(3):
        if story.state.in_flight is None:
            story.tell(e.Tick(), after=2)
        assert [r.state for r in story.message().reports if r.ends] == ["succeeded"]
        story.answer()
    story.tell(e.Tick(), after=2)
    story.answer(acked=(REF,))
    assert REF not in story.state.attempts
    assert e.Forget(REF) in story.commands


def test_an_agent_that_was_full_listens_again_as_soon_as_an_end_is_stored():
    story = Story(AgentState(limits=AgentLimits(max_jobs=1))).running()
    assert story.message().want == 0
    story.tell(ended())
    story.tell(e.RecordStored(REF, "end"))
    assert (story.message().reports[0].ref, story.message().want) == (REF, 1)
    story.answer(acked=(REF,))
    story.answer()  # the call that was open while it was full
    assert story.state.in_flight is not None
    assert (story.message().want, story.message().wait > 0) == (1, True)


def test_output_goes_out_with_or_before_the_end():
    story = Story().running()
    update = Update(tag=REF.tag, phase=Phase.ENDED, sizes=(5, 0), result=Result(state=AttemptState.SUCCEEDED))
    story.tell(e.BackendUpdated((update,)))
    story.tell(e.RecordStored(REF, "end"))
    assert not any(report.ends for message in story.all(e.SendSync) for report in message.message.reports)
    (read,) = story.all(e.ReadOutput)
    story.tell(e.OutputRead(OutputPiece(REF, "stdout", read.offset, b"hello")))
    assert [report.state for report in story.message().reports] == ["succeeded"]
    assert [chunk.data for chunk in story.message().output] == [b"hello"]


def test_output_that_cannot_be_read_is_asked_for_again_and_not_taken_for_gone():
    story = Story().running()
    update = Update(tag=REF.tag, phase=Phase.ENDED, sizes=(5, 0), result=Result(state=AttemptState.SUCCEEDED))
    story.tell(e.BackendUpdated((update,)))
    story.tell(e.RecordStored(REF, "end"))
    story.tell(e.OutputUnread(REF, "stdout"))
    story.tell(e.Tick(), after=RETRY_SECONDS / 2)
    assert len(story.all(e.ReadOutput)) == 1, "not at once"
    assert due(story.state, story.now) <= story.now + RETRY_SECONDS / 2
    story.tell(e.Tick(), after=RETRY_SECONDS / 2)
    assert len(story.all(e.ReadOutput)) == 2
    story.answer(acked=(REF,))
    assert REF in story.state.attempts, "its end is told, its output is not"
    story.tell(e.OutputRead(OutputPiece(REF, "stdout", 0, b"hello")))
    assert [chunk.data for chunk in story.message().output] == [b"hello"]


def test_an_end_does_not_wait_for_its_output_for_ever():
    story = Story().running()
    update = Update(tag=REF.tag, phase=Phase.ENDED, sizes=(5, 0), result=Result(state=AttemptState.SUCCEEDED))
    story.tell(e.BackendUpdated((update,)))
    story.tell(e.RecordStored(REF, "end"))
    story.tell(e.Tick(), after=AgentLimits().output_grace + 1)
    assert [report.state for report in story.message().reports] == ["succeeded"]


def test_a_waiting_call_stays_open_when_there_is_news_and_its_offers_still_count():
    story = Story().running()
    waiting = story.state.in_flight.seq
    story.tell(ended())
    story.tell(e.RecordStored(REF, "end"))
    assert story.message().seq == waiting + 1
    assert story.message().wait == 0
    other = replace(OFFER, ref=AttemptRef(8, 1, "t8"))
    story.tell(e.SyncAnswered(SyncAnswer(ack=waiting, offers=(other,))))
    assert e.CheckOffer(other) in story.commands


def test_the_first_message_is_never_left_waiting_for_its_answer_says_what_should_be_held():
    story = Story()
    story.tell(e.Started())
    assert story.message().wait == 0
    story.answer(resync=True)
    assert story.message().wait == 0
    story.answer()
    assert story.state.answered is not None


def test_a_lost_answer_is_asked_for_with_the_same_message():
    story = Story().submitted()
    sent = story.message()
    story.tell(e.SyncFailed(sent.seq, 3.0))
    assert story.tell(e.Tick(), after=2) == []
    story.tell(e.Tick(), after=1)
    assert story.message() == replace(sent, wait=0.0)


def test_a_cancel_is_written_down_before_it_is_acknowledged():
    story = Story().running()
    story.answer(commands=(ServerCommand(5, "cancel", REF),))
    assert e.Cancel(REF) in story.commands
    assert story.state.acks == ()
    story.tell(e.RecordStored(REF, "cancel"))
    assert story.state.acks == (5,)


def test_a_cancel_before_the_submission_is_acknowledged_when_the_end_is_on_disk():
    story = Story(holding(Phase.CONFIRMED))
    story.tell(e.Started())
    story.answer(commands=(ServerCommand(5, "cancel", REF),))
    assert story.state.acks == (), "a crash now would leave the intent alone on disk, and it would be submitted"
    story.tell(e.RecordStored(REF, "end"))
    assert story.state.acks == (5,)


def test_a_cancel_of_what_is_being_looked_for_is_not_acknowledged_before_it_is_found():
    story = Story()
    story.tell(e.Started())
    story.answer(resync=True, expected=(REF,), commands=(ServerCommand(5, "cancel", REF),))
    assert story.state.acks == ()
    story.tell(e.LookedUp(REF, JobFound(Update(tag=REF.tag, phase=Phase.RUNNING, native="n1"))))
    story.answer(after=2.0, commands=(ServerCommand(5, "cancel", REF),))
    assert e.Cancel(REF) in story.commands


def test_a_cancel_that_meets_a_submission_on_its_way_ends_the_job_once_it_is_there():
    story = Story(holding(Phase.INTENT))
    story.tell(e.Started())
    story.answer(commands=(ServerCommand(5, "cancel", REF),))
    story.tell(e.LookedUp(REF, Absent(never=True)))
    assert story.all(e.Submit) == []
    assert story.state.attempts[REF].result.state is AttemptState.CANCELLED


def test_what_the_server_does_not_count_on_is_killed_and_forgotten():
    story = Story().running()
    story.answer(commands=(ServerCommand(0, "kill", REF),))
    assert e.Cancel(REF) in story.commands
    assert story.state.acks == ()
    story.tell(ended(AttemptState.CANCELLED))
    story.tell(e.RecordStored(REF, "end"))
    while REF in story.state.attempts:
        story.answer()
    assert e.Forget(REF) in story.commands


def test_what_was_never_taken_is_given_back_after_a_note_in_the_journal():
    story = Story()
    story.tell(e.Started())
    story.answer(resync=True, expected=(REF,))
    assert e.Lookup(REF) in story.commands
    story.tell(e.LookedUp(REF, Absent()))
    assert story.message().rejects == ()
    story.tell(e.RecordStored(REF, "absent"))
    story.answer()
    assert [ref for ref, _ in story.message().rejects] == [REF]


def test_with_a_lost_journal_what_the_manager_does_not_know_may_have_run():
    story = Story(AgentState(fresh=True))
    story.tell(e.Started())
    story.answer(resync=True, expected=(REF,))
    story.tell(e.LookedUp(REF, Absent(never=True)))
    assert story.state.attempts[REF].result.failure == "outcome-unknown"


def test_an_end_that_a_restored_server_has_forgotten_is_told_again():
    result = Result(state=AttemptState.SUCCEEDED, exit_code=0)
    story = Story(AgentState(past={REF: PastAttempt(result=result)}))
    story.tell(e.Started())
    story.answer(resync=True, expected=(REF,))
    assert [(r.state, r.reason) for r in story.message().reports] == [(result.state, result.reason)]


def test_a_job_that_may_be_rerun_elsewhere_is_ended_when_contact_is_lost_for_too_long():
    once, again = Story().running(), Story().running(AGAIN)
    for story in (once, again):
        story.answer()
        story.tell(e.Tick(), after=AgentLimits().run_guard + 10)
    assert once.all(e.Cancel) == []
    assert again.all(e.Cancel) == [e.Cancel(REF)]
    again.tell(ended(AttemptState.CANCELLED))
    assert again.state.attempts[REF].result.state is AttemptState.PREEMPTED


def test_contact_that_is_lost_is_noticed_by_the_very_tick_that_was_due_for_it():
    story = Story().running(AGAIN)
    at = due(story.state, story.now)
    while at < story.state.contact_at + AgentLimits().run_guard:
        story.tell(e.Tick(), after=at - story.now)
        at = due(story.state, story.now)
    story.tell(e.Tick(), after=at - story.now)
    assert story.all(e.Cancel) == [e.Cancel(REF)]


def test_a_kill_that_comes_late_for_what_is_over_does_not_cost_its_output():
    story = Story().running()
    update = Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=DONE, sizes=(10, 0))
    story.tell(e.BackendUpdated((update,)))
    story.tell(e.RecordStored(REF, "end"))
    story.tell(e.Tick(), after=AgentLimits().output_grace)
    story.answer(acked=(REF,), commands=(ServerCommand(0, "kill", REF),))
    assert REF in story.state.attempts, "ten bytes are still to be sent"


def test_a_bid_request_is_asked_of_the_backend_once_however_often_it_comes():
    story = Story()
    story.tell(e.Started())
    question = BidRequest("b1", "{}", 2.0)
    story.answer(bid_requests=(question,))
    story.answer(bid_requests=(question,))
    assert story.all(e.AskBid) == [e.AskBid(question)]
    story.tell(e.BidReady("b1", BidAnswer(yes=True)))
    assert story.message().bids == (("b1", BidAnswer(yes=True)),)


def test_a_stopping_agent_says_that_it_wants_nothing_and_hands_offers_back():
    story = Story()
    story.tell(e.Started())
    story.answer()
    story.tell(e.StopAsked())
    assert (story.message().want, story.message().wait) == (0, 0.0)
    story.answer(offers=(OFFER,))
    assert story.state.rejects == {REF: "the agent is stopping"}


def test_no_more_is_wanted_than_there_is_room_for():
    story = Story(replace(holding(Phase.RUNNING), limits=AgentLimits(max_jobs=3)))
    story.tell(e.Started())
    assert story.message().want == 2


def test_a_server_that_answers_emptily_at_once_is_not_hammered():
    story = Story()
    story.tell(e.Started())
    for _ in range(200):
        if story.state.in_flight is not None:
            story.answer(after=0.001)
        else:
            story.tell(e.Tick(), after=max(0.0, due(story.state, story.now) - story.now))
    assert story.now > 150.0


def test_a_kill_that_comes_with_every_answer_is_not_asked_for_again_and_again():
    story = Story().running()
    kill = ServerCommand(0, "kill", REF)
    for _ in range(200):
        if story.state.in_flight is not None:
            story.answer(after=0.001, commands=(kill,))
        else:
            story.tell(e.Tick(), after=max(0.0, due(story.state, story.now) - story.now))
    assert story.now > 140.0
    assert len(story.all(e.WriteJournal)) == 4
