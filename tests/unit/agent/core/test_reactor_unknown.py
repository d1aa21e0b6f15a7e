"""What server and agent do not understand of each other stops nothing else."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.reactor import idle
from rainbow_sched.agent.core.state import AgentState
from rainbow_sched.agent.core.values import Phase, Result, Update
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.messages import AttemptRef, Offer, ServerCommand
from tests.unit.agent.core.test_reactor import DONE, REF, Story


def test_a_report_that_the_server_does_not_understand_waits_for_another_server() -> None:
    story = Story().running()
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=DONE),)))
    story.tell(e.RecordStored(REF, "end"))
    assert [report.ref for report in story.message().reports] == [REF]
    story.answer(unknown=(REF,), server="old")
    for _ in range(5):  # it is told of nothing else, and not told again and again
        story.answer(after=20.0, server="old")
        assert story.message().reports == ()
    assert REF in story.state.attempts, "the journal keeps it"
    assert idle(story.state), "an agent that is to leave when nothing is left to do leaves"
    story.answer(after=20.0, server="new")
    assert [report.ref for report in story.message().reports] == [REF]
    story.answer(acked=(REF,), server="new")
    assert REF not in story.state.attempts


def test_a_report_that_was_not_understood_is_told_again_after_a_start_of_the_agent() -> None:
    story = Story().running()
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=DONE),)))
    story.tell(e.RecordStored(REF, "end"))
    story.answer(unknown=(REF,), server="old")
    started = Story(AgentState(attempts={REF: replace(story.state.attempts[REF], unknown="", reported="")}))
    started.tell(e.Started())
    assert [report.ref for report in started.message().reports] == [REF]


def test_a_state_that_is_not_understood_does_not_keep_the_next_one_from_being_told() -> None:
    story = Story().submitted()
    assert [report.state for report in story.message().reports] == ["submitted"]
    story.answer(unknown=(REF,), server="old")
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.RUNNING, native="n1"),)))
    while story.state.in_flight is not None and story.state.in_flight.wait == 0 and not story.message().reports:
        story.answer(server="old")
    assert [report.state for report in story.message().reports] == ["running"]


def test_when_nobody_counts_on_an_attempt_whose_report_was_not_understood_it_is_forgotten() -> None:
    story = Story().running()
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=DONE),)))
    story.tell(e.RecordStored(REF, "end"))
    story.answer(unknown=(REF,), server="old")
    story.answer(after=20.0, commands=(ServerCommand(0, "kill", REF),), server="old")
    assert REF not in story.state.attempts


def test_a_command_that_the_agent_does_not_know_does_nothing_and_stops_nothing() -> None:
    story = Story().running()
    strange = ServerCommand(9, "suspend", REF)
    other = Offer(ref=AttemptRef(8, 1, "t8"), spec="{}")
    told = story.answer(commands=(strange,), offers=(other,), heartbeat=30.0)
    assert e.CheckOffer(other) in told, "the rest of the answer is taken"
    assert not story.all(e.Cancel)
    sent = len(story.all(e.SendSync))
    for _ in range(40):  # it comes again with every answer, and is not asked for in a hurry
        if story.state.in_flight is None:
            story.tell(e.Tick(), after=0.05)
        else:
            story.answer(after=0.01, commands=(strange,))
    assert all(9 not in message.message.acks for message in story.all(e.SendSync))
    assert len(story.all(e.SendSync)) - sent < 15


def test_an_acknowledgement_of_output_before_its_beginning_is_left_out() -> None:
    story = Story().running()
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.RUNNING, native="n1", sizes=(5, 0)),)))
    story.answer(output_acks=((REF, "stdout", -1), (REF, "stdlog", 3)))
    assert story.state.attempts[REF].sent == (0, 0)


def test_a_return_is_not_told_to_a_server_that_would_refuse_the_whole_message_for_it() -> None:
    story = Story().submitted()
    back = Result(state=AttemptState.RETURNED, reason="the machine changed")
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=back),)))
    story.tell(e.RecordStored(REF, "end"))
    for _ in range(3):
        story.answer(after=20.0)  # an older server does not say which process it is
        assert all(report.state != "returned" for report in story.message().reports)
    assert [ref for ref, _ in story.message().held] == [REF]
    story.answer(after=20.0, server="new")
    assert [report.state for report in story.message().reports] == ["returned"]
