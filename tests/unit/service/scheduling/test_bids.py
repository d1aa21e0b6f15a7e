"""Bids over the Sync: slow, silent, refusing, lying and late agents, and what the decision says of each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.bid import TrackRecord
from rainbow_sched.model.decision import Decision
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, BidAnswer, Report
from rainbow_sched.selection.decisions import replay
from rainbow_sched.service.agents.presence import Presence
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.scheduling.bids import BidCollector
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from tests.support.agents import sync_request
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

Values = dict[str, float | None]


def starts_in(seconds: float, cost: float | None = None, valid_for: float = 60.0) -> Values:
    return {"start_p50": seconds, "start_p90": seconds * 2, "cost": cost, "valid_for": valid_for}


@dataclass
class Bidder:
    """An agent that answers each bid request by a script; None: it says nothing."""

    service: Service
    cluster: str
    script: Callable[[], Values | str | None]
    asked: int = 0
    seq: int = 0
    _answers: list[tuple[str, BidAnswer]] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            self.seq += 1
            said, self._answers = tuple(self._answers), []
            request = sync_request(self.cluster, "e.1", self.seq, bids=said, wait=20.0)
            reply = await self.service.agents.sync(request, "server")
            for question in reply.bid_requests:
                self.asked += 1
                self._answer(question.id, self.script())
            await asyncio.sleep(0 if self._answers or not reply.bid_requests else 0.01)

    def _answer(self, id: str, said: Values | str | None) -> None:
        if isinstance(said, str):
            self._answers.append((id, BidAnswer(yes=False, reason=said, valid_for=60.0)))
        elif said is not None:
            self._answers.append((id, BidAnswer(yes=True, **said)))  # type: ignore[arg-type]  # numbers, bad ones too


@contextlib.asynccontextmanager
async def a_fleet(
    folder: Path, clock: ManualClock, /, deadline: float = 20.0, **scripts: Callable[[], Values | str | None]
) -> AsyncIterator[tuple[Service, dict[str, Bidder]]]:
    """A service with the policy `start` and an agent for each script."""
    settings = Settings(policy="start", bid_deadline=deadline)
    async with a_service(folder, settings=settings, clock=clock) as service:
        bidders = {}
        tasks = []
        for name, script in scripts.items():
            await with_cluster(service, name, nodes=8, cores=64)
            bidders[name] = Bidder(service, name, script)
            tasks.append(asyncio.create_task(bidders[name].run()))
        while set(scripts) - service.core.presence.reachable(clock.now()):
            await asyncio.sleep(0)
        try:
            yield service, bidders
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, NotFound):  # its cluster may have been deleted
                    await task


async def decided(service: Service, **terms: object) -> tuple[jobs.JobWithAttempt, Decision]:
    [receipt] = await submit(service, a_submission(terms=Terms(**terms)))  # type: ignore[arg-type]
    assert receipt.state is JobState.QUEUED
    await service.scheduling_loop.decide_pending()
    view = await jobs.get(service.core, receipt.id, ADMIN)
    record = await service.core.store.read(lambda tx: tx.decision(receipt.id))
    assert record is not None
    return view, record.decision()


async def test_the_earliest_bid_wins_and_the_record_replays(tmp_path: Path) -> None:
    async with a_fleet(
        tmp_path, ManualClock(), slow=lambda: starts_in(600), soon=lambda: starts_in(5), never=lambda: "closed today"
    ) as (service, _):
        view, decision = await decided(service)
        assert view.job.cluster == "soon"
        rows = {row.name: row for row in decision.rows()}
        assert "closed today" in rows["never"].reason
        assert replay(decision.to_json()).winner == "soon"


async def test_a_silent_cluster_is_judged_on_its_state_and_the_decision_says_so(tmp_path: Path) -> None:
    async with a_fleet(tmp_path, ManualClock(), 0.3, quiet=lambda: None, soon=lambda: starts_in(5)) as (service, _):
        _, decision = await decided(service)
        notes = {row.name: " ".join(row.notes) for row in decision.rows()}
        assert "silent" in notes["quiet"]


async def test_answers_are_kept_for_the_next_job_of_the_same_shape_until_they_expire(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_fleet(tmp_path, clock, soon=lambda: starts_in(5, valid_for=30)) as (service, bidders):
        await decided(service)
        await decided(service)
        assert bidders["soon"].asked == 1
        clock.advance(31)
        await decided(service)
        assert bidders["soon"].asked == 2


async def test_an_invalid_bid_does_no_harm(tmp_path: Path) -> None:
    mad: Values = {"start_p50": -5.0, "start_p90": float("nan"), "cost": 1e300, "valid_for": 1e9}
    async with a_fleet(tmp_path, ManualClock(), mad=lambda: mad, soon=lambda: starts_in(5)) as (service, _):
        view, decision = await decided(service)
        assert view.job.cluster == "soon"
        assert "its bid is invalid" in {row.name: row.reason for row in decision.rows()}["mad"]


async def test_the_cheapest_wins_when_cost_is_preferred_and_what_is_too_dear_is_left_out(tmp_path: Path) -> None:
    async with a_fleet(
        tmp_path, ManualClock(), dear=lambda: starts_in(1, cost=90.0), cheap=lambda: starts_in(500, cost=4.0)
    ) as (service, _):
        view, _ = await decided(service, prefer="cost")
        assert view.job.cluster == "cheap"
        view, decision = await decided(service, max_cost=1.0)
        assert view.job.state is JobState.HELD
        assert "4.00" in " ".join(row.reason for row in decision.rows())


async def test_when_every_cluster_says_no_the_job_waits_even_one_that_is_in_haste(tmp_path: Path) -> None:
    async with a_fleet(tmp_path, ManualClock(), no=lambda: "not today") as (service, _):
        waits, _ = await decided(service)
        assert (waits.job.state, "not today" in waits.job.reason) == (JobState.HELD, True)
        in_haste, _ = await decided(service, fail_fast=True)  # no cluster could ever run it: that is not so
        assert in_haste.job.state is JobState.HELD


async def test_a_bidder_that_is_always_three_times_too_optimistic_no_longer_wins(tmp_path: Path) -> None:
    """The liar promises 100 s and takes 300; the honest one promises and takes 200."""
    clock = ManualClock()
    promised, taken = {"liar": 100.0, "honest": 200.0}, {"liar": 300.0, "honest": 200.0}
    async with a_fleet(
        tmp_path, clock, liar=lambda: starts_in(100, valid_for=1), honest=lambda: starts_in(200, valid_for=1)
    ) as (service, bidders):
        won = []
        for _ in range(50):
            view, _ = await decided(service)
            won.append(view.job.cluster)
            await run_to_its_end(service, view, bidders[view.job.cluster], clock, taken[view.job.cluster])
        assert won[0] == "liar"
        assert set(won[-10:]) == {"honest"}
        record = TrackRecord.from_mapping(service.core.fleet.member("liar").cluster.record)
        assert record.p90_held is not None
        assert record.p90_held < 0.5
        assert promised["liar"] < promised["honest"]


async def run_to_its_end(
    service: Service, view: jobs.JobWithAttempt, bidder: Bidder, clock: ManualClock, waits: float
) -> None:
    """Let a job start after `waits` seconds and end."""
    assert view.attempt is not None
    attempt = view.attempt
    ref = AttemptRef(attempt.job, attempt.n, attempt.token)

    async def says(**fields: object) -> None:
        bidder.seq += 1
        await service.agents.sync(sync_request(attempt.cluster, "e.1", bidder.seq, **fields), "server")

    await says(want=1)
    await says(accepts=(ref,))
    clock.advance(waits)
    await says(reports=(Report(ref=ref, state=AttemptState.RUNNING),))
    await says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))


@pytest.mark.parametrize("policy", ["start", "cost", "weighted"])
async def test_policies_that_want_bids_decide_without_any_agent(tmp_path: Path, policy: str) -> None:
    options = {"weights": "0.6*start + 0.4*cost"} if policy == "weighted" else {}
    settings = Settings(policy=policy, policy_options=options, bid_deadline=0.05)
    async with a_service(tmp_path, settings=settings) as service:
        await with_cluster(service, "east")
        [receipt] = await submit(service, a_submission())
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, receipt.id, ADMIN)).job.state is JobState.BOUND


async def test_a_bid_that_came_late_serves_the_next_decision_and_is_said_to_be_late(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_fleet(tmp_path, clock, 0.2, slow=lambda: None) as (service, bidders):
        _, decision = await decided(service)
        assert "silent" in " ".join(next(decision.rows()).notes)
        clock.advance(1)
        bidders["slow"].script = lambda: starts_in(30)
        while not service.core.bidding._cache:
            await asyncio.sleep(0)
        _, decision = await decided(service)
        [row] = decision.rows()
        assert row.bid is not None
        assert "its bid came late, 1 s ago" in row.notes


async def test_no_more_clusters_are_asked_than_configured(tmp_path: Path) -> None:
    async with a_fleet(tmp_path, ManualClock(), **{f"c{i}": lambda: starts_in(5) for i in range(4)}) as (service, all):
        _, silent = await BidCollector(service.core.notifier, service.core.clock, 0.05, 2).ask(
            "{}", sorted(all), set(all)
        )
        asked = [name for name, why in silent.items() if why.startswith("silent for")]
        assert (asked, silent["c2"]) == (["c0", "c1"], "not asked: 2 others were")


async def test_a_name_that_is_registered_again_inherits_no_bid_and_no_presence(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_fleet(tmp_path, clock, east=lambda: starts_in(900, valid_for=3600)) as (service, bidders):
        await decided(service)
        assert bidders["east"].asked == 1
        await registration.delete(service.core, "east")
        await with_cluster(service, "east", nodes=8, cores=64)
        assert service.core.presence.last_contact("east") is None
        bids, _ = await service.core.bidding.ask(a_submission().request.text, ["east"], ())
        assert bids == {}


def test_an_agent_that_was_answered_a_moment_ago_is_asked_and_one_that_stays_away_is_not() -> None:
    presence = Presence(heartbeat=10.0, grace=30.0, started_at=0.0)
    presence.sync_started("between", 1.0)
    presence.sync_ended("between", 100.0)
    presence.sync_started("waiting", 1.0)
    assert presence.reachable(100.5) == {"between", "waiting"}
    assert presence.reachable(102.0) == {"waiting"}
