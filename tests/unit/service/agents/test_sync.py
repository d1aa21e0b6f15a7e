"""The agent's Sync from the server's side: offers, confirms, reports, cancels, kills, and what is said twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Conflict
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, OutputPiece, Report, ReportedFacts, SyncAnswer
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration, reported_state
from rainbow_sched.service.clusters.registration import set_standing
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from tests.support.agents import kills, stored_attempt, sync_request
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


class Agent:
    """Speaks for one cluster and remembers what it was told."""

    def __init__(self, service: Service, cluster: str = "east", epoch: str = "a.1") -> None:
        self.service, self.cluster, self.epoch, self.seq = service, cluster, epoch, 0

    async def says(self, *, again: bool = False, **values: object) -> SyncAnswer:
        """One Sync that does not wait; `again` repeats the last sequence number."""
        self.seq += 0 if again else 1
        request = sync_request(self.cluster, self.epoch, self.seq, **values)
        return await self.service.agents.sync(request, "server")

    async def takes(self) -> AttemptRef:
        """Take one offer to the point where it is confirmed."""
        offers = (await self.says(want=1)).offers or (await self.says(want=1)).offers
        ref = offers[0].ref
        assert (await self.says(accepts=(ref,))).confirms == (ref,)
        return ref


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock, settings=Settings(policy="first", output_cap=100)) as made:
        await with_cluster(made, "east")
        yield made


async def state(service: Service, id: int) -> JobState:
    return (await jobs.get(service.core, id, ADMIN)).job.state


async def test_a_job_goes_from_offer_to_its_end(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    ref = await agent.takes()
    await agent.says(reports=(Report(ref=ref, state=AttemptState.RUNNING, native_id="77"),))
    view = await jobs.get(service.core, job.id, ADMIN)
    assert view.attempt is not None
    assert (view.attempt.state, view.attempt.native_id) == (AttemptState.RUNNING, "77")
    done = Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0)
    assert (await agent.says(reports=(done,))).acked == (ref,)
    assert await state(service, job.id) is JobState.SUCCEEDED
    assert (await agent.says(reports=(done,))).acked == (ref,), "a repeated report is acknowledged again"


async def test_the_same_message_gets_the_same_answer(service: Service) -> None:
    agent = Agent(service)
    await agent.says()
    await submit(service, a_submission())
    first = await agent.says(want=1)
    assert await agent.says(again=True, want=1) == first
    assert first.offers


async def test_an_idle_agent_is_woken_by_an_offer(service: Service) -> None:
    agent = Agent(service)
    await agent.says()
    waiting = asyncio.create_task(agent.says(want=1, wait=20.0))
    while "east" not in service.core.presence.reachable(service.core.clock.now()):
        await asyncio.sleep(0)
    await submit(service, a_submission())
    told = await asyncio.wait_for(waiting, 5)
    assert len(told.offers) == 1


async def test_a_stale_token_changes_nothing_and_is_told_to_kill(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    ref = await agent.takes()
    stale = AttemptRef(ref.job, ref.n, "not-the-token")
    told = await agent.says(reports=(Report(ref=stale, state=AttemptState.RUNNING),))
    assert kills(told) == [stale]
    told = await agent.says(reports=(Report(ref=stale, state=AttemptState.SUCCEEDED, exit_code=0),))
    assert await state(service, job.id) is JobState.BOUND


async def test_a_cancel_before_the_confirm_ends_at_once_and_kills_the_offer(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    await agent.says()
    [ref] = [offer.ref for offer in (await agent.says(want=1)).offers]
    await jobs.cancel(service.core, [job.id], None, ADMIN, "")
    assert await state(service, job.id) is JobState.CANCELLED
    assert kills(await agent.says(accepts=(ref,))) == [ref]


async def test_a_cancel_after_the_confirm_waits_for_the_agent(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    ref = await agent.takes()
    await jobs.cancel(service.core, [job.id], None, ADMIN, "enough")
    assert await state(service, job.id) is JobState.CANCELLING
    for _ in range(2):  # a command is told again until it is acknowledged
        [command] = (await agent.says()).commands
        assert (command.kind, command.ref.job) == ("cancel", job.id)
    await agent.says(reports=(Report(ref=ref, state=AttemptState.CANCELLED),), acks=(command.id,))
    assert await state(service, job.id) is JobState.CANCELLED
    assert (await agent.says()).commands == ()


async def test_what_finished_before_the_cancel_has_finished(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    ref = await agent.takes()
    await jobs.cancel(service.core, [job.id], None, ADMIN, "")
    await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
    assert await state(service, job.id) is JobState.SUCCEEDED


async def test_a_job_handed_back_goes_to_the_next_best_cluster(service: Service) -> None:
    await with_cluster(service, "west")
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    await agent.says()
    [ref] = [offer.ref for offer in (await agent.says(want=1)).offers]
    await agent.says(rejects=((ref, "not today"),))
    await service.scheduling_loop.decide_pending()
    view = await jobs.get(service.core, job.id, ADMIN)
    assert (view.job.cluster, view.job.attempt, view.job.failures) == ("west", 2, 0)


async def test_an_offer_nobody_accepts_lapses_and_is_decided_again(service: Service) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    clock.advance(service.core.settings.lease + 1)
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    await agent.says()
    assert len((await agent.says(want=1)).offers) == 1
    clock.advance(service.core.settings.lease + 1)
    await service.timers.tick()
    clock.advance(service.core.settings.lease + 1)
    service.core.pending.changed()
    await service.scheduling_loop.decide_pending()
    view = await jobs.get(service.core, job.id, ADMIN)
    assert (view.job.state, view.job.attempt) == (JobState.BOUND, 2)


async def test_two_agents_of_one_cluster_do_not_fight(service: Service) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    await Agent(service).says()
    second = Agent(service, epoch="b.1")
    with pytest.raises(Conflict, match="another agent"):
        await second.says()
    clock.advance(1_000)
    assert (await second.says()).resync, "when the first is missed, the second takes over"


async def test_an_offer_whose_answer_was_lost_is_made_again(service: Service) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    await agent.says()
    [lost] = [offer.ref for offer in (await agent.says(want=1)).offers]
    assert (await agent.says(want=1)).offers == ()
    clock.advance(6)
    [ref] = [offer.ref for offer in (await agent.says(want=1)).offers]
    assert (ref.job, ref.token) == (job.id, lost.token)
    assert (await agent.says(accepts=(ref,))).confirms == (ref,)


async def test_what_no_answer_had_room_for_is_offered_next_with_all_its_time(service: Service) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    script = "x" * (2 * 1024 * 1024)
    await submit(service, *(replace(a_submission(), source=script) for _ in range(2)))
    agent = Agent(service)
    await agent.says()
    [ref] = [offer.ref for offer in (await agent.says(want=2)).offers]
    clock.advance(0.5)
    [second] = (await agent.says(want=1, accepts=(ref,))).offers
    assert (await stored_attempt(service, second.ref)).lease_until == clock.now() + service.core.settings.lease


async def test_what_lapses_before_an_agent_was_told_of_it_is_no_refusal(service: Service) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    clock.advance(service.core.settings.lease)
    script = "x" * (2 * 1024 * 1024)
    receipts = await submit(service, *(replace(a_submission(), source=script) for _ in range(2)))
    agent = Agent(service)
    await agent.says()
    [first] = [offer.ref for offer in (await agent.says(want=2)).offers]
    clock.advance(0.5)
    await service.timers.tick()
    await service.scheduling_loop.decide_pending()
    [other] = [one.id for one in receipts if one.id != first.job]
    assert await state(service, other) is JobState.BOUND


async def test_what_an_agent_was_offered_when_it_was_killed_is_offered_to_its_next_life_at_once(
    service: Service,
) -> None:
    await submit(service, a_submission())
    killed = Agent(service)
    assert (await killed.says(want=1)).resync
    [offered] = (await killed.says(want=1)).offers
    reborn = Agent(service, epoch="a.2")
    assert (await reborn.says(want=1)).resync
    [again] = (await reborn.says(want=1)).offers
    assert again.ref == offered.ref
    assert (await stored_attempt(service, again.ref)).holder == "a.2"
    assert (await reborn.says(want=1)).offers == ()


async def test_a_new_agent_is_told_what_it_should_hold(service: Service) -> None:
    await submit(service, a_submission())
    ref = await Agent(service).takes()
    told = await Agent(service, epoch="a.2").says()
    assert told.resync
    assert told.expected == (ref,)


async def test_output_comes_back_and_the_middle_of_too_much_is_cut(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    ref = await agent.takes()
    text = b"".join(b"%09d\n" % i for i in range(40))
    for offset in (0, 200, 0, 200):
        piece = OutputPiece(ref=ref, stream="stdout", offset=offset, data=text[offset : offset + 200])
        told = await agent.says(output=(piece,))
    assert told.output_acks == ((ref, "stdout", 400),)
    chunks = [
        chunk.data
        async for chunk in jobs.logs(service.core, job.id, ADMIN, follow=False, streams=("stdout",), offsets={}, tail=0)
    ]
    shown = b"".join(chunks)
    assert shown.startswith(text[:50])
    assert shown.endswith(text[-50:])
    assert b"300 bytes were cut here" in shown


async def test_refusals_in_a_row_trip_the_breaker_and_a_start_closes_it(service: Service) -> None:
    agent = Agent(service)
    await agent.says()
    for _ in range(3):
        await submit(service, a_submission())
        [ref] = [offer.ref for offer in (await agent.says(want=1)).offers]
        await agent.says(rejects=((ref, "broken"),))
    assert service.core.fleet.member("east").cluster.standing is Standing.DEGRADED
    await submit(service, a_submission())
    [ref] = [offer.ref for offer in (await agent.says(want=1)).offers]
    await agent.says(accepts=(ref,))
    await agent.says(reports=(Report(ref=ref, state=AttemptState.RUNNING),))
    assert service.core.fleet.member("east").cluster.standing is Standing.ACTIVE


async def test_a_silent_agent_makes_its_cluster_unreachable_and_its_word_brings_it_back(service: Service) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    agent = Agent(service)
    await agent.says(manager="local")
    [job] = await submit(service, a_submission())
    clock.advance(500)
    await service.timers.tick()
    assert service.core.fleet.member("east").cluster.standing is Standing.UNREACHABLE
    assert await state(service, job.id) is JobState.QUEUED
    await agent.says(manager="local")
    await service.timers.tick()
    assert service.core.fleet.member("east").cluster.standing is Standing.ACTIVE


async def test_a_cluster_that_was_drained_stays_drained_when_its_agent_falls_silent_and_comes_back(
    service: Service,
) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    agent = Agent(service)
    await agent.says(manager="local")
    [job] = await submit(service, a_submission())
    ref = await agent.takes()
    await set_standing(service.core, "east", Standing.DRAINING, "maintenance")
    clock.advance(500)
    await service.timers.tick()
    attempt = await service.core.store.read(lambda tx: tx.attempt(job.id, ref.n))
    assert attempt is not None
    assert attempt.suspect  # nobody watches it now
    for _ in range(2):
        cluster = service.core.fleet.member("east").cluster
        assert (cluster.standing, cluster.drain_reason) == (Standing.DRAINING, "maintenance")
        await agent.says(held=((ref, AttemptState.ACCEPTED),))
        await service.timers.tick()


async def test_a_filter_hands_on_what_the_cluster_does_not_want(service: Service) -> None:
    await with_cluster(service, "west")
    small, large = await submit(service, a_submission(cores=1), a_submission(cores=4))
    agent = Agent(service)
    await agent.says()
    offers = (await agent.says(want=5, accept_only="cores <= 2")).offers
    assert [offer.ref.job for offer in offers] == [small.id]
    await service.scheduling_loop.decide_pending()
    assert (await jobs.get(service.core, large.id, ADMIN)).job.cluster == "west"


async def test_a_name_that_is_registered_again_does_not_know_the_old_agent(service: Service) -> None:
    await Agent(service).says()
    await registration.delete(service.core, "east")
    await with_cluster(service, "east")
    assert (await Agent(service, epoch="other.1").says()).resync


async def test_a_restarted_server_knows_whose_messages_are_over(service: Service) -> None:
    [job] = await submit(service, a_submission())
    first = Agent(service)
    await first.says()
    [ref] = [offer.ref for offer in (await first.says(want=1)).offers]
    service.agents._current_epochs.clear()  # as a new process begins
    service.agents._superseded_epochs.clear()
    second = Agent(service, epoch="a.2")
    await second.says()
    await second.says(accepts=(ref,))
    with pytest.raises(Conflict, match="was superseded by another"):
        await first.says(rejects=((ref, "said long ago, and late"),))
    assert await state(service, job.id) is JobState.BOUND


async def test_an_agent_may_speak_of_a_graph_that_was_just_replaced(service: Service) -> None:
    agent = Agent(service)
    await agent.says()
    graph = await reported_state.dominant(service.core, "east")
    node = next(graph.ids[i] for i, type in enumerate(graph.types) if type == "node")
    core = next(graph.ids[i] for i, type in enumerate(graph.types) if type == "core")
    await agent.says(facts=ReportedFacts(marks={node: "down", "gone": "down"}, used={core: 10_000, "gone-core": 1}))
    stored = service.core.fleet.member("east").cluster
    assert (stored.marks, stored.used) == ({node: "down"}, {core: graph.sizes[graph.positions()[core]]})


async def test_an_agent_without_its_journal_gets_in_though_all_others_are_silent_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        for name in ("east", "west", "north"):
            await with_cluster(service, name)
            await Agent(service, name).says(manager="local")
    async with a_service(tmp_path, clock=clock) as service:  # it knows their epochs, and has heard of none
        for _ in range(50):
            clock.advance(5.0)
            await service.timers.tick()  # most are silent at once: grace for all
            with contextlib.suppress(Conflict):
                await Agent(service, "east", epoch="b.1").says()
                return
    pytest.fail("it was refused for ever")


async def test_a_job_that_a_manager_lost_before_it_began_is_run_elsewhere_at_no_cost(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service)
    ref = await agent.takes()
    await agent.says(reports=(Report(ref=ref, state=AttemptState.SUBMITTED, native_id="77"),))
    await with_cluster(service, "west")
    reason = "Slurm accepted the job and lost it before it started"
    lost = Report(ref=ref, state=AttemptState.RETURNED, reason=reason)
    assert (await agent.says(reports=(lost,))).acked == (ref,)
    await service.scheduling_loop.decide_pending()
    view = (await jobs.get(service.core, job.id, ADMIN)).job
    assert (view.state, view.cluster, view.failures) == (JobState.BOUND, "west", 0)
