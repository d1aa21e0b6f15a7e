"""Runs that the server would give up are ended, or not begun, before it does so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.reactor import due
from rainbow_sched.agent.core.state import AgentLimits, AgentState
from rainbow_sched.agent.core.values import Absent, LocalAttempt, Phase
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.messages import ServerCommand
from tests.unit.agent.core.test_reactor import AGAIN, OFFER, REF, Story

GUARD = AgentLimits().run_guard
GIVEN_UP = replace(OFFER, terms=json.dumps({"delivery": "at-most-once", "lost_after": 600.0}))
PATIENT = replace(OFFER, terms=json.dumps({"delivery": "at-least-once", "lost_after": 86_400.0}))


@pytest.mark.parametrize(
    ("offer", "guard"), [(OFFER, None), (AGAIN, GUARD), (GIVEN_UP, 400.0), (PATIENT, GUARD)], ids=str
)
def test_a_guard_acts_well_before_the_server_gives_up(offer: object, guard: float | None) -> None:
    assert offer.guard(GUARD) == guard  # type: ignore[attr-defined]
    assert replace(offer, terms="not json").guard(GUARD) is None  # type: ignore[type-var]


def test_a_run_with_a_patience_of_its_own_is_ended_by_the_very_tick_that_was_due_for_it() -> None:
    story = Story().running(GIVEN_UP)
    contact = story.state.contact_at
    assert contact is not None
    while story.now < contact + 400.0:
        assert story.all(e.Cancel) == []
        at = due(story.state, story.now)
        assert at is not None
        story.tell(e.Tick(), after=at - story.now)
    assert story.now == pytest.approx(contact + 400.0)
    assert story.all(e.Cancel) == [e.Cancel(REF)]


@pytest.mark.parametrize("phase", [Phase.SUBMITTED, Phase.RUNNING])
def test_an_agent_that_was_dead_for_too_long_ends_such_a_run_at_its_start(phase: Phase) -> None:
    for offer, ends in ((OFFER, False), (AGAIN, True)):
        story = Story(AgentState(attempts={REF: LocalAttempt(offer=offer, phase=phase)}))
        story.tell(e.Started(story.now - GUARD - 1))
        assert bool(story.all(e.Cancel)) == ends


@pytest.mark.parametrize("heard", [None, 100.0 - GUARD - 1], ids=["never", "too long ago"])
def test_what_the_server_may_run_elsewhere_by_now_is_not_begun_but_handed_back(heard: float | None) -> None:
    for offer, begins in ((OFFER, True), (AGAIN, False)):
        story = Story(AgentState(attempts={REF: LocalAttempt(offer=offer, phase=Phase.INTENT)}))
        story.tell(e.Started(heard))
        story.tell(e.LookedUp(REF, Absent(never=True)))
        assert story.all(e.Submit) == []
        if begins:  # when the server has answered
            story.answer()
            story.tell(e.Tick())
            story.tell(e.LookedUp(REF, Absent(never=True)))
        assert bool(story.all(e.Submit)) == begins
        if not begins and heard is None:
            assert REF not in story.state.attempts
            assert REF in story.state.past
            assert [ref for ref, _ in story.state.rejects.items()] == [REF]


def test_an_intent_of_an_old_journal_that_the_server_does_not_want_any_more_is_not_submitted() -> None:
    story = Story(AgentState(attempts={REF: LocalAttempt(offer=OFFER, phase=Phase.INTENT)}))
    story.tell(e.Started())
    story.tell(e.LookedUp(REF, Absent(never=True)))
    story.answer(resync=True)
    story.answer(commands=(ServerCommand(id=0, kind="kill", ref=REF),))
    story.tell(e.Tick())
    story.tell(e.LookedUp(REF, Absent(never=True)))
    assert story.all(e.Submit) == []
    result = story.state.attempts[REF].result
    assert result is not None
    assert result.state is AttemptState.CANCELLED
