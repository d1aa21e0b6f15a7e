"""The reactor under lost, late and doubled messages, crashes, and a manager that errs and forgets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.agent.agent_world import OUTPUT, World

histories = st.lists(st.integers(0, 2**16), min_size=20, max_size=200)


def lived(choices: list[int]) -> World:
    world = World(choices)
    while not world.over:
        world.step()
    return world


@given(histories)
@settings(max_examples=150, deadline=None)
def test_no_attempt_is_ever_launched_twice_or_before_its_confirm(choices):
    lived(choices).check()


@given(histories)
@settings(max_examples=100, deadline=None)
def test_when_the_faults_stop_every_attempt_ends_and_nothing_is_left_behind(choices):
    world = lived(choices)
    world.settle()
    assert world.done(), (world.server.attempts, world.state.attempts, world.todo)


@given(histories)
@settings(max_examples=100, deadline=None)
def test_every_attempt_that_ran_to_its_end_is_reported_and_its_output_is_whole(choices):
    world = lived(choices)
    world.settle()
    for ref, report in world.server.results.items():
        if report.state == "succeeded":
            assert world.server.output.get(ref) == OUTPUT or world.forgetful
        elif report.failure == "outcome-unknown":
            assert world.starts > 1 or world.forgetful or world.manager.launches.get(ref.tag, 0) == 0
