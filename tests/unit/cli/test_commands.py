"""Job commands against a fake server: requests, output and exit codes."""

import json

import grpc
import pytest
import yaml

from rainbow_sched.pb.v2 import clusters_pb2, jobs_pb2
from tests.support.fake_server import Refusal, Script
from tests.unit.cli.render.test_rendering import a_decision, why


def job(id=5, state="succeeded", **known):
    return jobs_pb2.Job(id=id, state=state, owner="user:ana", name="lmp", submitted_at=1.0, **known)


def ended(state, seq=1):
    return jobs_pb2.Event(seq=seq, job=5, kind=state, state=state)


def out(data, offset=0, stream="stdout"):
    return jobs_pb2.LogChunk(stream=stream, offset=offset, data=data)


def test_submit_prints_the_id_alone_on_stdout(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(
        id=118, state="bound", cluster="perl", reason="given to perl"
    )
    done = rainbow("submit", "-N2", "-n4", "--", "lmp", "-in", "x")
    assert (done.code, done.out) == (0, "118\n")
    assert done.err == "rainbow: given to perl\n"
    sent = server.only("Jobs/Submit")
    assert sent.bearer == "Bearer a-token"
    assert json.loads(sent.request.spec.canonical)["tasks"][0]["command"] == ["lmp", "-in", "x"]


def test_dependencies_use_slurms_syntax(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=8)
    assert rainbow("submit", "-d", "afterok:7", "--", "x").code == 0
    assert list(server.only("Jobs/Submit").request.terms.dependencies) == ["afterok:7"]


@pytest.mark.parametrize(
    ("words", "reruns", "retries"),
    [
        (["job.sh"], 0, 0),
        (["--rerun", "job.sh"], 3, 0),
        (["job.sh", "--rerun"], 3, 0),
        (["--rerun=5", "job.sh"], 5, 0),
        (["--rerun=0", "job.sh"], 0, 0),
        (["--retries", "2", "job.sh"], 0, 2),
        (["--rerun", "--retries", "2", "job.sh"], 3, 2),
        (["--rerun", "--", "x", "--rerun", "7"], 3, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["submit", "plan"])
def test_rerun_takes_a_number_after_an_equals_sign_and_never_the_next_word(
    server, rainbow, tmp_path, monkeypatch, verb, words, reruns, retries
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n1\necho hi\n")
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=8)
    server.answers["Jobs/Plan"] = jobs_pb2.PlanResponse()
    rainbow(verb, *words)
    sent = server.only(f"Jobs/{verb.capitalize()}").request
    assert (sent.terms.reruns, sent.terms.retries) == (reruns, retries)
    assert sent.terms.delivery == ("at-least-once" if reruns else "at-most-once")
    if "--" in words:
        assert json.loads(sent.spec.canonical)["tasks"][0]["command"] == ["x", "--rerun", "7"]


@pytest.mark.parametrize("words", [["--rerun", "5", "--", "x"], ["--rerun=101", "--", "x"], ["--rerun=", "--", "x"]])
def test_a_number_of_reruns_that_cannot_be_read_is_refused(rainbow, words):
    done = rainbow("submit", *words)
    assert done.code == 2
    assert words[0] != "--rerun" or "write the number of --rerun after =, as in --rerun=5" in done.err


def test_a_submit_that_no_cluster_can_ever_run_exits_with_3(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=1, state="infeasible", reason="no cluster has gpus")
    assert rainbow("submit", "--fail-fast", "-g9", "--", "x").code == 3


def test_submit_in_json(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=7, state="queued")
    done = rainbow("submit", "-o", "json", "--", "x", "-o", "table")
    assert json.loads(done.out) == {"schema": "rainbow.submitted/1", "id": 7, "state": "queued"}
    assert done.err == ""


def test_run_lists_ignored_directives(server, rainbow, tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --mail-type=ALL\necho hi\n")
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=5, state="queued")
    server.answers["Jobs/Logs"] = []
    server.answers["Jobs/Get"] = job(5)
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(5)])
    done = rainbow("run", "job.sh")
    assert (done.code, done.out, done.err) == (0, "", "rainbow: job.sh: line 2: --mail-type=ALL is not honoured\n")


def test_a_jobspec_without_a_task_is_submitted_with_a_warning_and_not_run(server, rainbow, tmp_path):
    (tmp_path / "job.yaml").write_text("version: 1\nresources: {n: {type: node, count: 1}}\n")
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=5, state="queued")
    done = rainbow("submit", "job.yaml")
    assert (done.code, done.out) == (0, "5\n")
    assert "job.yaml: the jobspec has no task, so agents cannot run the job" in done.err
    done = rainbow("run", "job.yaml")
    assert (done.code, len(server.calls("Jobs/Submit"))) == (125, 1)


def test_jobs_lists_what_has_not_ended(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(
        jobs=[job(6, "queued", nodes=4), job(5, "bound", cluster="perl")]
    )
    done = rainbow("jobs")
    assert [line.split()[:5] for line in done.out.splitlines()] == [
        ["JOBID", "USER", "NAME", "ST", "N"],
        ["6", "ana", "lmp", "S", "4"],
        ["5", "ana", "lmp", "S", "-"],
    ]
    assert set(server.only("Jobs/List").request.filter.states) == {"held", "queued", "bound", "cancelling"}


def test_jobs_in_json_is_versioned(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job()])
    document = json.loads(rainbow("jobs", "-a", "-o", "json").out)
    assert document["schema"] == "rainbow.jobs/1"
    assert document["jobs"][0]["submitted_at"] == "1970-01-01T00:00:01.000Z"


def test_the_environment_may_choose_the_form_of_output(server, rainbow, monkeypatch):
    monkeypatch.setenv("RAINBOW_OUTPUT", "name")
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(6, "queued"), job(5, "queued")])
    assert rainbow("jobs").out == "6\n5\n"


def test_jobs_filters_by_what_is_shown_not_only_by_what_is_stored(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(
        jobs=[job(6, "bound", attempt_state="running"), job(5, "bound", attempt_state="offered")]
    )
    assert rainbow("jobs", "-f", "running", "-o", "name").out == "6\n"
    assert rainbow("jobs", "-f", "pending", "-o", "name").out == "5\n"


def pages_of(stored):
    """A server's pages of these jobs, newest first."""

    def page(request):
        left = [one for one in stored if not request.before or one.id < request.before]
        found = left[: request.limit]
        return jobs_pb2.ListJobsResponse(jobs=found, next=found[-1].id if len(left) > len(found) else 0)

    return page


def test_the_few_that_run_are_found_behind_the_many_that_wait(server, rainbow):
    waiting = [job(id, "bound", attempt_state="submitted") for id in range(2500, 2, -1)]
    running = [job(id, "bound", attempt_state="running") for id in (2, 1)]
    server.answers["Jobs/List"] = pages_of([*waiting, *running])
    assert rainbow("jobs", "-f", "running", "-o", "name").out == "2\n1\n"
    assert rainbow("jobs", "-f", "running", "-c", "1", "-o", "name").out == "2\n"


def test_statistics_count_all_and_a_list_says_that_it_is_not_all(server, rainbow):
    server.answers["Jobs/List"] = pages_of([job(id, "queued") for id in range(2500, 0, -1)])
    assert rainbow("jobs", "--stats").out == "0 running, 2500 pending\n"
    counted = {"schema": "rainbow.job-stats/1", "running": 0, "pending": 2500}
    assert json.loads(rainbow("jobs", "--stats", "-o", "json").out) == counted
    done = rainbow("jobs", "-o", "name")
    assert (len(done.out.splitlines()), done.out.splitlines()[-1]) == (1000, "1501")
    assert done.err == "rainbow: only the newest 1000 jobs are listed; -c N lists more, --stats counts all\n"
    done = rainbow("jobs", "-c", "1200", "-o", "name")
    assert (len(done.out.splitlines()), done.err) == (1200, "")


def test_jobs_that_were_named_and_are_not_there_are_not_found(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse()
    done = rainbow("jobs", "999", "7")
    assert (done.code, done.out) == (4, "")
    assert "there is no job 999, 7 that you may see" in done.err
    assert rainbow("jobs").code == 0


@pytest.mark.parametrize("count", ["0", "-5"])
def test_a_list_of_less_than_one_is_a_mistake(rainbow, count):
    assert rainbow("jobs", "-c", count).code == 2


def test_a_watch_that_no_terminal_reads_is_one_event_a_line(server, rainbow):
    server.answers["Jobs/Watch"] = [ended("bound", 1), ended("succeeded", 2)]
    lines = rainbow("jobs", "-w").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_logs_pass_every_byte_through_to_a_pipe(server, capfdbinary):
    server.answers["Jobs/Logs"] = [out(b"\x1b[31m\xff"), out(b"oops\n", stream="stderr")]
    from rainbow_sched.cli.main import run

    assert run(["logs", "5"]) == 0
    captured = capfdbinary.readouterr()
    assert (captured.out, captured.err) == (b"\x1b[31m\xff", b"oops\n")


def test_logs_in_json_are_one_document_and_line_by_line_when_they_are_followed(server, rainbow):
    server.answers["Jobs/Logs"] = [out(b"a\n"), out(b"b\n", stream="stderr")]
    server.answers["Jobs/Get"] = job(5)
    pieces = [{"stream": "stdout", "offset": 0, "text": "a\n"}, {"stream": "stderr", "offset": 0, "text": "b\n"}]
    whole = {"schema": "rainbow.logs/1", "chunks": pieces}
    assert json.loads(rainbow("logs", "5", "-o", "json").out) == whole
    assert yaml.safe_load(rainbow("logs", "5", "-o", "yaml").out) == whole
    for args in (["-o", "jsonl"], ["-f", "-o", "json"]):
        assert [json.loads(line) for line in rainbow("logs", "5", *args).out.splitlines()] == pieces
    server.answers["Jobs/Logs"] = []
    assert json.loads(rainbow("logs", "5", "-o", "json").out)["chunks"] == []


@pytest.mark.parametrize(
    "args", [["plan", "--", "x"], ["explain", "5"], ["whoami"], ["submit", "--", "x"], ["logs", "5"]]
)
def test_a_document_cannot_be_formatted_as_rows(rainbow, monkeypatch, args):
    done = rainbow(args[0], "-o", "{id}", *args[1:])
    assert (done.code, done.out) == (2, "")
    assert "this output has no rows to show as '{id}'; use -o table, json" in done.err


def test_a_form_for_all_commands_is_not_in_the_way_of_those_that_have_no_rows(server, rainbow, monkeypatch):
    monkeypatch.setenv("RAINBOW_OUTPUT", "{id}")
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=7, state="queued")
    assert rainbow("submit", "--", "x").out == "7\n"


def test_logs_that_are_empty_say_why(server, rainbow):
    server.answers["Jobs/Logs"] = []
    server.answers["Jobs/Get"] = job(5, "bound", cluster="perl", attempt_state="offered")
    done = rainbow("logs", "5")
    said = "rainbow: job 5 has no output yet; it is pending (offered, not accepted yet)\n"
    assert (done.code, done.out, done.err) == (0, "", said)
    server.answers["Jobs/Get"] = job(5, "held", hold="nothing-fits", reason="no cluster is registered")
    assert rainbow("logs", "5").err.endswith("it is pending (no cluster is registered)\n")
    server.answers["Jobs/Get"] = job(5, reason="ended well")
    assert rainbow("logs", "5").err == "rainbow: job 5 has no output; it is succeeded (ended well)\n"
    assert rainbow("logs", "5", "--stderr").err == ""


def test_logs_take_a_name_and_a_number_of_lines(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(9)])
    server.answers["Jobs/Get"] = job(9)
    server.answers["Jobs/Logs"] = [out(b"x\n")]
    assert rainbow("logs", "train", "-f", "--tail", "2", "--stderr").code == 0
    sent = server.only("Jobs/Logs").request
    assert (sent.id, sent.follow, sent.tail, sent.stream) == (9, True, 2, "stderr")


def test_following_a_held_job_reports_why_it_waits(server, rainbow):
    server.answers["Jobs/Logs"] = [out(b"x\n")]
    server.answers["Jobs/Get"] = job(5, "held", reason="no cluster is registered")
    done = rainbow("logs", "-f", "5")
    assert done.err == "rainbow: job 5 is held (no cluster is registered); output follows when it runs\n"
    assert done.out == "x\n"
    assert rainbow("logs", "-f", "5", "-o", "json").err == ""
    server.answers["Jobs/Get"] = job(5, "bound", cluster="perl")
    assert rainbow("logs", "-f", "5").err == ""


def test_run_gives_the_jobs_output_and_exit_code_and_nothing_else(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=5)
    server.answers["Jobs/Logs"] = Script([out(b"one\n")], [out(b"one\ntwo\n")])
    over = job(state="failed", exit_code=7, started_at=1.0)
    server.answers["Jobs/Get"] = over
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[over])
    server.answers["Jobs/Watch"] = [ended("failed")]
    done = rainbow("run", "--", "x")
    assert (done.code, done.out, done.err) == (7, "one\ntwo\n", "")


def test_a_failure_of_rainbow_itself_is_125_for_run_and_wait(server, rainbow):
    refusal = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "no", "Invalid")
    server.answers["Jobs/Submit"] = server.answers["Jobs/List"] = refusal
    assert rainbow("run", "--", "x").code == 125
    assert rainbow("wait", "5").code == 125
    assert rainbow("run").code == 125


def test_wait_returns_the_largest_exit_code(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(
        jobs=[job(5, exit_code=0), job(6, "failed", exit_code=3, started_at=1.0, reason="exit code 3")]
    )
    server.answers["Jobs/Watch"] = [jobs_pb2.Event(seq=1, job=6, state="failed")]
    done = rainbow("wait", "5", "6")
    assert done.code == 3
    assert done.err == "rainbow: job 5 succeeded (exit 0)\nrainbow: job 6 failed (exit code 3)\n"


def test_a_job_that_ran_into_its_time_limit_ends_with_124(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(5, "failed", exit_code=143, started_at=1.0)])
    server.answers["Jobs/Watch"] = [jobs_pb2.Event(seq=1, job=5, state="failed", detail='{"failure": "time-limit"}')]
    assert rainbow("wait", "5").code == 124


def test_wait_for_many_names_those_that_did_not_succeed_and_counts_the_rest(server, rainbow):
    ended = [job(id, "failed" if id == 7 else "succeeded", exit_code=3 if id == 7 else 0) for id in range(1, 31)]
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=ended)
    server.answers["Jobs/Watch"] = []
    done = rainbow("wait", "1-30")
    assert done.code == 3
    assert [line.split(" (")[0] for line in done.err.splitlines()] == [
        "rainbow: job 7 failed",
        "rainbow: 30 jobs: 29 succeeded, 1 failed",
    ]


def test_wait_gives_up_at_its_timeout(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(5, "bound")])
    server.answers["Jobs/Watch"] = []
    assert rainbow("wait", "5", "--timeout", "0.05s").code == 124


def test_cancel_by_filter_without_doing_it(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(
        jobs=[job(6, "queued"), job(5, "bound", attempt_state="running")]
    )
    server.answers["Jobs/Cancel"] = lambda request: jobs_pb2.CancelResponse(jobs=[job(id) for id in request.ids])
    assert rainbow("cancel", "--filter", "pending", "-n").out == "would cancel 1 job\n"
    sent = server.only("Jobs/Cancel").request
    assert (list(sent.ids), sent.dry_run) == ([6], True)


@pytest.mark.parametrize("which", [("all",), ("--filter", "pending"), ("train",)])
def test_cancelling_all_means_all_however_many_they_are(server, rainbow, which):
    many = 10_500

    def page(request):
        newest = (request.before or many + 1) - 1
        ids = range(newest, max(0, newest - request.limit), -1)
        found = [jobs_pb2.Job(id=id, state="queued") for id in ids]
        return jobs_pb2.ListJobsResponse(jobs=found, next=ids[-1] if ids[-1] > 1 else 0)

    server.answers["Jobs/List"] = page
    server.answers["Jobs/Cancel"] = jobs_pb2.CancelResponse()
    rainbow("cancel", *which)
    cancelled = {id for call in server.calls("Jobs/Cancel") for id in call.request.ids}
    assert cancelled == set(range(1, many + 1))


def test_cancel_needs_to_know_what(server, rainbow):
    done = rainbow("cancel")
    assert done.code == 2
    assert "give either job ids or --filter" in done.err


def plan_answer(decision, *explanations):
    document = {"schema": "rainbow.explanations/1", "clusters": explanations, "closed": {}}
    return jobs_pb2.PlanResponse(decision=decision.to_json(), explanations=json.dumps(document))


def test_plan_returns_0_75_and_3(server, rainbow):
    server.answers["Clusters/List"] = clusters_pb2.ListClustersResponse()
    now = a_decision(ranked=[("perl", "now", 4, 4, "first")])
    later = a_decision(dropped=[("perl", "later", 0, 4, "busy")], outcome={"kind": "wait", "reasons": [], "ever": True})
    never = a_decision(misfits={"perl": ["never", ""]}, outcome={"kind": "wait", "reasons": [], "ever": False})
    server.answers["Jobs/Plan"] = Script(
        plan_answer(now), plan_answer(later), plan_answer(never, why("perl", "never", "gpu: none"))
    )
    assert rainbow("plan", "--", "x").code == 0
    assert rainbow("plan", "--", "x").code == 75
    done = rainbow("plan", "--", "x")
    assert done.code == 3
    assert "✗ perl  gpu: none" in done.out


def test_plan_in_json_holds_the_whole_decision(server, rainbow):
    server.answers["Clusters/List"] = Refusal(grpc.StatusCode.PERMISSION_DENIED, "no", "Denied")
    decision = a_decision(ranked=[("perl", "now", 4, 4, "first")])
    server.answers["Jobs/Plan"] = plan_answer(decision)
    document = json.loads(rainbow("plan", "-o", "json", "--", "x").out)
    assert document["schema"] == "rainbow.plan/1"
    assert document["decision"] == decision.record


def test_explain_asks_for_the_job_that_last_means(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(12)])
    server.answers["Jobs/Explain"] = jobs_pb2.ExplainResponse(job=job(12, "queued"))
    done = rainbow("explain", "last")
    assert server.only("Jobs/Explain").request.id == 12
    assert done.out.startswith("Job 12 (lmp) is PENDING since")
    assert "There is no decision yet.\n" in done.out
    server.answers["Jobs/Explain"] = jobs_pb2.ExplainResponse(job=job(12, "cancelled"))
    assert "There is no decision.\n" in rainbow("explain", "last").out
