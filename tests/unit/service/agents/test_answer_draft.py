"""An item of a Sync that fails, for whatever reason, leaves nothing behind and stops no other."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, OutputPiece, Report, ReportedFacts, UnknownReport
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents import offers
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency
from tests.support.agents import Agent, kills
from tests.support.database import NAME
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


async def taken(service: Service, agent: Agent, count: int) -> list[AttemptRef]:
    """Jobs that the agent has taken and was confirmed."""
    await submit(service, *(a_submission() for _ in range(count)))
    refs: list[AttemptRef] = []
    while len(refs) < count:
        refs += [offer.ref for offer in (await agent.says(want=count - len(refs))).offers]
    assert len((await agent.says(accepts=tuple(refs))).confirms) == count
    return refs


async def states(service: Service, refs: list[AttemptRef]) -> list[AttemptState]:
    found = await service.core.store.read(lambda tx: [tx.attempt(ref.job, ref.n) for ref in refs])
    return [attempt.state for attempt in found if attempt is not None]


def damage(folder: Path, job: int) -> None:
    """Change the stored request of a job, as a broken disk would."""
    with contextlib.closing(sqlite3.connect(folder / NAME)) as db, db:
        assert db.execute("UPDATE jobs SET spec_check = spec_check + 1 WHERE id = ?", (job,)).rowcount == 1


async def test_a_report_of_a_damaged_job_does_not_stop_the_others(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        damaged, good = await taken(service, agent, 2)
        damage(tmp_path, damaged.job)
        said = (
            Report(ref=damaged, state=AttemptState.RUNNING),
            Report(ref=good, state=AttemptState.RUNNING),
        )
        told = await agent.says(held=((damaged, "accepted"), (good, "accepted")), reports=said)
        assert await states(service, [damaged, good]) == [AttemptState.ACCEPTED, AttemptState.RUNNING]
        assert (told.unknown, kills(told)) == ((damaged,), [])
        quiet = await agent.says(held=((damaged, "running"), (good, "running")))
        assert kills(quiet) == [], "of a damaged job nothing is known, so it is not ended"


async def test_the_end_of_a_job_is_taken_though_one_that_waits_for_it_is_damaged(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        [ref] = await taken(service, agent, 1)
        after = (Dependency("afterok", ref.job),)
        one = replace(a_submission(), waits_for=after)
        waiting, damaged, also = await submit(service, one, one, one)
        both = (*after, Dependency("afterany", damaged.id))
        [torn] = await submit(service, replace(one, waits_for=both))
        damage(tmp_path, damaged.id)
        told = await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
        assert (told.acked, told.unknown) == ((ref,), ())
        assert await states(service, [ref]) == [AttemptState.SUCCEEDED]
        found = await service.core.store.read(lambda tx: [tx.job(id) for id in (waiting.id, also.id, torn.id)])
        assert [job.hold for job in found if job is not None] == [None, None, Hold.DEPENDENCY]


async def test_a_damaged_job_keeps_no_lease_from_lapsing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        await submit(service, a_submission(), a_submission())
        refs: list[AttemptRef] = []
        while len(refs) < 2:
            refs += [offer.ref for offer in (await agent.says(want=2)).offers]
        damage(tmp_path, refs[0].job)
        clock.advance(2 * service.core.settings.lease)
        await service.timers.tick()
        assert await states(service, refs) == [AttemptState.LEASED, AttemptState.LAPSED]


async def test_damaged_jobs_keep_no_silent_cluster_from_being_given_up(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        short = a_submission(terms=Terms(lost_after=300.0))
        await submit(service, short, short)
        refs: list[AttemptRef] = []
        while len(refs) < 2:
            refs += [offer.ref for offer in (await agent.says(want=2)).offers]
        await agent.says(accepts=tuple(refs))
        offered = await submit(service, a_submission(), a_submission())
        for job in (refs[0].job, offered[0].id):
            damage(tmp_path, job)
        clock.advance(3_600)
        await service.timers.tick()
        assert service.core.fleet.member("east").cluster.standing is Standing.UNREACHABLE
        assert await states(service, refs) == [AttemptState.ACCEPTED, AttemptState.LOST]
        found = await service.core.store.read(lambda tx: [tx.attempt(one.id, 1) for one in offered])
        assert [one.state for one in found if one] == [AttemptState.OFFERED, AttemptState.WITHDRAWN]


async def test_a_damaged_job_keeps_a_receiver_from_no_other_one(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await submit(service, a_submission(), a_submission())
        leased = [attempt for attempt, _ in await offers.receive(service.core, "east", 2)]
        damage(tmp_path, leased[0].job)
        done = await offers.accept(service.core, "east", [(a.job, a.n, a.token) for a in leased])
        assert [attempt.job for attempt in done] == [leased[1].job]


async def test_what_one_item_did_before_it_failed_is_undone_and_the_others_take_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        refs = await taken(service, agent, 4)
        bad = refs[1]

        def fails(*about: object) -> None:
            if about[0] == bad.job or getattr(about[2], "job", None) == bad.job:
                raise RuntimeError("a fault of the program")

        original = lifecycle.end_attempt

        def end_attempt(tx, fx, job, attempt, how, now):  # type: ignore[no-untyped-def]  # as the original
            ended = original(tx, fx, job, attempt, how, now)
            fails(job.id, None, attempt)
            return ended

        monkeypatch.setattr(lifecycle, "end_attempt", end_attempt)
        done = tuple(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0) for ref in refs[:3])
        output = (OutputPiece(ref=refs[3], stream="stdout", offset=0, data=b"said"),)
        told = await agent.says(reports=done, output=output, facts=ReportedFacts(state={"a": 1}))
        monkeypatch.undo()
        assert await states(service, refs) == [
            AttemptState.SUCCEEDED,
            AttemptState.ACCEPTED,
            AttemptState.SUCCEEDED,
            AttemptState.ACCEPTED,
        ]
        assert (told.acked, told.unknown) == ((refs[0], refs[2]), (bad,))
        assert told.output_acks == ((refs[3], "stdout", 4),)
        assert service.core.fleet.member("east").cluster.state == {"a": 1}
        held = service.core.fleet.member("east").placements
        assert set(held) == {refs[1].token, refs[3].token}, "in memory nothing of it was carried out either"
        assert (await agent.says(reports=done)).acked == tuple(refs[:3]), "the next time it takes effect"


async def test_a_report_that_is_not_understood_is_kept_once_and_moves_nothing(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        [ref] = await taken(service, agent, 1)
        raw = UnknownReport(ref=ref, text=json.dumps({"state": "molten"}), why="the state is not known")
        for _ in range(3):
            assert (await agent.says(unknown=(raw,), held=((ref, "molten"),))).unknown == (ref,)
        many = [UnknownReport(ref=ref, text=str(i), why="") for i in range(2 * lifecycle.MAX_UNKNOWN_REPORTS_PER_JOB)]
        await agent.says(unknown=tuple(many))
        events = await service.core.store.read(lambda tx: tx.events(0, 1000, job=ref.job))
        kept = [event.detail["unknown_report"] for event in events if "unknown_report" in event.detail]
        assert kept[0] == '{"state": "molten"}'
        assert len(kept) == len(set(kept)) == lifecycle.MAX_UNKNOWN_REPORTS_PER_JOB
        view = await jobs.get(service.core, ref.job, ADMIN)
        assert view.attempt is not None
        assert (view.job.state, view.attempt.state) == (JobState.BOUND, AttemptState.ACCEPTED)
        told = await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
        assert told.acked == (ref,)
        assert (await agent.says(unknown=(raw,))).acked == (ref,), "nothing depends on it any more"


@pytest.mark.parametrize("token", ["", "another"])
async def test_a_report_that_is_not_understood_of_an_attempt_that_is_not_the_agents_is_not_kept(
    tmp_path: Path, token: str
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [ref] = await taken(service, Agent(service, "east"), 1)
        await with_cluster(service, "west")
        west = Agent(service, "west")
        await west.says()
        theirs = AttemptRef(ref.job, ref.n, token or ref.token)
        told = await west.says(unknown=(UnknownReport(ref=theirs, text="{}", why=""),))
        assert (told.acked, told.unknown) == ((theirs,), ())
        events = await service.core.store.read(lambda tx: tx.events(0, 1000, job=ref.job))
        assert not any("unknown_report" in event.detail for event in events)


async def test_an_agent_acknowledges_only_commands_about_its_own_jobs(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        east = Agent(service, "east")
        [ref] = await taken(service, east, 1)
        await with_cluster(service, "west")
        west = Agent(service, "west")
        await jobs.cancel(service.core, [ref.job], None, ADMIN, "")
        [command] = (await east.says()).commands
        await west.says(acks=(command.id,))
        assert [one.id for one in (await east.says()).commands] == [command.id]


async def test_a_cluster_that_returns_jobs_again_and_again_trips_its_breaker(tmp_path: Path) -> None:
    async with a_service(tmp_path, clock=ManualClock()) as service:
        await with_cluster(service, "east")
        agent = Agent(service, "east")
        refs = await taken(service, agent, 3)
        await agent.says(reports=tuple(Report(ref=ref, state=AttemptState.RETURNED) for ref in refs))
        assert service.core.fleet.member("east").cluster.standing.value == "degraded"
