"""What becomes of jobs that Slurm took and no longer knows: by accounting, by a marker, by signs of life."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.batch_script import WITHDRAWN
from rainbow_sched.agent.backends.slurm.files import (
    FAILURE_PAUSE_SECONDS,
    LostJobs,
    SlurmFiles,
    SlurmRecord,
    parse_accounts,
    update_of,
)
from rainbow_sched.agent.core.values import Absent, JobFound, Unknown
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Invalid, Unavailable

RECORD = SlurmRecord(key="k", asked=1000.0, native="7", duration=600.0)
SETTLE_SECONDS = 60.0


class SlurmSite:
    """A clock, an accounting that answers as it is told, and one job."""

    def __init__(self, directory: Path) -> None:
        self.time, self.said, self.questions = 5000.0, "", 0
        self.files = SlurmFiles(directory, "rb-1-1")
        request = request_from_flags(Flags(command=("true",)))
        launch = Launch(tag="rb-1-1", job=1, attempt=1, cluster="c", request=request, array_index=4)
        self.files.create(RECORD)
        self.files.write(launch, RECORD, ())
        self.forgotten = LostJobs(self, SETTLE_SECONDS, self.clock, lambda: 1010.0)  # it needs `ask` alone

    def clock(self) -> float:
        return self.time

    async def ask(self, *words: str) -> str:
        self.questions += 1
        if not self.said:
            raise Invalid("Slurm refuses: Slurm accounting storage is disabled")
        return self.said

    async def look(self) -> JobFound | Absent | Unknown:
        return await self.forgotten.look(self.files)

    def begin(self) -> None:
        (self.files.path / "started").write_text("7\n")

    def beat(self) -> None:
        (self.files.path / "alive").touch()
        os.utime(self.files.path / "alive", (self.time, self.time))


@pytest.fixture
def site(tmp_path: Path) -> SlurmSite:
    return SlurmSite(tmp_path)


async def test_a_job_that_never_began_goes_elsewhere_and_cannot_begin_any_more(site: SlurmSite):
    found = await site.look()
    assert isinstance(found, JobFound)
    assert found.update.result.state is AttemptState.RETURNED
    assert site.files.begun() == WITHDRAWN, "its script ends at once if Slurm starts it after all"
    assert update_of(site.files, None, 2000.0) == found.update


async def test_one_that_was_to_be_cancelled_is_cancelled(site: SlurmSite):
    site.files.request_end()
    assert (await site.look()).update.result.state is AttemptState.CANCELLED


async def test_a_job_of_which_nobody_knows_whether_sbatch_took_it_may_be_submitted(site: SlurmSite):
    site.files.put(replace(RECORD, native=""))
    assert await site.look() == Absent(never=True)
    assert site.files.begun() is None


async def test_a_job_that_began_is_waited_for_while_it_gives_signs_of_life(site: SlurmSite):
    site.begin()
    for _ in range(20):
        site.beat()
        assert isinstance(await site.look(), Unknown)
        site.time += SETTLE_SECONDS / 2


async def test_when_the_signs_stay_out_it_ended_and_nobody_knows_how(site: SlurmSite):
    site.begin()
    site.beat()
    assert isinstance(await site.look(), Unknown)
    site.time += SETTLE_SECONDS - 1
    assert isinstance(await site.look(), Unknown)
    site.time += 2
    result = (await site.look()).update.result
    assert (result.state, result.failure) == (AttemptState.FAILED, Failure.UNKNOWN)


async def test_output_is_a_sign_of_life(site: SlurmSite):
    site.begin()
    site.beat()
    await site.look()
    site.time += SETTLE_SECONDS + 1
    (site.files.path / "stdout").write_text("still here")
    assert isinstance(await site.look(), Unknown)


async def test_a_script_without_signs_of_life_is_waited_for_until_its_limit(site: SlurmSite):
    site.begin()
    for _ in range(5):
        assert isinstance(await site.look(), Unknown)
        site.time += 10 * SETTLE_SECONDS


@pytest.mark.parametrize(
    ("state", "code", "wanted", "exit_code"),
    [
        ("COMPLETED", "0:0", AttemptState.SUCCEEDED, 0),
        ("FAILED", "3:0", AttemptState.FAILED, 3),
        ("FAILED", "0:9", AttemptState.FAILED, 137),
        ("CANCELLED by 1000", "0:15", AttemptState.CANCELLED, 143),
        ("NODE_FAIL", "0:0", AttemptState.FAILED, None),
    ],
)
async def test_accounting_tells_how_it_ended(
    site: SlurmSite, state: str, code: str, wanted: AttemptState, exit_code: int
):
    site.begin()
    site.said = f"7|rb-1-1|{state}|{code}|1001|1002|1009\n"
    result = (await site.look()).update.result
    assert (result.state, result.exit_code, result.started_at) == (wanted, exit_code, 1002.0)


async def test_accounting_of_another_job_with_the_same_id_says_nothing(site: SlurmSite):
    site.begin()
    others = (
        "7|other|FAILED|3:0|1001|1002|1009",
        "7|rb-1-1|FAILED|3:0|12|13|14",
        "7|rb-1-1|RUNNING|0:0|1001|1002|Unknown",
    )
    for line in others:
        site.said = f"{line}\n"
        assert isinstance(await site.look(), Unknown)
    assert [job.state for job in parse_accounts("x\n7.batch|a|b|c|d|e|f\n")] == []


async def test_a_site_without_accounting_is_not_asked_again_and_again(site: SlurmSite):
    site.begin()
    for _ in range(5):
        await site.look()
    assert site.questions == 1
    site.time += FAILURE_PAUSE_SECONDS + 1
    await site.look()
    assert site.questions == 2


async def test_a_controller_that_is_down_is_no_answer_of_accounting(site: SlurmSite, monkeypatch: pytest.MonkeyPatch):
    async def down(*words: str) -> str:
        raise Unavailable("Slurm does not answer")

    site.begin()
    monkeypatch.setattr(site, "ask", down)
    assert isinstance(await site.look(), Unknown)


def test_an_element_of_an_array_finds_its_number_where_sbatch_puts_it(site: SlurmSite):
    assert "export SLURM_ARRAY_TASK_ID=4\n" in (site.files.path / "environment").read_text()
