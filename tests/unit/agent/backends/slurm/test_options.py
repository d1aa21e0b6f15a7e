"""Options by allow-list, squeue's lines, ends, bids and errors."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common.programs import ProgramResult
from rainbow_sched.agent.backends.slurm.backend import StartEstimate, StartEstimates, parse_test
from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.jobs import (
    _FIELDS,
    JobComment,
    ScriptExit,
    ours,
    parse_jobs,
    read_comment,
    result,
    wait_status,
)
from rainbow_sched.agent.backends.slurm.options import option_words
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported


def test_the_sites_names_are_defaults_and_a_map_and_the_users_word_wins():
    site = {"partition": "main", "account": "lab", "partition.gpu": "gpu-a100", "qos": "low"}
    words = option_words({"queue": "gpu", "qos": "high", "output": "x.log"}, site)
    assert words == ["--partition=gpu-a100", "--account=lab", "--qos=high"]


def test_features_join_a_simple_constraint_and_no_other():
    made = frozenset({"ib", "avx"})
    assert option_words({"constraint": "big"}, {}, features=made) == ["--constraint=big&avx&ib"]
    with pytest.raises(Unsupported, match="cannot be joined"):
        option_words({"constraint": "a|b"}, {}, features=made)


def test_extra_words_pass_only_if_the_site_allows_them():
    assert option_words({"extra": "--nice=5 --contiguous"}, {}) == ["--nice=5", "--contiguous"]
    assert option_words({"extra": "--requeue"}, {"allow_extra": "requeue"}) == ["--requeue"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"extra": "--uid=0"}, "does not allow --uid"),
        ({"extra": "-p main"}, "not '-p'"),
        ({"extra": "--nice='$(x)'"}, "not allowed"),
        ({"extra": "--nice='"}, "cannot be parsed"),
        ({"account": "a b"}, "characters"),
        ({"account": "--uid=0\n"}, "characters"),
        ({"mail-user": "x"}, "unknown option 'mail-user'"),
    ],
)
def test_anything_else_is_refused(options, reason):
    with pytest.raises(Unsupported, match=reason):
        option_words(options, {})


def a_line(**values: object) -> str:
    given = {"JobID": 7, "UserID": 1000, "State": "RUNNING", "Name": "rb-1-1", "exit_code": 0, **values}
    return "".join(f"{given.get(name, '')!s:<{width}}"[:width] for name, width in _FIELDS.items())


def test_a_line_of_squeue_is_read_by_width_so_no_name_can_pose_as_a_field():
    line = a_line(Name="x UserID=0 rb-1-1", Comment="rainbow:c:rb-1-1:k", SubmitTime=100, NodeList="n[1-2]")
    (job,) = parse_jobs(line + "\nslurm: some warning\n")
    assert (job.user, job.name, job.submitted, job.hosts()) == (1000, "x UserID=0 rb-1-1", 100.0, ["n1", "n2"])


def test_only_jobs_of_our_user_with_our_mark_are_ours():
    lines = [
        a_line(JobID=1, Comment="rainbow:c:rb-1-1:k"),
        a_line(JobID=2, UserID=0, Comment="rainbow:c:rb-1-1:k"),
        a_line(JobID=3, Comment="rainbow:other:rb-1-1:k"),
        a_line(JobID=4, Comment="rainbow:c:rb-2-1:k"),
        a_line(JobID=5, Comment="rewritten by the site"),
        a_line(JobID=6, Name="mine"),
    ]
    found = ours(parse_jobs("\n".join(lines)), 1000, "c")
    assert {tag: [job.native for job in jobs] for tag, jobs in found.items()} == {"rb-1-1": ["1", "5"]}


def test_components_are_one_job_with_the_first_ones_id_and_all_their_nodes():
    lines = [
        a_line(JobID=13, HetJobID=12, NodeList="n[2-3]", State="COMPLETED"),
        a_line(JobID=12, HetJobID=12, NodeList="n1"),
        a_line(JobID=14, HetJobID=12, NodeList="n4"),
        a_line(JobID=20, HetJobID="N/A", NodeList="n9"),
        a_line(JobID=31, HetJobID=30, NodeList="n8"),  # its first component is gone
    ]
    first, other = parse_jobs("\n".join(lines))
    assert (first.native, [part.native for part in first.parts], first.phase) == ("12", ["13", "14"], Phase.RUNNING)
    assert first.whole_node_list == "n1,n[2-3],n4"
    assert (other.native, other.parts, other.whole_node_list) == ("20", (), "n9")


@pytest.mark.parametrize("nodes", ["", "(null)", "n" * 600])
def test_a_component_whose_nodes_are_not_known_makes_those_of_the_job_unknown(nodes: str):
    lines = [a_line(JobID=12, HetJobID=12, NodeList="n1"), a_line(JobID=13, HetJobID=12, NodeList=nodes)]
    (job,) = parse_jobs("\n".join(lines))
    assert job.whole_node_list == ""


def test_a_comment_reads_back():
    comment = JobComment("c", "rb-1-1", "key")
    assert read_comment(str(comment)) == comment
    assert read_comment("something else") is None


@settings(max_examples=100)
@given(code=st.integers(0, 255), signal=st.integers(0, 64))
def test_exit_codes_are_read_in_both_forms(code, signal):
    assert wait_status(f"{code}:{signal}") == (code, signal)
    if signal == 0:
        assert wait_status(str(code << 8)) == (code, 0)
    elif code == 0:
        assert wait_status(str(signal)) == (0, signal)


@pytest.mark.parametrize(
    ("values", "left", "state", "failure", "code"),
    [
        ({"State": "COMPLETED"}, None, AttemptState.SUCCEEDED, None, 0),
        ({"State": "FAILED", "exit_code": 42 << 8}, None, AttemptState.FAILED, Failure.EXIT, 42),
        ({"State": "FAILED", "exit_code": 9}, None, AttemptState.FAILED, Failure.EXIT, 137),
        ({"State": "FAILED", "exit_code": 53}, None, AttemptState.FAILED, Failure.LAUNCH, None),
        ({"State": "COMPLETED"}, ScriptExit(code=3), AttemptState.FAILED, Failure.EXIT, 3),
        ({"State": "FAILED"}, ScriptExit(code=124, cause="time-limit"), AttemptState.FAILED, Failure.TIME_LIMIT, 124),
        ({"State": "FAILED"}, ScriptExit(code=127, cause="launch"), AttemptState.FAILED, Failure.LAUNCH, 127),
        ({"State": "CANCELLED", "StartTime": 5}, ScriptExit(code=143), AttemptState.CANCELLED, None, 143),
        ({"State": "CANCELLED"}, None, AttemptState.CANCELLED, None, None),
        ({"State": "TIMEOUT"}, ScriptExit(code=143), AttemptState.FAILED, Failure.TIME_LIMIT, 143),
        ({"State": "OUT_OF_MEMORY"}, None, AttemptState.FAILED, Failure.MEMORY, None),
        ({"State": "NODE_FAIL"}, None, AttemptState.FAILED, Failure.NODE, None),
        ({"State": "PREEMPTED"}, None, AttemptState.PREEMPTED, None, None),
    ],
)
def test_slurm_says_why_it_ended_and_the_script_says_with_which_code(values, left, state, failure, code):
    (job,) = parse_jobs(a_line(**values))
    found = result(job, left)
    assert (job.phase, found.state, found.failure, found.exit_code) == (Phase.ENDED, state, failure, code)
    assert found.reason or state is AttemptState.SUCCEEDED


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", Phase.SUBMITTED),
        ("CONFIGURING", Phase.SUBMITTED),
        ("COMPLETING", Phase.RUNNING),
        ("SUSPENDED", Phase.RUNNING),
        ("A_STATE_OF_THE_FUTURE", Phase.RUNNING),
    ],
)
def test_what_has_not_ended_waits_or_runs(state, phase):
    (job,) = parse_jobs(a_line(State=state))
    assert job.phase is phase


def test_a_test_run_of_sbatch_says_when_or_why_not():
    starts = "sbatch: Job 9 to start at 1794763783 using 4 processors on nodes beta1 in partition main"
    assert parse_test(starts) == StartEstimate(1794763783.0)
    assert parse_test("allocation failure: Requested node configuration is not available").reason.startswith(
        "Requested"
    )
    assert parse_test("sbatch: error: something") is None


@settings(max_examples=100)
@given(steps=st.lists(st.floats(0, 2), min_size=1, max_size=60), rate=st.integers(1, 5))
def test_slurm_is_asked_no_more_often_than_the_rate_allows(steps, rate):
    now = [0.0]
    estimates = StartEstimates(lambda: now[0], lifetime=10.0, rate=float(rate))
    asked = []
    for step in steps:
        now[0] += step
        if estimates.take_token():
            asked.append(now[0])
    for i, begin in enumerate(asked):
        for j, end in enumerate(asked[i:], start=1):
            assert j <= rate + math.ceil((end - begin) * rate) + 1


def test_an_answer_holds_for_a_while_and_is_better_than_none_after():
    now = [0.0]
    estimates = StartEstimates(lambda: now[0], lifetime=10.0)
    estimates.put(("a",), StartEstimate(5.0))
    assert (estimates.get(("a",)), estimates.get(("b",))) == (StartEstimate(5.0), None)
    now[0] = 11.0
    assert (estimates.get(("a",)), estimates.get(("a",), stale=True)) == (None, StartEstimate(5.0))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            Unavailable,
        ),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", Unavailable),
        ("slurm_load_jobs error: Zero Bytes were transmitted or received", Unavailable),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", Invalid),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", Invalid),
    ],
)
def test_no_answer_and_a_refusal_are_told_apart(said, kind):
    assert isinstance(SlurmCommands({}).problem(ProgramResult(1, "", said)), kind)
