"""After a restore, too, a job whose stored row is damaged stops nothing else of its cluster."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import KnownAttempt
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import ReportState
from tests.support.agents import kills
from tests.support.database import NAME
from tests.support.manual_clock import ManualClock
from tests.support.restored import Agent, copied, job_of, put_back, serving
from tests.support.service import ADMIN, a_submission, submit, with_cluster


def damage(folder: Path, job: int) -> None:
    with contextlib.closing(sqlite3.connect(folder / NAME)) as db, db:
        assert db.execute("UPDATE jobs SET spec_check = spec_check + 1 WHERE id = ?", (job,)).rowcount == 1


async def test_a_damaged_job_keeps_no_cluster_from_reporting(tmp_path: Path) -> None:
    agent, clock = Agent(), ManualClock()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        damaged, cancelled = await submit(before, a_submission(), a_submission())
        copy = copied(tmp_path)
        await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "east", agent.mark)
        await jobs.cancel(after.core, [cancelled.id], None, ADMIN, "")
        damage(tmp_path, damaged.id)
        await agent.recalls(after)
        assert (await job_of(after, cancelled.id)).state is JobState.CANCELLED
        assert [row.state for row in await after.core.store.read(lambda tx: tx.restore_reports())] == [
            ReportState.REPORTED
        ]


async def test_a_damaged_job_that_is_accepted_stops_no_other_accept(tmp_path: Path) -> None:
    agent, clock = Agent(), ManualClock()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        await submit(before, a_submission(), a_submission(), a_submission())
        refs = [await agent.is_offered(before) for _ in range(2)]
        copy = copied(tmp_path)
        await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        damage(tmp_path, refs[0].job)
        known = [KnownAttempt(ref=ref, phase="accepted") for ref in refs]
        out = await agent.recalls(after, *known, accepts=tuple(refs))
        assert out.confirms == tuple(refs[1:])
        assert kills(out) == [], "of a damaged job nothing is known, so it is not ended"


async def test_an_administrator_can_go_on_without_a_cluster_that_was_offered_a_damaged_job(tmp_path: Path) -> None:
    west, clock = Agent("west"), ManualClock()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east", nodes=1, cores=1)
        await with_cluster(before, "west", nodes=1, cores=1)
        at_east = a_submission(terms=Terms(only_clusters=("east",)))
        damaged, other = await submit(before, at_east, at_east)
        waiting = await submit(before, *(a_submission(terms=Terms(only_clusters=("west",))) for _ in range(3)))
        copy = copied(tmp_path)
        await west.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        for job in (damaged.id, waiting[1].id):
            damage(tmp_path, job)
        await restore.recall_needed(after.core, "west", west.mark)
        await after.scheduling_loop.decide_pending()
        await restore.give_up(after.core, "east")
        await after.scheduling_loop.decide_pending()
        assert (await job_of(after, other.id)).hold is Hold.MAY_HAVE_RUN
        await west.recalls(after)
        held = await after.core.store.read(lambda tx: tx.count_held(Hold.RESTORED))
        assert held == 0, "what nobody can have run goes on"
