"""Which Slurm job is the attempt, and where it is, by Slurm's word and the job's own files."""

from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.batch import first_job
from rainbow_sched.agent.backends.common.batch_script import bad_environment
from rainbow_sched.agent.backends.slurm.files import (
    CLOCK_SKEW_SECONDS,
    SETTLE_SECONDS,
    SlurmFiles,
    SlurmRecord,
    overdue,
    same_submission,
    step_words,
    update_of,
)
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState, Failure

RECORD = SlurmRecord(key="k", asked=1000.0, duration=60.0)
OURS = "rainbow:c:rb-1-1:k"


def a_job(id: int = 7, **fields: object) -> SlurmJob:
    given = {"user": 0, "state": "RUNNING", "name": "rb-1-1", "comment": OURS, "submitted": 1001.0, **fields}
    return SlurmJob(native=str(id), **given)


def a_launch(**flags: object) -> Launch:
    request = request_from_flags(Flags(command=("true",), **flags))
    return Launch(tag="rb-1-1", job=1, attempt=1, cluster="c", request=request)


@pytest.fixture
def files(tmp_path: Path) -> SlurmFiles:
    made = SlurmFiles(tmp_path, "rb-1-1")
    made.create(RECORD)
    made.write(a_launch(), RECORD, ())
    return made


def began(files: SlurmFiles, id: int = 7) -> None:
    (files.path / "started").write_text(f"{id}\n")


def left(files: SlurmFiles, code: int, cause: str = "exit") -> None:
    (files.path / "exit").write_text(f"{code} 1002 1003 {cause}\n")


def test_the_job_that_began_counts_whatever_else_has_the_tag():
    assert first_job([a_job(7), a_job(8), a_job(9)], "8").native == "8"
    assert first_job([a_job(7)], "withdrawn") is None


def test_before_it_began_the_first_that_lives_counts():
    assert first_job([a_job(10), a_job(9), a_job(7, state="FAILED")], None).native == "9"


def test_a_job_with_another_key_is_another_job_even_under_the_same_id():
    assert same_submission(a_job(), RECORD)
    assert not same_submission(a_job(comment="rainbow:c:rb-1-1:other"), RECORD)


def test_where_comments_are_rewritten_the_time_of_submission_decides():
    assert same_submission(a_job(comment="x"), RECORD)
    assert not same_submission(a_job(comment="x", submitted=RECORD.asked - CLOCK_SKEW_SECONDS - 1), RECORD)


def test_a_job_that_slurm_forgot_is_known_by_its_exit_code(files: SlurmFiles):
    began(files)
    assert update_of(files, None, 2000.0) is None
    left(files, 6)
    update = update_of(files, None, 2000.0)
    assert (update.phase, update.native, update.result.exit_code) == (Phase.ENDED, "7", 6)


def test_a_job_that_slurm_started_twice_is_unknown_after_a_while_and_not_before(files: SlurmFiles):
    began(files)
    again = a_job(state="FAILED", code=113, ended=2000.0)
    assert update_of(files, again, 2000.0 + SETTLE_SECONDS - 1) is None
    assert update_of(files, again, 2000.0 + SETTLE_SECONDS + 1).result.failure is Failure.UNKNOWN
    left(files, 0)
    assert update_of(files, again, 2001.0).result.state is AttemptState.SUCCEEDED


def test_who_cancelled_it_is_said(files: SlurmFiles):
    cancelled = a_job(state="CANCELLED", started=1001.0)
    assert "not by Rainbow" in update_of(files, cancelled, 0.0).result.reason
    files.request_end()
    assert update_of(files, cancelled, 0.0).result.reason == "cancelled"


def test_a_limit_that_was_passed_is_named(files: SlurmFiles):
    left(files, 124, "time-limit")
    assert "60 s" in update_of(files, a_job(state="FAILED"), 0.0).result.reason


def test_a_forgotten_job_is_waited_for_until_its_limit_has_passed(files: SlurmFiles):
    assert overdue(files, 0.0)
    began(files)
    start = files.begun_at()
    assert not overdue(files, start + 60 + CLOCK_SKEW_SECONDS - 1)
    assert overdue(files, start + 60 + CLOCK_SKEW_SECONDS + 1)
    files.put(replace(RECORD, duration=None))
    assert not overdue(files, start + 1800)


def test_the_users_words_are_never_text_of_the_batch_script(tmp_path: Path):
    words = ("sh", "-c", "#SBATCH --uid=0\n$(touch x) '\"`y`")
    launch = a_launch()
    task = replace(launch.request.tasks[0], command=words)
    files = SlurmFiles(tmp_path, "rb-1-1")
    request = replace(launch.request, tasks=(task,), environment={"A": "x'\n#SBATCH -n9"})
    files.create(RECORD)
    files.write(replace(launch, request=request), RECORD, ())
    first_command = next(line for line in files.script.read_text().splitlines() if not line.startswith("#"))
    assert first_command.startswith("dir=")  # sbatch reads no directive after it
    assert "#SBATCH -n9" not in files.script.read_text()
    assert files.command() == "sh"


@pytest.mark.parametrize(("name", "fine"), [("A_1", True), ("1A", False), ("A-B", False), ("É", False), ("A;B", False)])
def test_only_names_that_a_shell_can_export_are_taken(name, fine):
    assert (bad_environment({name: "x"}) is None) is fine


def test_several_tasks_share_what_the_job_has():
    assert step_words(1, 1, 1) == ()
    assert step_words(4, 2, 4)[:3] == ("srun", "--ntasks=4", "--cpus-per-task=2")
    assert step_words(1, 2, 4, component=1)[:4] == ("srun", "--het-group=1", "--ntasks=1", "--cpus-per-task=8")
