"""What every backend must do. Jobs are real processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rainbow_sched.agent.core.values import Absent, JobFound, Phase
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Count, Equals, Group, Level, Requirement, Task
from rainbow_sched.protocol.messages import AllowedHosts
from tests.support.backends import Desk, a_launch, a_request

LONG = ("sleep", "60")


def bound(*hosts: str) -> AllowedHosts:
    """What a server says that worked out where a job may run."""
    return AllowedHosts((GroupHosts(0, hosts),), checked=True)


async def test_a_job_that_ends_well_has_succeeded(desk: Desk):
    result = (await desk.run(a_request("true"))).result
    assert result.state is AttemptState.SUCCEEDED
    assert result.exit_code == 0
    assert result.started_at <= result.ended_at


@pytest.mark.parametrize("code", [1, 3, 255])
async def test_an_exit_code_comes_back_as_it_was(desk: Desk, code: int):
    result = (await desk.run(a_request("sh", "-c", f"exit {code}"))).result
    assert (result.state, result.exit_code, result.failure) == (AttemptState.FAILED, code, Failure.EXIT)


async def test_a_job_ended_by_a_signal_says_which(desk: Desk):
    result = (await desk.run(a_request("sh", "-c", "kill -9 $$"))).result
    assert (result.state, result.exit_code) == (AttemptState.FAILED, 128 + 9)
    assert "signal 9" in result.reason


async def test_a_command_that_does_not_exist_fails_to_launch_and_names_it(desk: Desk):
    update = await desk.run(a_request("no-such-command-anywhere"))
    assert update.result.failure is Failure.LAUNCH
    assert "no-such-command-anywhere" in update.result.reason
    assert b"no-such-command-anywhere" in await desk.out(update.tag, "stderr")


async def test_output_and_errors_come_back_apart_and_from_any_offset(desk: Desk):
    update = await desk.run(a_request("sh", "-c", "printf 0123456789; printf oops >&2"))
    assert update.sizes == (10, 4)
    assert await desk.backend.output(update.tag, "stdout", 4, 3) == b"456"
    assert await desk.out(update.tag, "stderr") == b"oops"
    assert await desk.backend.output(update.tag, "stdout", 10, 3) == b""


async def test_output_can_be_read_while_the_job_runs(desk: Desk):
    tag = await desk.submit(a_request("sh", "-c", "echo early; exec sleep 60"))
    await desk.until_output(tag, b"early")
    assert (await desk.until(tag, Phase.RUNNING)).sizes[0] == 6


async def test_words_reach_the_command_without_a_shell(desk: Desk):
    update = await desk.run(a_request("printf", "%s|", "$HOME", "a b", "; rm -rf x", "*"))
    assert await desk.out(update.tag) == b"$HOME|a b|; rm -rf x|*|"


async def test_a_script_runs_by_its_interpreter_line(desk: Desk):
    script = "#!/usr/bin/env python3\nprint(6 * 7)\n"
    update = await desk.run(a_request(task=Task(script=script)))
    assert await desk.out(update.tag) == b"42\n"


async def test_a_script_without_an_interpreter_line_is_run_by_the_shell(desk: Desk):
    update = await desk.run(a_request(task=Task(script="for i in 1 2; do echo $i; done\n")))
    assert await desk.out(update.tag) == b"1\n2\n"


async def test_the_environment_is_clean_and_says_which_job_it_is(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    for name in ("LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "RAINBOW_AGENT_SECRET"):
        monkeypatch.setenv(name, "leak")
    request = replace(a_request("env"), environment={"MINE": "yes", "RAINBOW_JOB_ID": "forged"})
    update = await desk.run(request, job=7, array_index=3)
    lines = set((await desk.out(update.tag)).decode().splitlines())
    assert not any("leak" in line for line in lines)
    assert {"MINE=yes", "RAINBOW_JOB_ID=7", "RAINBOW_ATTEMPT=1", "RAINBOW_CLUSTER=here"} <= lines
    assert "RAINBOW_ARRAY_INDEX=3" in lines


async def test_every_task_runs_and_knows_its_rank(desk: Desk):
    task = Task(command=("sh", "-c", "echo rank $RAINBOW_TASK_RANK of $RAINBOW_TASKS"), total=3)
    update = await desk.run(a_request(task=task))
    assert sorted((await desk.out(update.tag)).splitlines()) == [b"rank %d of 3" % i for i in range(3)]


async def test_a_job_begins_in_the_folder_it_asked_for_or_in_one_of_its_own(desk: Desk):
    asked = await desk.run(replace(a_request("pwd"), cwd=str(desk.directory)), job=1)
    own = await desk.run(a_request("pwd"), job=2)
    other = await desk.run(a_request("pwd"), job=3)
    assert (await desk.out(asked.tag)).decode().strip() == str(desk.directory)
    assert await desk.out(own.tag) != await desk.out(other.tag)


async def test_no_more_runs_at_once_than_there_are_cores(desk: Desk):
    first = await desk.submit(a_request(*LONG, cores=2), job=1)
    second = await desk.submit(a_request("true"), job=2)
    await desk.until(first, Phase.RUNNING)
    await desk.until(second, Phase.SUBMITTED)
    await desk.backend.cancel(first)
    assert (await desk.until(second, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_a_small_job_passes_a_large_one_that_has_to_wait(desk: Desk):
    await desk.submit(a_request(*LONG, cores=1), job=1)
    large = await desk.submit(a_request("true", cores=2), job=2)
    small = await desk.run(a_request("true", cores=1), job=3)
    assert small.result.state is AttemptState.SUCCEEDED
    await desk.until(large, Phase.SUBMITTED)


async def test_a_waiting_job_that_is_cancelled_never_begins(desk: Desk):
    first = await desk.submit(a_request(*LONG, cores=2), job=1)
    second = await desk.submit(a_request("echo", "ran"), job=2)
    await desk.backend.cancel(second)
    assert (await desk.until(second, Phase.ENDED)).result.state is AttemptState.CANCELLED
    await desk.backend.cancel(first)
    await desk.until(first, Phase.ENDED)
    assert await desk.out(second) == b""


async def test_a_running_job_that_is_cancelled_can_tidy_up(desk: Desk):
    tag = await desk.submit(
        a_request("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    )
    await desk.until_output(tag, b"up")
    await desk.backend.cancel(tag)
    assert (await desk.until(tag, Phase.ENDED)).result.state is AttemptState.CANCELLED
    assert await desk.out(tag) == b"up\nbye\n"


async def test_cancelling_what_has_ended_or_never_was_changes_nothing(desk: Desk):
    update = await desk.run(a_request("true"))
    await desk.backend.cancel(update.tag)
    await desk.backend.cancel("rb-99-1")
    assert (await desk.until(update.tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_a_job_over_its_time_limit_is_ended_and_says_so(desk: Desk):
    result = (await desk.run(replace(a_request(*LONG), duration=0.2))).result
    assert (result.state, result.failure) == (AttemptState.FAILED, Failure.TIME_LIMIT)
    assert "0.2 s" in result.reason


async def test_a_running_job_is_adopted_by_the_next_agent(desk: Desk):
    tag = await desk.submit(
        a_request("sh", "-c", f"echo before; while [ ! -e {desk.directory}/go ]; do sleep 0.05; done")
    )
    await desk.until_output(tag, b"before")
    await desk.again()
    found = await desk.backend.lookup(tag)
    assert isinstance(found, JobFound)
    assert found.update.phase is Phase.RUNNING
    (desk.directory / "go").touch()
    assert (await desk.until(tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED
    assert await desk.out(tag) == b"before\n"


async def test_a_job_that_ended_while_no_agent_was_there_keeps_its_exit_code(desk: Desk):
    gate = desk.directory / "go"
    tag = await desk.submit(a_request("sh", "-c", f"echo up; while [ ! -e {gate} ]; do sleep 0.02; done; exit 9"))
    await desk.until_output(tag, b"up")
    await desk.backend.close()
    gate.touch()
    await desk.again()
    assert (await desk.until(tag, Phase.ENDED)).result.exit_code == 9


async def test_a_waiting_job_waits_on_with_the_next_agent(desk: Desk):
    first = await desk.submit(a_request(*LONG, cores=2), job=1)
    second = await desk.submit(a_request("true"), job=2)
    await desk.again()
    await desk.until(second, Phase.SUBMITTED)
    await desk.backend.cancel(first)
    assert (await desk.until(second, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_a_doubled_submission_runs_once(desk: Desk):
    request = a_request("sh", "-c", f"echo ran >> {desk.directory}/runs")
    launch = a_launch(request)
    ids = await asyncio.gather(*(desk.backend.submit(launch) for _ in range(3)))
    await desk.until(launch.tag, Phase.ENDED)
    await desk.again()
    again = await desk.backend.submit(launch)
    await desk.until(launch.tag, Phase.ENDED)
    assert {*ids, again} == {ids[0]}
    assert (desk.directory / "runs").read_text() == "ran\n"


async def test_an_unknown_tag_is_absent(desk: Desk):
    assert isinstance(await desk.backend.lookup("rb-404-1"), Absent)


async def test_what_the_cluster_does_not_have_is_refused_before_anything_is_submitted(desk: Desk):
    request = a_request("true", type="quantum-annealer")
    assert "quantum-annealer" in await desk.backend.check(request)
    with pytest.raises(Unsupported, match="quantum-annealer"):
        await desk.submit(request)
    assert isinstance(await desk.backend.lookup("rb-1-1"), Absent)


async def test_what_can_never_fit_is_refused_with_what_there_is(desk: Desk):
    reason = await desk.backend.check(a_request("true", cores=64))
    assert "2 core" in reason
    assert not (await desk.backend.bid(a_request("true", cores=64))).yes


async def test_an_idle_cluster_bids_to_start_now(desk: Desk):
    answer = await desk.backend.bid(replace(a_request("true"), duration=60.0))
    assert (answer.yes, answer.start_p50, answer.start_p90) == (True, 0.0, 0.0)


async def test_a_full_cluster_bids_to_start_when_its_jobs_reach_their_limits(desk: Desk):
    tag = await desk.submit(replace(a_request(*LONG, cores=2), duration=300.0))
    await desk.until(tag, Phase.RUNNING)
    answer = await desk.backend.bid(replace(a_request("true"), duration=60.0))
    assert answer.yes
    assert 290 < answer.start_p50 <= answer.start_p90 <= 300


async def test_facts_tell_what_is_free(desk: Desk):
    assert (await desk.backend.facts()).state["cores_free"] == 2
    tag = await desk.submit(a_request(*LONG))
    await desk.until(tag, Phase.RUNNING)
    facts = await desk.backend.facts()
    assert (facts.state["cores_free"], facts.state["nodes_free"]) == (1, 0)


async def test_a_forgotten_job_is_gone(desk: Desk):
    update = await desk.run(a_request("true"))
    await desk.backend.forget(update.tag)
    assert isinstance(await desk.backend.lookup(update.tag), Absent)
    assert await desk.backend.poll() == ()


async def test_a_job_runs_on_the_host_that_it_is_bound_to_and_says_so(desk: Desk):
    tag = await desk.submit(a_request(*LONG), allowed=bound("n0"))
    assert (await desk.until(tag, Phase.RUNNING)).nodes == "n0"
    await desk.again()
    found = await desk.backend.lookup(tag)
    assert isinstance(found, JobFound)
    assert found.update.nodes == "n0"
    await desk.backend.cancel(tag)
    assert (await desk.until(tag, Phase.ENDED)).nodes == "n0"


async def test_hosts_that_the_manager_does_not_know_are_refused_with_both_names(desk: Desk):
    for request in (a_request("true"), a_request("true", cores=2)):
        reason = await desk.backend.check(request, bound("x1", "x2"))
        assert "x[1-2]" in reason
        assert "n0" in reason
        assert not (await desk.backend.bid(request, bound("x1", "x2"))).yes
    with pytest.raises(Unsupported, match=r"x\[1-2\]"):
        await desk.submit(a_request("true"), allowed=bound("x1", "x2"))
    assert (await desk.run(a_request("true"), job=2, allowed=bound("x1", "n0"))).nodes == "n0"
    unbound = AllowedHosts(checked=True)
    assert (await desk.run(a_request("true"), job=3, allowed=unbound)).result.state is AttemptState.SUCCEEDED


async def test_a_requirement_that_neither_the_manager_nor_the_allowed_hosts_keep_is_refused(desk: Desk):
    fast = Level(type="core", count=Count(1), requires=(Requirement("clocks", (Equals("kind", "fast"),)),))
    level = Level(type="node", shared=True, abstract=True, inside=(fast,))
    request = replace(a_request("true"), groups=(Group(levels=(level,)),))
    assert "upgrade the server" in await desk.backend.check(request)
    assert "clocks" in (await desk.backend.bid(request)).reason
    assert await desk.backend.check(request, AllowedHosts(checked=True)) is None  # all cores of this cluster meet it
    assert await desk.backend.check(request, bound("n0")) is None
    with pytest.raises(Unsupported, match="clocks"):
        await desk.submit(request)
