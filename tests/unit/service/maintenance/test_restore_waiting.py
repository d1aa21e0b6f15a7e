"""After a restore jobs wait for the clusters that may have run them, and for nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.errors import Conflict, NotFound, Unavailable
from rainbow_sched.model.generation import MIN_SKIPPED_IDS, SKIPPED_ATTEMPTS, HistoryMark, sign_mark
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import KnownAttempt, Recall, ReportedFacts
from rainbow_sched.service.agents import offers
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import ReportState
from tests.support.agents import kills
from tests.support.manual_clock import ManualClock
from tests.support.restored import Agent, copied, ended, job_of, put_back, running, serving
from tests.support.service import ADMIN, a_submission, a_user, submit, with_cluster


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_what_may_have_run_on_a_cluster_that_is_given_up_is_its_owners_word(
    tmp_path: Path, clock: ManualClock
) -> None:
    east, west = Agent("east"), Agent("west")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name, nodes=1, cores=1)
        await submit(before, a_submission(), a_submission(), a_submission())
        [named] = await submit(before, a_submission(terms=Terms(only_clusters=("east",))))
        copy = copied(tmp_path)
        refs = {agent.cluster: await agent.takes(before) for agent in (east, west)}
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await east.recalls(after, ended(refs["east"]))
        assert (await job_of(after, named.id)).state is JobState.BOUND, "only east may have got it"
        assert (await job_of(after, 3)).hold is Hold.RESTORED
        await restore.give_up(after.core, "west")
        await after.scheduling_loop.decide_pending()
        for id in (3, refs["west"].job):  # one was queued, one was offered to west
            assert (await job_of(after, id)).hold is Hold.MAY_HAVE_RUN
        assert (await restore.status(after.core)).unclear == 2
        with pytest.raises(NotFound):
            await jobs.release(after.core, 3, a_user("ben"))
        await jobs.release(after.core, 3, a_user("ana"))
        await after.scheduling_loop.decide_pending()
        released = await job_of(after, 3)
        assert (released.state, released.attempt) == (JobState.BOUND, SKIPPED_ATTEMPTS + 1)
        with pytest.raises(Conflict):
            await restore.give_up(after.core, "west")
    async with serving(tmp_path, clock, seed=3) as again:  # a restart forgets none of it
        await again.scheduling_loop.decide_pending()
        assert (await job_of(again, 3)).state is JobState.BOUND
        assert (await job_of(again, refs["west"].job)).hold is Hold.MAY_HAVE_RUN
        out = await west.recalls(again, running(refs["west"]), held=((refs["west"], "running"),))
        assert kills(out) == [refs["west"]], "it has come back after all, too late"
        assert (await job_of(again, refs["west"].job)).hold is Hold.MAY_HAVE_RUN
        assert dict((await restore.status(again.core)).counts)["too-late"] == 1


async def test_a_cluster_that_is_deleted_will_not_report(tmp_path: Path, clock: ManualClock) -> None:
    east = Agent("east")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name, nodes=1, cores=1)
        await submit(before, a_submission(), a_submission(), a_submission())
        copy = copied(tmp_path)
        ref = await east.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await east.recalls(after, ended(ref))
        await registration.delete(after.core, "west", "lose")
        await after.scheduling_loop.decide_pending()
        assert (await job_of(after, 3)).hold is Hold.MAY_HAVE_RUN
        assert (await job_of(after, 2)).hold is Hold.MAY_HAVE_RUN


async def test_new_jobs_do_not_wait(tmp_path: Path, clock: ManualClock) -> None:
    east = Agent("east")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name)
        await submit(before, a_submission())
        copy = copied(tmp_path)
        ref = await east.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await east.recalls(after, running(ref))
        [new] = await submit(after, a_submission())
        assert (await job_of(after, new.id)).state is JobState.BOUND
        assert (await east.takes(after)).job == new.id


async def test_what_was_only_offered_may_have_begun_and_is_not_taken_back(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        await submit(before, a_submission(), a_submission())
        ref = await agent.is_offered(before)
        copy = copied(tmp_path)  # one attempt is leased, one offered
        assert (await agent.says(before, accepts=(ref,))).confirms == (ref,)
        other = await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "east", agent.mark)
        clock.advance(10_000.0)  # the cluster is silent for long: nothing lapses, nothing is withdrawn
        await after.timers.tick()
        await after.scheduling_loop.decide_pending()
        for id in (ref.job, other.job):
            assert (await job_of(after, id)).state is JobState.BOUND
        await jobs.cancel(after.core, [other.job], None, ADMIN, "")
        assert (await job_of(after, other.job)).state is JobState.CANCELLING, "it may run"
        await agent.recalls(after, running(ref), running(other))
        for id, state in ((ref.job, JobState.BOUND), (other.job, JobState.CANCELLING)):
            view = await jobs.get(after.core, id, ADMIN)
            assert view.attempt is not None
            assert (view.job.state, view.attempt.state) == (state, AttemptState.ACCEPTED)
        assert [command.ref.job for command in (await agent.says(after)).commands] == [other.job]


async def test_a_cancelled_offer_that_was_never_taken_ends_with_the_report(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        [job] = await submit(before, a_submission())
        copy = copied(tmp_path)
        await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "east", agent.mark)
        await jobs.cancel(after.core, [job.id], None, ADMIN, "")
        await agent.recalls(after)
        assert (await job_of(after, job.id)).state is JobState.CANCELLED


async def test_an_accept_is_not_confirmed_while_the_job_may_run_elsewhere(tmp_path: Path, clock: ManualClock) -> None:
    east, west = Agent("east"), Agent("west")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name)
        [job] = await submit(before, a_submission())
        ref = await east.is_offered(before)
        copy = copied(tmp_path)
        await submit(before, a_submission(terms=Terms(only_clusters=("west",))))
        other = await west.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "west", west.mark)
        out = await east.recalls(after, KnownAttempt(ref=ref, phase="accepted"), accepts=(ref,))
        assert out.confirms == ()
        assert kills(out) == []
        await west.recalls(after, running(other, terms="{}"))
        assert (await east.says(after, accepts=(ref,))).confirms == (ref,)
        assert (await job_of(after, job.id)).state is JobState.BOUND


async def test_an_agent_that_cannot_recall_is_told_to_be_upgraded(tmp_path: Path, clock: ManualClock) -> None:
    east, west = Agent("east"), Agent("west")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name)
        copy = copied(tmp_path)
        [job] = await submit(before, a_submission())
        ref = await east.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "east", east.mark)
        held = ((ref, "running"),)
        with pytest.raises(Unavailable, match="upgrade it"):
            await west.says(after, recalls=False, mark="", held=held)
        [row] = [row for row in (await restore.status(after.core)).clusters if row.cluster == "west"]
        assert (row.state, row.why) == (ReportState.AWAITED, restore.AGENT_TOO_OLD)
        await restore.give_up(after.core, "west")
        assert not (await west.says(after, recalls=False, mark="")).recall
        assert job.id


@pytest.mark.parametrize("complete", [True, False])
async def test_a_report_that_cannot_settle_what_ran_is_unclear(
    tmp_path: Path, clock: ManualClock, complete: bool
) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east", nodes=1, cores=1)
        await agent.says(before)
        await submit(before, a_submission(), a_submission())
        copy = copied(tmp_path)
        await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "east", agent.mark)
        if complete:  # but by an agent with another journal
            clock.advance(1000.0)
            agent = Agent(epoch="b.1")
        assert (await agent.says(after)).recall
        await agent.says(after, recall=Recall(attempts=(), complete=complete))
        await after.timers.tick()
        await after.scheduling_loop.decide_pending()
        [row] = (await restore.status(after.core)).clusters
        assert row.state is ReportState.UNCLEAR
        assert ("another journal" in row.why) == complete
        assert (await job_of(after, 2)).hold is Hold.RESTORED
        assert not (await agent.says(after)).recall, "it works on"
        await restore.give_up(after.core, "east")
        await after.scheduling_loop.decide_pending()
        assert (await job_of(after, 2)).hold is Hold.MAY_HAVE_RUN


@pytest.mark.parametrize("spoke", [True, False])
async def test_a_lost_journal_is_offered_nothing_that_it_may_have_run(
    spoke: bool, tmp_path: Path, clock: ManualClock
) -> None:
    """The copy has a job as offered; it ran since, and the journal that knows it is gone."""
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        if spoke:  # else its agent came after the copy was made
            await agent.says(before)
        await submit(before, a_submission())
        copy = copied(tmp_path)
        ref = await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await after.core.commit(lambda tx: tx.begin_restore("restored", clock.now()))
        await restore.reload(after.core)
        clock.advance(1000.0)
        agent = Agent(epoch="b.1")
        await agent.recalls(after)
        for _ in range(3):
            assert (await agent.says(after, want=5)).offers == ()
            await after.scheduling_loop.decide_pending()
        assert (await job_of(after, ref.job)).hold is Hold.RESTORED
        await restore.give_up(after.core, "east")
        await after.scheduling_loop.decide_pending()
        assert (await job_of(after, ref.job)).hold is Hold.MAY_HAVE_RUN


async def test_a_mark_that_no_server_gave_begins_no_restore(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as service:
        await with_cluster(service, "east")
        now = service.core.history.now
        for forged in ("", "nonsense", str(HistoryMark(9, "x", 1)), sign_mark(HistoryMark(9, "x", 1), b"another key")):
            assert not (await agent.says(service, mark=forged)).recall
        last = await service.core.store.read(lambda tx: tx.last_seq())
        ahead = sign_mark(HistoryMark(now.number, "other", last + 50), service.core.history.key)
        assert (await agent.says(service, mark=ahead)).recall, "the same with the right key"


async def test_a_plain_restart_is_no_restore(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        await submit(before, a_submission())
        ref = await agent.takes(before)
    async with serving(tmp_path, clock, seed=2) as after:
        assert not (await agent.says(after, held=((ref, "running"),))).recall
        with pytest.raises(NotFound, match="never restored"):
            await restore.status(after.core)


async def test_a_report_counts_once_however_often_it_comes(tmp_path: Path, clock: ManualClock) -> None:
    """The answer is lost, the agent is started again with an old mark, the server too: nothing changes any more."""
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        [job] = await submit(before, a_submission())
        copy = copied(tmp_path)
        ref = await agent.takes(before)
        old = agent.mark
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await agent.recalls(after, running(ref))
        agent.mark = old  # it has not heard of it
        await agent.recalls(after, running(ref))
        assert len(await after.core.store.read(lambda tx: tx.attempts(job.id))) == 1
    async with serving(tmp_path, clock, seed=3) as again:
        await agent.says(again)
        await agent.says(again)
        [row] = (await restore.status(again.core)).clusters
        assert row.state is ReportState.REPORTED
        restores = await again.core.store.read(lambda tx: [one for one in tx.generations() if one.cause.restores])
        assert len(restores) == 1


async def test_receivers_wait_for_somebodys_word(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent("east")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name)
        await submit(before, a_submission(terms=Terms(only_clusters=("west",))), a_submission())
        [(leased, _)] = await offers.receive(before.core, "west", 1)
        copy = copied(tmp_path)
        await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await restore.recall_needed(after.core, "east", agent.mark)
        with pytest.raises(Unavailable, match="rainbow restored --without west"):
            await offers.receive(after.core, "west", 1)
        await restore.give_up(after.core, "west")
        await after.scheduling_loop.decide_pending()
        assert (await job_of(after, leased.job)).hold is Hold.MAY_HAVE_RUN
        await offers.receive(after.core, "west", 1)


async def test_agents_that_notice_it_together_begin_one_restore(tmp_path: Path, clock: ManualClock) -> None:
    agents = [Agent(name) for name in ("east", "north", "west")]
    async with serving(tmp_path, clock) as before:
        for agent in agents:
            await with_cluster(before, agent.cluster)
        copy = copied(tmp_path)
        await submit(before, *[a_submission() for _ in agents])
        for agent in agents:
            await agent.says(before, facts=ReportedFacts(state={"nodes_free": 1.0}))
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        number = after.core.history.now.number
        asked = await asyncio.gather(*[agent.says(after) for agent in agents])
        assert [out.recall for out in asked] == [True, True, True]
        assert after.core.history.now.number == number + 1
        [new] = await submit(after, a_submission())
        assert new.id == MIN_SKIPPED_IDS + 1


async def test_a_copy_of_a_restored_database_can_be_put_back_too(tmp_path: Path, clock: ManualClock) -> None:
    """The agent has seen the generation that the restore began, and more of it than this copy holds."""
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        copy = copied(tmp_path)
        await submit(before, a_submission())
        ref = await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as restored:
        await agent.recalls(restored, ended(ref))
        [queued] = await submit(restored, a_submission())
        copy = copied(tmp_path)
        second = await agent.takes(restored)
        assert second.job == queued.id
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=3) as again:
        number = again.core.history.now.number
        await agent.recalls(again, ended(ref), ended(second))
        assert again.core.history.now.number == number + 1, "a restore began"
        assert (await job_of(again, queued.id)).state is JobState.SUCCEEDED
        [new] = await submit(again, a_submission())
        assert new.id > queued.id + MIN_SKIPPED_IDS
