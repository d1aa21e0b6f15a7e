"""Submissions built from options, files and scripts."""

import json

import pytest

from rainbow_sched.cli.input.job_options import JobOptions
from rainbow_sched.cli.input.job_request import prepare
from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import Delivery
from rainbow_sched.model.request import Equals

NOW = 1_000_000.0
SCRIPT = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks=8\n#SBATCH --time=10\n#SBATCH --mail-type=ALL\necho hi\n"


def test_a_command_runs_as_it_was_typed():
    prepared = prepare(JobOptions(argv=("echo", "a b", "$HOME"), nodes=2, tasks=4, cores=3, time="30m"), NOW, {})
    request = from_json(prepared.submission.canonical)
    assert request == prepared.request
    assert request.tasks[0].command == ("echo", "a b", "$HOME")
    assert request.duration == 1800
    assert prepared.submission.name == "echo"


def test_the_prototypes_command_text_is_split_as_a_shell_would():
    prepared = prepare(JobOptions(command="echo 'a b' c"), NOW, {})
    assert prepared.request.tasks[0].command == ("echo", "a b", "c")


def test_a_script_without_flags_is_sent_byte_for_byte(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    prepared = prepare(JobOptions(file=str(path)), NOW, {})
    assert prepared.submission.text == SCRIPT
    assert prepared.submission.canonical == ""
    assert prepared.submission.name == "job.sh"
    assert prepared.request.ignored == ("line 5: --mail-type=ALL is not honoured",)


def test_flags_beat_the_scripts_directives_and_the_script_stays_as_it_is(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    request = prepare(JobOptions(file=str(path), nodes=4, time="5m", name="mine"), NOW, {}).request
    assert request.groups[0].levels[0].count.min == 4
    assert (request.duration, request.name) == (300, "mine")
    assert request.tasks[0].script == SCRIPT
    assert parse(SCRIPT).groups[0].levels[0].count.min == 2


def test_resource_flags_do_not_change_a_jobspec(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"version": 1, "resources": {"a": {"type": "node", "replicas": 1}}, "tasks": []}))
    with pytest.raises(Invalid, match="--nodes=4: a jobspec states its own resources"):
        prepare(JobOptions(file=str(path), nodes=4), NOW, {})


def test_software_is_required_where_the_processes_live():
    request = prepare(JobOptions(argv=("x",), nodes=2, software=("lammps@>=2024",)), NOW, {}).request
    (level,) = request.groups[0].levels
    assert level.type == "node"
    assert level.requires[0].subsystem == "software"
    assert level.requires[0].terms[0] == Equals("name", "lammps")


def test_terms_come_from_their_flags():
    terms = prepare(
        JobOptions(
            argv=("x",),
            select="first:order=corona,perl,x=y",
            prefer="cost",
            deadline="+1h",
            start_after="+30m",
            max_cost=4.5,
            clusters=("a", "b"),
            not_clusters="c, d",
            hold=True,
            priority=7,
            labels=("team=bio",),
            rerun=4,
            retries=2,
            fail_fast=True,
        ),
        NOW,
        {},
    ).submission.terms
    assert (terms.policy, terms.policy_options) == ("first", {"order": "corona,perl", "x": "y"})
    assert (terms.deadline, terms.start_after) == (NOW + 3600, NOW + 1800)
    assert (terms.only_clusters, terms.not_clusters) == (("a", "b"), ("c", "d"))
    assert (terms.delivery, terms.retries, terms.reruns, terms.priority) == (Delivery.AT_LEAST_ONCE, 2, 4, 7)
    assert (terms.hold, terms.fail_fast, terms.prefer, terms.max_cost) == (True, True, "cost", 4.5)
    assert terms.labels == {"team": "bio"}


def test_a_job_waits_for_each_job_of_an_array():
    asked = JobOptions(argv=("x",), dependencies=("afterok:7-9", "after:3"))
    assert prepare(asked, NOW, {}).submission.dependencies == ("afterok:7", "afterok:8", "afterok:9", "after:3")


def test_dependencies_may_be_listed_as_slurm_lists_them() -> None:
    asked = JobOptions(argv=("x",), dependencies=("afterok:7:9-10,afterany:3",))
    assert prepare(asked, NOW, {}).submission.dependencies == ("afterok:7", "afterok:9", "afterok:10", "afterany:3")


def test_a_policys_option_may_stand_in_a_file(tmp_path):
    path = tmp_path / "priorities.yaml"
    path.write_text("- priority: 1\n")
    options = (f"priorities=@{path}",)
    terms = prepare(JobOptions(argv=("x",), select="constraint", select_options=options), NOW, {}).submission.terms
    assert terms.policy_options == {"priorities": "- priority: 1\n"}


def test_the_callers_environment_stays_home_unless_a_variable_is_named():
    request = prepare(JobOptions(argv=("x",), env=("A=1", "HOME")), NOW, {"HOME": "/h", "SECRET": "s"}).request
    assert dict(request.environment) == {"A": "1", "HOME": "/h"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "nothing to run"),
        ({"file": "job.sh", "argv": ("x",)}, "both given"),
        ({"file": "hostname"}, "write -- before it: -- hostname"),
        ({"command": "echo 'a"}, "cannot be split"),
        ({"argv": ("x",), "env": ("NOT_SET_HERE",)}, "is not set; write"),
        ({"argv": ("x",), "select_options": ("a=b",)}, "needs --select"),
        ({"argv": ("x",), "time": "soon"}, "not a duration"),
        ({"argv": ("x",), "deadline": "-1h"}, "-1h is in the past"),
        ({"argv": ("x",), "dependencies": ("afterok:9-3",)}, "must be a range of 1 to 1000 job ids"),
        ({"argv": ("x",), "dependencies": ("afterok:1-1001",)}, "must be a range of 1 to 1000 job ids"),
        ({"argv": ("x",), "mem": "4Q"}, "not an amount of memory"),
        ({"argv": ("x",), "nodes": 4, "tasks": 2}, "at least 4 tasks, not 2"),
        ({"argv": ("", "x")}, "the command is an empty word"),
        ({"file": "a.yaml", "jobspec": "b.yaml"}, "a.yaml and --jobspec b.yaml were both given"),
        ({"argv": ("x",), "command": "y"}, "--command and -- COMMAND were both given"),
        ({"argv": ("x",), "env": ("=1",)}, "the name is missing"),
        ({"argv": ("x",), "env": ("A=\udcff",)}, "--env A: the value is not UTF-8 text"),
        ({"argv": ("x",), "deadline": ""}, "--deadline is empty"),
        ({"argv": ("x",), "start_after": ""}, "--start-after is empty"),
        ({"argv": ("x",), "array": ""}, "--array is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused_here_with_what_would_be_right(said, why):
    with pytest.raises(Invalid, match=why):
        prepare(JobOptions(**said), NOW, {})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\0\0", "the file is not text"),
        (b"\xff", "the file is not text"),
        (b"echo hello\n", "nor a script, which begins with #! as in #!/bin/sh"),
        (b"#!/bin/sh\n#SBATCH --mem=bogus\n", r"line 2\b.*--mem: 'bogus' is not an amount"),
    ],
)
def test_a_file_that_cannot_be_run_says_why(tmp_path, content, why):
    (tmp_path / "job").write_bytes(content)
    with pytest.raises(Invalid, match=why):
        prepare(JobOptions(file=str(tmp_path / "job")), NOW, {})


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf#!/bin/sh\n#SBATCH -n2\n", b"#!/bin/sh\r\n#SBATCH -n2\r\n"])
def test_a_script_from_another_system_is_read_as_one_from_here(tmp_path, content):
    (tmp_path / "job.sh").write_bytes(content)
    prepared = prepare(JobOptions(file=str(tmp_path / "job.sh")), NOW, {})
    assert prepared.submission.text == "#!/bin/sh\n#SBATCH -n2\n"


def test_a_command_gives_its_job_a_name_that_can_be_shown():
    assert prepare(JobOptions(argv=("/bin/ev\x1b[31mil",)), NOW, {}).submission.name == "ev[31mil"
