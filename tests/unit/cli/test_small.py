"""Times, ids, software, keys and exit codes: the small pure parts."""

import datetime
import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.cli.input.job_ids import resolve
from rainbow_sched.cli.input.software import requirement
from rainbow_sched.cli.main import run
from rainbow_sched.cli.render.times import format_age, format_clock, format_duration, format_stopwatch, parse_time
from rainbow_sched.cli.shell.attached_job import Interrupts, KeyAction
from rainbow_sched.cli.shell.exit_codes import EXIT_CODES_BY_ERROR, ExitCode, exit_code_of_error, exit_code_of_job
from rainbow_sched.client import JobFilter
from rainbow_sched.client.job_verbs import ACTIVE_STATES
from rainbow_sched.client.views import JobInfo
from rainbow_sched.model import errors
from rainbow_sched.model.errors import Invalid, RainbowError
from rainbow_sched.model.request import Equals, Within

NOW = datetime.datetime(2026, 11, 15, 17, 0).astimezone().timestamp()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (12.4, "12s"),
        (59.7, "1.0m"),
        (186, "3.1m"),
        (702, "11.7m"),
        (3599, "1.0h"),
        (9000, "2.5h"),
        (200000, "2.3d"),
    ],
)
def test_durations_are_short(seconds, shown):
    assert format_duration(seconds) == shown


@given(st.floats(0, 1e8))
def test_no_duration_needs_more_than_seven_characters(seconds):
    assert len(format_duration(seconds)) <= 7
    assert len(format_age(seconds)) <= 6


def test_times_of_day_say_the_day_when_it_is_another_one():
    assert format_clock(NOW + 60, NOW) == "17:01:00"
    assert format_clock(NOW + 86400, NOW) == "2026-11-16 17:00"
    assert format_stopwatch(3675) == "01:01:15"
    assert (format_age(3), format_age(14 * 60), format_age(90 * 60), format_age(3 * 86400)) == ("3s", "14m", "1h", "3d")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", NOW),
        ("+2h", NOW + 7200),
        ("30m", NOW + 1800),
        ("-1d", NOW - 86400),
        ("18:30", NOW + 5400),
        ("09:30", NOW + 16.5 * 3600),
        ("2026-11-15T17:10", NOW + 600),
        ("2026-11-15T12:00:00+00:00", datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC).timestamp()),
    ],
)
def test_moments_are_read_as_people_write_them(text, at):
    assert parse_time(text, NOW) == at


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "25:00", "0001-01-01", "+inf", "unlimited"])
def test_what_is_no_moment_says_what_one_is(text):
    with pytest.raises(Invalid, match="is not a time"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("now", "text", "at"),
    [
        ("2027-03-13T12:00-05:00", "09:00", "2027-03-14T09:00-04:00"),  # the clock is put forward in the night between
        ("2027-11-06T12:00-04:00", "09:00", "2027-11-07T09:00-05:00"),
        ("2027-03-13T12:00-05:00", "2027-03-14T02:30", "2027-03-14T03:30-04:00"),  # which no clock shows: never earlier
        ("2027-03-13T12:00-05:00", "2027-11-07T01:30", "2027-11-07T01:30-04:00"),  # which clocks show twice: the first
    ],
)
def test_a_time_of_day_is_what_the_clock_will_show_then(now, text, at, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert (
        parse_time(text, datetime.datetime.fromisoformat(now).timestamp())
        == datetime.datetime.fromisoformat(at).timestamp()
    )


class JobLister:
    """A client that records the filter of its only call, and returns these jobs."""

    def __init__(self, *jobs):
        self.stored, self.selected, self.limit = jobs, None, 0

    async def jobs(self, selected=None, *, limit):
        self.selected, self.limit = selected, limit
        return self.stored


RUNNING, OTHER, ENDED = (
    JobInfo(id=9, state="bound", native_id="88123"),
    JobInfo(id=7, state="queued", native_id="ƒ2eD4"),
    JobInfo(id=5, state="failed"),
)


@pytest.mark.parametrize(
    ("word", "stored", "selected", "ids"),
    [
        ("118", [], None, [118]),
        ("3-9", [RUNNING, ENDED], JobFilter(ids=range(3, 10)), [5, 9]),
        ("last", [RUNNING], None, [9]),
        ("all", [RUNNING, OTHER], JobFilter(states=ACTIVE_STATES), [9, 7]),
        ("all", [], JobFilter(states=ACTIVE_STATES), []),
        ("train", [RUNNING, OTHER, ENDED], JobFilter(name="train"), [9, 7]),
        ("train", [ENDED], JobFilter(name="train"), [5]),
        ("perl:88123", [RUNNING, OTHER], JobFilter(cluster="perl"), [9]),
        ("corona:ƒ2eD4", [RUNNING, OTHER], JobFilter(cluster="corona"), [7]),
        (":x", [RUNNING], JobFilter(name=":x"), [9]),
    ],
)
async def test_words_select_jobs(word, stored, selected, ids):
    client = JobLister(*stored)
    assert await resolve(client, [word]) == ids
    assert client.selected == selected
    assert client.limit == {"118": 0, "last": 1, "3-9": 10_000}.get(word, 10_000 if word[-1] in "34" else 1_000_000)


async def test_each_job_is_selected_once():
    assert await resolve(JobLister(RUNNING, ENDED), ["5", "3-9", "5"]) == [5, 9]


@pytest.mark.parametrize("word", ["3-9", "last", "train", "perl:1"])
async def test_a_word_that_selects_no_job_raises_not_found(word):
    with pytest.raises(errors.NotFound, match=f"there is no job '{word}'"):
        await resolve(JobLister(), [word])


@pytest.mark.parametrize(
    ("word", "why"),
    [("0", "start at 1"), ("9-3", "not a range"), ("1-99999999", "at most 10000"), (" ", "is empty")],
)
async def test_an_invalid_word_is_refused(word, why):
    with pytest.raises(Invalid, match=why):
        await resolve(JobLister(), [word])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("lammps", (Equals("name", "lammps"),)),
        ("lammps@2024.1", (Equals("name", "lammps"), Equals("version", "2024.1"))),
        ("lammps@>=2024", (Equals("name", "lammps"), Within("version", min="2024"))),
        ("a@<=3", (Equals("name", "a"), Within("version", max="3"))),
        ("a@1.2:1.4", (Equals("name", "a"), Within("version", min="1.2", max="1.4"))),
        ("a@1.2:", (Equals("name", "a"), Within("version", min="1.2"))),
        ("a +kokkos~mpi", (Equals("name", "a"), Equals("kokkos", True), Equals("mpi", False))),
        ("a arch=zen3", (Equals("name", "a"), Equals("arch", "zen3"))),
    ],
)
def test_software_becomes_terms_on_one_vertex(text, terms):
    assert requirement(text).terms == terms
    assert requirement(text).subsystem == "software"


@pytest.mark.parametrize("text", ["", "@2", "a@", "a@>=", "a b", "+x", "a@:"])
def test_software_that_cannot_be_read_says_how_to_write_it(text):
    with pytest.raises(Invalid):
        requirement(text)


@pytest.mark.parametrize("text", ["a@>=gcc", "a@<=latest", "a@main:", "a@1.2:main", "a@>=V2"])
def test_software_with_a_bound_that_is_no_version_is_refused(text):
    with pytest.raises(Invalid, match="is not a version"):
        requirement(text)


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


def test_two_interrupts_within_two_seconds_cancel_and_a_third_leaves():
    keys = Interrupts()
    assert [keys.interrupt(10.0), keys.interrupt(11.9), keys.interrupt(12.0)] == [
        KeyAction.WARN,
        KeyAction.CANCEL,
        KeyAction.LEAVE,
    ]


def test_two_interrupts_far_apart_only_warn():
    keys = Interrupts()
    assert [keys.interrupt(10.0), keys.interrupt(12.1), keys.interrupt(14.0)] == [
        KeyAction.WARN,
        KeyAction.WARN,
        KeyAction.CANCEL,
    ]


def test_stop_detaches_only_right_after_an_interrupt():
    keys = Interrupts()
    assert keys.stop(9.0) is KeyAction.SUSPEND
    keys.interrupt(10.0)
    assert keys.stop(11.0) is KeyAction.DETACH
    assert keys.stop(13.0) is KeyAction.SUSPEND


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 5)), max_size=8))
def test_no_order_of_keys_cancels_without_two_interrupts(keys):
    interrupts, now, pressed = Interrupts(), 0.0, 0
    for is_stop, later in keys:
        now += later
        act = interrupts.stop(now) if is_stop else interrupts.interrupt(now)
        pressed += not is_stop
        assert act is not KeyAction.CANCEL or pressed >= 2
        assert not (is_stop and act in (KeyAction.CANCEL, KeyAction.LEAVE))


def test_every_state_and_hold_has_a_letter():
    from rainbow_sched.cli.render.jobs import FILTERS, STATES, state_letter
    from rainbow_sched.model.attempt import AttemptState
    from rainbow_sched.model.job import Hold, JobState

    for state, hold, attempt in product(JobState, [*Hold, ""], [*AttemptState, ""]):
        job = {"state": str(state), "hold": str(hold), "attempt_state": str(attempt)}
        assert str(state) in STATES[state_letter(job)]
        assert (state_letter(job) in FILTERS["inactive"]) == state.terminal
        assert (state_letter(job) in FILTERS["active"]) != state.terminal


@pytest.mark.parametrize("words", [(), ("token",), ("register",)])
def test_a_group_without_a_command_shows_its_help_as_it_is(words, capsys):
    assert run(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("Usage: rainbow")
    assert told.count("\n") > 8


def test_a_word_that_is_no_command_is_answered_with_those_there_are(capsys):
    assert run(["register", "west", "--graph", "west.json"]) == 2
    assert "there is no command 'west'; use cluster, subsystem" in capsys.readouterr().err
    assert run(["token", "crate"]) == 2
    assert "did you mean create?" in capsys.readouterr().err


def test_a_number_that_is_none_is_called_so(capsys):
    assert run(["submit", "-N", "two", "--", "true"]) == 2
    assert "'two' is not a valid whole number" in capsys.readouterr().err


def test_an_option_before_the_command_is_told_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--server", "far:50051", "jobs"]) == 2
    assert "put --server after the command: rainbow COMMAND --server; see rainbow --help" in capsys.readouterr().err
