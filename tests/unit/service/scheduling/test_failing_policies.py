"""A policy of somebody else's that raises what no policy should: its callers hear of it, and nobody else does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.selection.policies import POLICIES, PolicyError, PolicyTable
from rainbow_sched.service.views import jobs
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


class Cancelling:
    """Raises what asyncio raises in a task that is cancelled."""

    wants_bids = False

    def rank(self, *_: object) -> NoReturn:
        raise asyncio.CancelledError


async def test_a_policy_that_raises_a_cancellation_leaves_nobody_waiting(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        table = MappingProxyType({**POLICIES, "strange": lambda options: Cancelling()})
        service.core.policies = PolicyTable(table)
        strange = a_submission(terms=Terms(policy="strange"))
        async with asyncio.timeout(20):
            answers = await asyncio.gather(
                submit(service, strange), submit(service, a_submission()), return_exceptions=True
            )
            assert isinstance(answers[0], PolicyError)
            assert not isinstance(answers[1], BaseException)
            [held] = await submit(service, a_submission(terms=Terms(policy="strange", hold=True)))
            await jobs.release(service.core, held.id, ADMIN)
            await service.scheduling_loop.decide_pending()
        view = await jobs.get(service.core, held.id, ADMIN)
        assert view.job.state is JobState.INFEASIBLE
        assert "CancelledError" in view.job.reason
