"""A cluster that hands jobs back keeps its say, and is not asked for ever."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.protocol.messages import Report
from rainbow_sched.service.agents import offers
from rainbow_sched.service.agents.offers import OfferFilter
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import explanation, jobs
from rainbow_sched.store.base import JobSelection
from tests.support.agents import Agent
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


async def test_a_cluster_that_hands_a_job_back_is_asked_again_less_and_less_often(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        agent, asked = Agent(service, "east"), []
        for _ in range(6 * 60):
            clock.advance(60.0)
            await service.timers.tick()
            await service.scheduling_loop.decide_pending()
            for offer in (await agent.says(want=1)).offers:
                asked.append(clock.now())
                await agent.says(rejects=((offer.ref, "not now"),))
                await service.scheduling_loop.decide_pending()
        pauses = [later - sooner for sooner, later in itertools.pairwise(asked)]
        assert pauses[:3] == [60.0, 120.0, 240.0]
        assert 3_600.0 <= pauses[-1] == max(pauses) <= 4_200.0
        view = await jobs.get(service.core, job.id, ADMIN)
        assert view.job.state is JobState.HELD
        assert "handed it back: not now" in view.job.reason


async def test_a_job_that_was_handed_back_is_on_no_cluster_and_its_explanation_says_who_would_not_have_it(
    tmp_path: Path,
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        agent = Agent(service, "east")
        await agent.says(want=1)
        [offer] = (await agent.says(want=1)).offers
        await agent.says(rejects=((offer.ref, "not now"),))
        await service.scheduling_loop.decide_pending()
        view = await jobs.get(service.core, job.id, ADMIN)
        assert (view.job.state, view.job.cluster) == (JobState.HELD, "")
        story = await explanation.explain(service.core, job.id, ADMIN)
        assert json.loads(story.explanations)["closed"] == {"east": "handed it back: not now"}


@pytest.mark.parametrize("before", [3, offers.MAX_REFUSALS_PER_WRITE + 3])
async def test_a_filter_finds_what_it_wants_behind_what_it_does_not(tmp_path: Path, before: int) -> None:
    async with a_service(tmp_path, settings=Settings(policy="first", long_poll=60.0)) as service:
        await with_cluster(service, "east", nodes=300, cores=4)
        await submit(service, *[a_submission(cores=4) for _ in range(before)])
        await service.scheduling_loop.decide_pending()
        agent = Agent(service, "east")
        await agent.says()
        [wanted] = await submit(service, a_submission(cores=1))
        async with asyncio.timeout(20):
            [offer] = (await agent.says(want=1, wait=60.0, accept_only="cores <= 2")).offers
        assert offer.ref.job == wanted.id


@pytest.mark.parametrize("before", [3, offers.MAX_REFUSALS_PER_WRITE + 3])
async def test_a_receiver_finds_what_it_wants_behind_what_it_does_not(tmp_path: Path, before: int) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=300, cores=4)
        await submit(service, *[a_submission(cores=4) for _ in range(before)])
        await service.scheduling_loop.decide_pending()
        [wanted] = await submit(service, a_submission(cores=1))
        [(attempt, _)] = await offers.receive(service.core, "east", 1, choice=OfferFilter("cores <= 2"))
        assert attempt.job == wanted.id


async def test_a_cluster_takes_jobs_by_its_own_order(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=8, cores=4)
        made = await submit(service, *[a_submission(cores=cores) for cores in (2, 1, 4, 3, 2)])
        agent = Agent(service, "east")
        await agent.says()
        taken = [offer.ref.job for offer in (await agent.says(want=3, order_by="cores")).offers]
        assert taken == [made[2].id, made[3].id, made[0].id], "the largest, and of two alike the older one"
        left = await offers.receive(service.core, "east", 9, choice=OfferFilter(order="-cores"))
        assert [attempt.job for attempt, _ in left] == [made[1].id, made[4].id]


async def test_a_clusters_order_goes_with_its_filter_and_jobs_without_a_number_come_last(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=8)
        labels: list[dict[str, str]] = [{}, {"size": "big"}, {"size": "big", "team": "bio"}]
        made = await submit(service, *[a_submission(terms=Terms(labels=one)) for one in labels])
        choice = OfferFilter(accept="cores <= 4", order='labels.team == "bio" ? 2 : 1')
        found = await offers.receive(service.core, "east", 9, choice=choice)
        assert [attempt.job for attempt, _ in found] == [made[2].id, made[0].id, made[1].id]
        assert {attempt.state for attempt, _ in found} == {AttemptState.LEASED}
        assert await offers.receive(service.core, "east", 9, choice=choice) == [], "leased to one receiver"


@pytest.mark.parametrize("choice", [{"order_by": "cores +"}, {"accept_only": "cores +"}])
async def test_a_choice_that_makes_no_sense_gets_no_offers_and_stops_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, choice: dict[str, str]
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await submit(service, a_submission(), a_submission())
        agent = Agent(service, "east")
        ref = await agent.runs()
        done = Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0)
        told = await agent.says(want=1, reports=(done,), **choice)
        assert (told.acked, told.offers) == ((ref,), ())
        assert "east gets no jobs" in caplog.text
        assert "a value is missing" in caplog.text
        assert len((await agent.says(want=1)).offers) == 1


async def test_who_watches_a_cluster_hears_that_a_job_left_it(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await submit(service, a_submission())
        agent = Agent(service, "east")
        await agent.says(want=1)
        [offer] = (await agent.says(want=1)).offers
        await agent.says(rejects=((offer.ref, "not now"),))
        heard = []
        async with asyncio.timeout(20):
            async for event in jobs.watch(service.core, JobSelection(cluster="east"), ADMIN, 0):
                heard.append(event.kind)
                if event.kind is JobEvent.UNBOUND:
                    break
        assert heard[-1] is JobEvent.UNBOUND
        assert len(heard) > 1
