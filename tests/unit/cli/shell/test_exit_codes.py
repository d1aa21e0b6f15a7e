"""Exit codes of errors and of ended jobs."""

import pytest

from rainbow_sched.cli.shell.exit_codes import EXIT_CODES_BY_ERROR, ExitCode, exit_code_of_error, exit_code_of_job
from rainbow_sched.model import errors
from rainbow_sched.model.errors import RainbowError


def test_every_error_has_an_exit_code_and_subclasses_come_before_their_base():
    known = {cls for cls, _, _ in EXIT_CODES_BY_ERROR}
    ours = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, RainbowError)}
    assert ours - known == {errors.TooLarge, errors.Unconfirmed}  # an Invalid, and an Unavailable
    assert exit_code_of_error(errors.TooLarge("x")) == (ExitCode.USAGE, "invalid")
    for at, (cls, _, _) in enumerate(EXIT_CODES_BY_ERROR):
        assert not any(issubclass(later, cls) for later, _, _ in EXIT_CODES_BY_ERROR[at + 1 :])


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.Invalid, 2), (errors.Impossible, 3), (errors.NotFound, 4), (errors.Denied, 5), (errors.Unauthenticated, 5),
     (errors.Unavailable, 6), (errors.Conflict, 1)],
)  # fmt: skip
def test_exit_codes_are_those_of_the_documentation(error, code):
    assert exit_code_of_error(error("x"))[0] == code


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"state": "succeeded", "exit_code": 0}, 0),
        ({"state": "succeeded"}, 0),
        ({"state": "failed", "exit_code": 3}, 3),
        ({"state": "failed", "exit_code": -9}, 137),
        ({"state": "failed", "exit_code": 300}, 255),
        ({"state": "failed", "exit_code": 137, "failure": "time-limit"}, 124),
        ({"state": "expired"}, 124),
        ({"state": "cancelled"}, 130),
        ({"state": "cancelled", "exit_code": -15}, 143),
        ({"state": "infeasible"}, 125),
        ({"state": "failed"}, 125),
        ({"state": "failed", "started_at": "2026-11-15T17:00:00Z"}, 1),
        ({"state": "failed", "exit_code": 0, "started_at": "2026-11-15T17:00:00Z"}, 1),
        ({"state": "handed_off"}, 1),
    ],
)
def test_a_jobs_end_becomes_its_own_exit_code(job, code):
    assert exit_code_of_job(job) == code
