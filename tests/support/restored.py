"""Databases that are restored to an older copy, and agents that know newer attempts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.job import Job, Terms
from rainbow_sched.protocol.messages import AttemptRef, KnownAttempt, Recall, RecalledOffer, Report, SyncAnswer
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from tests.support.agents import sync_request
from tests.support.database import NAME
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_request, a_service


class Agent:
    """The agent of one cluster across restores; it keeps its mark, as the real one does."""

    def __init__(self, cluster: str = "east", epoch: str = "a.1") -> None:
        self.cluster, self.epoch, self.seq, self.mark = cluster, epoch, 0, ""

    async def says(self, service: Service, **values: object) -> SyncAnswer:
        self.seq += 1
        values = {"recalls": True, "mark": self.mark, **values}
        answer = await service.agents.sync(sync_request(self.cluster, self.epoch, self.seq, **values), "server")
        self.mark = answer.mark or self.mark
        return answer

    async def takes(self, service: Service) -> AttemptRef:
        """Take one offer to the point where it is confirmed."""
        ref = await self.is_offered(service)
        assert (await self.says(service, accepts=(ref,))).confirms == (ref,)
        return ref

    async def is_offered(self, service: Service) -> AttemptRef:
        offers = (await self.says(service, want=1)).offers or (await self.says(service, want=1)).offers
        return offers[0].ref

    async def recalls(self, service: Service, *known: KnownAttempt, **fields: object) -> SyncAnswer:
        """Receive the request for a recall, and send the recall."""
        asked = await self.says(service)
        assert asked.recall, "it is asked"
        assert asked.resync
        out = await self.says(service, recall=Recall(attempts=known, complete=True), **fields)
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()
        return out


@asynccontextmanager
async def serving(folder: Path, clock: ManualClock, seed: int = 1) -> AsyncIterator[Service]:
    async with a_service(folder, clock=clock, settings=Settings(policy="first", heartbeat=20.0), seed=seed) as made:
        yield made


def copied(folder: Path) -> bytes:
    """A consistent copy of the database while it serves."""
    source, target = sqlite3.connect(folder / NAME), sqlite3.connect(":memory:")
    source.backup(target)
    data = target.serialize()
    source.close()
    target.close()
    return data


def put_back(folder: Path, copy: bytes) -> None:
    """Replace the database by an older copy."""
    for name in (f"{NAME}-wal", f"{NAME}-shm"):
        (folder / name).unlink(missing_ok=True)
    (folder / NAME).write_bytes(copy)


async def job_of(service: Service, id: int) -> Job:
    return (await jobs.get(service.core, id, ADMIN)).job


def ended(ref: AttemptRef, state: AttemptState = AttemptState.SUCCEEDED) -> KnownAttempt:
    code = 0 if state is AttemptState.SUCCEEDED else 3
    failure = Failure.EXIT if state is AttemptState.FAILED else None
    report = Report(ref=ref, state=state, exit_code=code, failure=failure, ended_at=5.0)
    return KnownAttempt(ref=ref, phase="ended", report=report)


def running(ref: AttemptRef, **offer: str) -> KnownAttempt:
    spec = to_json(a_request())
    said = {"name": "job", "owner": "ana", "spec": spec, "terms": json.dumps(asdict(Terms())), **offer}
    return KnownAttempt(ref=ref, phase="confirmed", offer=RecalledOffer(**said))
