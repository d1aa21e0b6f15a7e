"""The limit on an owner's living jobs holds exactly, though they are seldom counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.submission.new_jobs import Quota
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import JobSelection, Tx
from tests.support.service import ADMIN, a_service, a_submission, submit


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_an_owner_never_has_more_than_the_limit_and_is_refused_only_at_it(tmp_path: Path, limit: int) -> None:
    rng = Random(limit)
    living: dict[str, list[int]] = {"ana": [], "eve": []}
    async with a_service(tmp_path, settings=Settings(policy="first", queued_per_owner=limit)) as service:
        for _ in range(120):
            owner, count = rng.choice(["ana", "eve"]), rng.randint(1, 2)
            if rng.random() < 0.4 and living[owner]:
                id = living[owner].pop(rng.randrange(len(living[owner])))
                await jobs.cancel(service.core, [id], None, ADMIN, "", dry_run=False)
            elif len(living[owner]) + count > limit:
                with pytest.raises(Exhausted, match=f"{owner} would have more than {limit} jobs"):
                    await submit(service, *[a_submission(owner) for _ in range(count)])
            else:
                made = await submit(service, *[a_submission(owner) for _ in range(count)])
                living[owner] += [receipt.id for receipt in made]


async def test_jobs_are_counted_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: Counter[str] = Counter()

    class Counting(Quota):
        def check(self, tx: Tx, owner: str, coming: int) -> None:
            real = type(tx).count_jobs

            def count(self: Tx, which: JobSelection) -> object:
                counted.update(which.owners)
                return real(self, which)

            with monkeypatch.context() as patch:
                patch.setattr(type(tx), "count_jobs", count)
                super().check(tx, owner, coming)

    async with a_service(tmp_path) as service:
        service.intake._quota = Counting(1_000)
        for _ in range(400):
            await submit(service, a_submission("ana"))
        assert counted["ana"] < 5
        service.intake._quota = Counting(401)
        await submit(service, a_submission("ana"))
        for _ in range(20):  # nothing has ended since
            with pytest.raises(Exhausted):
                await submit(service, a_submission("ana"))
        assert counted["ana"] < 8
