"""The tables of states: every state can be reached, nothing follows an end, attempts never go back."""

from __future__ import annotations

import pytest

from rainbow_sched.model.attempt import ENDS, LIVE, AttemptState, is_allowed
from rainbow_sched.model.errors import Conflict
from rainbow_sched.model.job_state import TERMINAL, TRANSITIONS, JobEvent, JobState, next_state


def test_nothing_follows_an_end() -> None:
    for state in TERMINAL:
        for event in JobEvent:
            with pytest.raises(Conflict):
                next_state(state, event)


def test_every_state_can_be_reached_from_a_submission_and_every_job_can_end() -> None:
    reached = {JobState.QUEUED, JobState.HELD, JobState.INFEASIBLE}
    grown = True
    while grown:
        more = {to for (state, _), to in TRANSITIONS.items() if state in reached} - reached
        reached |= more
        grown = bool(more)
    assert reached == set(JobState)
    for start in set(JobState) - TERMINAL:
        seen, front = {start}, {start}
        while front:
            front = {to for (state, _), to in TRANSITIONS.items() if state in front} - seen
            seen |= front
        assert seen & TERMINAL, start


def test_news_of_an_attempt_leaves_the_job_where_it_is() -> None:
    assert next_state(JobState.BOUND, JobEvent.UPDATED) is JobState.BOUND


def test_an_absent_arrow_is_refused_with_both_names() -> None:
    with pytest.raises(Conflict, match=r"held.*bound"):
        next_state(JobState.HELD, JobEvent.BOUND)


def test_attempts_skip_forward_and_never_go_back() -> None:
    for i, before in enumerate(LIVE):
        for j, following in enumerate(LIVE):
            assert is_allowed(before, following) is (j > i)


def test_only_a_lost_attempt_can_still_tell_how_it_ended() -> None:
    ends = set(AttemptState) - set(LIVE)
    for before in ends:
        for following in AttemptState:
            assert is_allowed(before, following) is (
                before is AttemptState.LOST and following in ENDS[AttemptState.RUNNING] - {AttemptState.RETURNED}
            )


def test_before_the_confirm_the_server_may_withdraw_and_after_it_only_the_agent_ends_it() -> None:
    assert is_allowed(AttemptState.LEASED, AttemptState.WITHDRAWN)
    assert is_allowed(AttemptState.LEASED, AttemptState.LAPSED)
    for state in LIVE[2:]:
        assert not is_allowed(state, AttemptState.WITHDRAWN)
        assert not is_allowed(state, AttemptState.LAPSED)
