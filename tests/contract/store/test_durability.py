"""What was acknowledged is there after `kill -9` of the writing process, at any moment."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from rainbow_sched.store import open_store
from rainbow_sched.store.base import JobSelection, Tx

CYCLES = 4
ROOT = Path(__file__).parents[3]


def acknowledged_before_kill(url: str, owner: str, lines: int) -> dict[int, str]:
    """Run a writing process and kill it after so many acknowledgements; all that it printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contract.store.writing_process", url, owner], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        head = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
    told = [line.decode().split() for line in [*head, *rest] if line.endswith(b"\n")]
    return {int(id): key for id, key in told}


async def test_nothing_acknowledged_is_lost_and_numbers_stay_gapless(url: str) -> None:
    total = 0
    for cycle in range(CYCLES):
        owner = f"cycle{cycle}"
        acknowledged = await asyncio.to_thread(acknowledged_before_kill, url, owner, 40 + 23 * cycle)

        def check(tx: Tx, owner: str = owner, acknowledged: dict[int, str] = acknowledged) -> None:
            found = tx.jobs_by_tokens(owner, list(acknowledged.values()))
            assert {job.id: key for key, job in found.items()} == acknowledged
            assert all(f'"{job.client_token}"' in job.spec for job in found.values())
            count = sum(tx.count_jobs(JobSelection()).values())
            assert tx.last_seq() == count
            assert [e.seq for e in tx.events(0, count + 9)] == list(range(1, count + 1))

        store = await open_store(url)
        await store.read(check)
        await store.close()
        total += len(acknowledged)
    assert total >= 40 * CYCLES
