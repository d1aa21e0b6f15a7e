"""The commands against a scripted server: what they send, print and return."""

import json
import stat

import grpc
import pytest
import yaml

from rainbow.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2
from tests.support.fake_server import Refusal, Script
from tests.unit.cli.test_rendering import a_decision, why


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


def test_a_submit_that_nothing_can_ever_run_ends_with_three(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=1, state="infeasible", reason="no cluster has gpus")
    assert rainbow("submit", "--fail-fast", "-g9", "--", "x").code == 3


def test_submit_in_json(server, rainbow):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=7, state="queued")
    done = rainbow("submit", "-o", "json", "--", "x", "-o", "table")
    assert json.loads(done.out) == {"schema": "rainbow.submitted/1", "id": 7, "state": "queued"}
    assert done.err == ""


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


def test_a_watch_that_no_terminal_reads_is_one_event_a_line(server, rainbow):
    server.answers["Jobs/Watch"] = [ended("bound", 1), ended("succeeded", 2)]
    lines = rainbow("jobs", "-w").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_logs_pass_every_byte_through_to_a_pipe(server, capfdbinary):
    server.answers["Jobs/Logs"] = [out(b"\x1b[31m\xff"), out(b"oops\n", stream="stderr")]
    from rainbow.cli.main import run

    assert run(["logs", "5"]) == 0
    captured = capfdbinary.readouterr()
    assert (captured.out, captured.err) == (b"\x1b[31m\xff", b"oops\n")


def test_logs_that_are_empty_say_why(server, rainbow):
    server.answers["Jobs/Logs"] = []
    server.answers["Jobs/Get"] = job(5, "bound", cluster="perl", attempt_state="offered")
    done = rainbow("logs", "5")
    said = "rainbow: job 5 has no output yet; it is bound (offered, not taken yet)\n"
    assert (done.code, done.out, done.err) == (0, "", said)
    server.answers["Jobs/Get"] = job(5, reason="ended well")
    assert rainbow("logs", "5").err == "rainbow: job 5 has no output; it is succeeded (ended well)\n"
    assert rainbow("logs", "5", "--stderr").err == ""


def test_logs_take_a_name_and_a_number_of_lines(server, rainbow):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job(9)])
    server.answers["Jobs/Logs"] = [out(b"x\n")]
    assert rainbow("logs", "train", "-f", "--tail", "2", "--stderr").code == 0
    sent = server.only("Jobs/Logs").request
    assert (sent.id, sent.follow, sent.tail, sent.stream) == (9, True, 2, "stderr")


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


def test_cancel_needs_to_know_what(server, rainbow):
    done = rainbow("cancel")
    assert done.code == 2
    assert "give job ids or --filter" in done.err


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
    assert "Nothing was decided yet." in done.out


def test_register_saves_credentials_for_their_owner_alone(server, rainbow, tmp_path, monkeypatch):
    monkeypatch.setenv("RAINBOW_REGISTRATION_SECRET", "door")
    (tmp_path / "g.json").write_text("{}")
    server.answers["Clusters/Register"] = clusters_pb2.RegisterResponse(cluster="perl", token="tok", secret="sec")
    done = rainbow("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json", "--save")
    assert (done.code, done.out) == (0, "")
    assert server.only("Clusters/Register").bearer == "Bearer door"
    path = tmp_path / "config/rainbow/rainbow-config.yaml"
    saved = yaml.safe_load(path.read_text())
    assert saved["cluster"] == {"name": "perl", "secret": "sec"}
    assert saved["clusters"] == [{"name": "perl", "token": "tok"}]
    assert saved["server"] == saved["graphdatabase"]["options"]["host"] == server.address
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_register_saves_into_a_config_file_that_is_not_there_yet(server, rainbow, tmp_path):
    (tmp_path / "g.json").write_text("{}")
    server.answers["Clusters/Register"] = clusters_pb2.RegisterResponse(cluster="perl", token="tok", secret="sec")
    command = ("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json", "--config-path", "new/c.yaml")
    assert "there is no config file new/c.yaml" in rainbow(*command).err
    assert rainbow(*command, "--save").code == 0
    path = tmp_path / "new/c.yaml"
    assert yaml.safe_load(path.read_text())["cluster"] == {"name": "perl", "secret": "sec"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_wrong_graph_is_named_by_its_file(server, rainbow, tmp_path):
    (tmp_path / "g.json").write_text("{}")
    server.answers["Clusters/Register"] = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "vertex 'a': no type", "Invalid")
    done = rainbow("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json")
    assert (done.code, done.err) == (2, "rainbow: g.json: vertex 'a': no type\n")


@pytest.mark.parametrize("verb", ["submit", "run", "plan"])
def test_a_cluster_that_does_not_exist_is_a_mistake(server, rainbow, verb):
    server.answers["Clusters/List"] = clusters_pb2.ListClustersResponse(clusters=[clusters_pb2.Cluster(name="perl")])
    done = rainbow(verb, "-M", "pearl", "--", "x")
    assert done.err == "rainbow: there is no cluster 'pearl'; did you mean perl?\n"
    assert done.code == (125 if verb == "run" else 4)
    assert not server.calls("Jobs/Submit")


def test_leaving_out_a_cluster_that_does_not_exist_is_a_warning(server, rainbow):
    server.answers["Clusters/List"] = clusters_pb2.ListClustersResponse(clusters=[clusters_pb2.Cluster(name="perl")])
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=7, state="bound", cluster="perl", reason="given to perl")
    done = rainbow("submit", "--not", "eks", "--", "x")
    assert (done.code, done.out) == (0, "7\n")
    assert done.err.startswith("rainbow: warning: --not eks: there is no cluster 'eks'; ")


def test_a_command_without_dashes_is_told_how_to_write_it(rainbow):
    assert "write -- before it, as in: -- echo hello" in rainbow("submit", "echo", "hi").err
    assert rainbow("submit", "hostname").err.endswith("write -- before it: -- hostname\n")
    assert rainbow("submit", "--jobspec", "x.yaml").err == "rainbow: there is no file x.yaml\n"


def test_an_array_prints_the_range_of_its_jobs(server, rainbow):
    answers = [jobs_pb2.SubmitResponse(id=id, state="bound", cluster="perl") for id in (4, 5, 6, 9)]
    server.answers["Jobs/SubmitBatch"] = jobs_pb2.SubmitBatchResponse(jobs=answers)
    assert rainbow("submit", "--array", "1-4", "--", "x").out == "4-6 9\n"
    assert json.loads(rainbow("submit", "--array", "1-4", "-o", "json", "--", "x").out)["ids"] == [4, 5, 6, 9]


def test_a_refused_credential_says_where_it_came_from(server, rainbow, monkeypatch):
    server.answers["Jobs/List"] = Refusal(
        grpc.StatusCode.UNAUTHENTICATED, "the credential is unknown", "Unauthenticated"
    )
    assert rainbow("jobs").err == "rainbow: the credential is unknown (sent: the token from RAINBOW_TOKEN)\n"
    monkeypatch.delenv("RAINBOW_TOKEN")
    assert rainbow("jobs").err == "rainbow: the credential is unknown (rainbow login keeps one)\n"


def test_a_refused_registration_says_which_secret_was_sent(server, rainbow, tmp_path, monkeypatch):
    (tmp_path / "g.json").write_text("{}")
    refusal = Refusal(grpc.StatusCode.UNAUTHENTICATED, "the credential is unknown", "Unauthenticated")
    server.answers["Clusters/Register"] = refusal
    command = ("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json")
    monkeypatch.delenv("RAINBOW_TOKEN")
    assert "(registering needs RAINBOW_REGISTRATION_SECRET)" in rainbow(*command).err
    assert "(sent: the registration secret from the command line)" in rainbow(*command, "-s", "x").err
    monkeypatch.setenv("RAINBOW_REGISTRATION_SECRET", "door")
    assert "(sent: the registration secret from RAINBOW_REGISTRATION_SECRET)" in rainbow(*command).err


def test_registering_a_name_that_is_taken_keeps_the_saved_credentials(server, rainbow, tmp_path):
    path = tmp_path / "rainbow-config.yaml"
    path.write_text("cluster: {name: perl, secret: kept}\n")
    path.chmod(0o600)
    (tmp_path / "g.json").write_text("{}")
    server.answers["Clusters/Register"] = clusters_pb2.RegisterResponse(cluster="perl", exists=True)
    done = rainbow("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json", "--save")
    assert done.code == 0
    assert "registered already" in done.err
    assert path.read_text() == "cluster: {name: perl, secret: kept}\n"


def test_a_secret_on_the_command_line_works_with_a_warning(server, rainbow, tmp_path):
    (tmp_path / "g.json").write_text("{}")
    server.answers["Clusters/Register"] = clusters_pb2.RegisterResponse(cluster="perl", token="t", secret="s")
    done = rainbow("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json", "-s", "door")
    assert server.only("Clusters/Register").bearer == "Bearer door"
    assert "others on this machine can read a secret" in done.err
    assert done.out == "token: t\nsecret: s\n"


def test_cluster_commands_speak_with_the_clusters_secret(server, rainbow, tmp_path):
    (tmp_path / "rainbow-config.yaml").write_text("cluster: {name: perl, secret: sec}\n")
    (tmp_path / "rainbow-config.yaml").chmod(0o600)
    (tmp_path / "io.json").write_text("{}")
    (tmp_path / "state.json").write_text('{"nodes_free": 3}')
    server.answers["Clusters/PutSubsystem"] = clusters_pb2.PutGraphResponse(vertices=2)
    server.answers["Clusters/UpdateState"] = clusters_pb2.UpdateStateResponse(values='{"nodes_free": 3, "x": "y"}')
    server.answers["Clusters/PatchGraph"] = clusters_pb2.PatchGraphResponse(changed=1)
    server.answers["Clusters/Delete"] = clusters_pb2.DeleteClusterResponse(jobs_moved=2)
    server.answers["Clusters/DeleteSubsystem"] = clusters_pb2.DeleteSubsystemResponse()
    put = rainbow("register", "subsystem", "--subsystem", "io", "--nodes-json", "io.json")
    assert put.out == "perl: subsystem io, 2 vertices\n"
    said = rainbow("update", "state", "--state-file", "state.json", "x=y")
    assert said.out == "perl: 2 keys updated, 2 in all\n"
    assert json.loads(server.only("Clusters/UpdateState").request.values) == {"nodes_free": 3, "x": "y"}
    assert rainbow("update", "nodes", "n1=down").out == "perl: 1 vertices changed\n"
    assert rainbow("delete", "--delete-subsystem", "io").out == "deleted subsystem io of perl\n"
    assert rainbow("delete").out == "deleted perl; 2 jobs go to another cluster\n"
    assert {asked.bearer for asked in server.asked} == {"Bearer sec"}


def test_receive_takes_jobs_over_and_prints_no_token(server, rainbow, tmp_path):
    (tmp_path / "rainbow-config.yaml").write_text("cluster: {name: perl, secret: sec}\n")
    (tmp_path / "rainbow-config.yaml").chmod(0o600)
    spec = json.dumps({"tasks": [{"command": ["echo", "hi"]}]})
    refs = [agents_pb2.AttemptRef(job=id, n=1, token=f"fence-{id}") for id in (5, 6)]
    server.answers["Agents/Receive"] = agents_pb2.ReceiveResponse(
        offers=[agents_pb2.Offer(attempt=ref, name="lmp", spec=spec, terms="{}") for ref in refs]
    )
    server.answers["Agents/Accept"] = agents_pb2.AcceptResponse(accepted=refs[:1])
    done = rainbow("receive", "--max-jobs", "3", "--accept", "nodes <= 4", "-o", "json")
    document = json.loads(done.out)
    assert [one["job"] for one in document["jobs"]] == [5]
    assert "fence" not in done.out
    asked = server.only("Agents/Receive").request
    assert (asked.cluster, asked.limit, asked.accept_only) == ("perl", 3, "nodes <= 4")


def test_drain_says_why(server, rainbow):
    server.answers["Clusters/Drain"] = clusters_pb2.Cluster(name="perl", standing="draining")
    assert rainbow("drain", "perl", "-m", "noon").out == "perl is draining\n"
    assert server.only("Clusters/Drain").request.reason == "noon"


def test_whoami(server, rainbow):
    server.answers["Access/WhoAmI"] = access_pb2.WhoAmIResponse(name="user:ana", kind="usr", scopes=["submit:*"])
    assert rainbow("whoami").out == "user:ana (usr): submit:*\n"


def test_config_init_writes_no_secret_that_nobody_gave(rainbow, tmp_path):
    assert rainbow("config", "init").code == 0
    written = yaml.safe_load((tmp_path / "rainbow-config.yaml").read_text())
    assert written["scheduler"]["secret"] == ""
    assert list(written) == ["scheduler", "cluster", "graphdatabase", "clusters"]
    assert stat.S_IMODE((tmp_path / "rainbow-config.yaml").stat().st_mode) == 0o600
    again = rainbow("config", "init")
    assert (again.code, "--force" in again.err) == (1, True)


def test_config_show_never_prints_a_secret_and_warns_of_an_open_file(rainbow, tmp_path, monkeypatch):
    monkeypatch.setenv("RAINBOW_TOKEN", "very-secret")
    path = tmp_path / "rainbow-config.yaml"
    path.write_text("server: 127.0.0.1:7\ncluster: {name: perl, secret: deep-secret}\n")
    path.chmod(0o644)
    done = rainbow("config", "show")
    assert "secret\n" not in done.out
    assert "very-secret" not in done.out + done.err
    assert "deep-secret" not in done.out + done.err
    assert "chmod 600" in done.err
    assert "127.0.0.1:7" in done.out


@pytest.mark.parametrize(
    ("code", "error", "exit_code", "name"),
    [
        (grpc.StatusCode.NOT_FOUND, "NotFound", 4, "not-found"),
        (grpc.StatusCode.UNAUTHENTICATED, "Unauthenticated", 5, "unauthenticated"),
        (grpc.StatusCode.PERMISSION_DENIED, "Denied", 5, "denied"),
        (grpc.StatusCode.FAILED_PRECONDITION, "Impossible", 3, "unsatisfiable"),
        (grpc.StatusCode.INVALID_ARGUMENT, "Invalid", 2, "invalid"),
        (grpc.StatusCode.FAILED_PRECONDITION, "Conflict", 1, "conflict"),
    ],
)
def test_refusals_are_one_sentence_or_json_and_an_exit_code(server, rainbow, code, error, exit_code, name):
    server.answers["Jobs/Explain"] = Refusal(code, "what is\x1b[2J wrong; what to do", error)
    done = rainbow("explain", "5")
    said = "rainbow: what is wrong; what to do"
    assert (done.code, done.out, done.err.removesuffix("\n").partition(" (sent: ")[0]) == (exit_code, "", said)
    done = rainbow("explain", "5", "-o", "json")
    assert json.loads(done.err)["error"]["code"] == name


def test_nobody_there_is_6(rainbow, monkeypatch):
    monkeypatch.setenv("RAINBOW_SERVER", "127.0.0.1:1")
    monkeypatch.setattr("rainbow.client.connection.Patience.__init__", quick_patience)
    done = rainbow("jobs")
    assert done.code == 6
    assert "no Rainbow server answers at 127.0.0.1:1" in done.err


def quick_patience(self, **given):
    from rainbow.client.connection import Backoff

    plain = {"answer": 1.0, "upload": 1.0, "connect": 1.0, "unreachable": 0.0, "stream": 0.0, "backoff": Backoff()}
    for name, value in (plain | given).items():
        object.__setattr__(self, name, value)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["job"], "did you mean jobs?"),
        (["jobs", "-o", "jso"], "did you mean json?"),
        (["jobs", "-f", "sleeping"], "there is no filter"),
        (["clusters", "--tree"], "needs the NAME"),
        (["submit", "-N", "0", "--", "x"], "-N"),
        (["logs"], "JOB"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_right(server, rainbow, args, hint):
    done = rainbow(*args)
    assert done.code == 2
    assert done.err.startswith("rainbow: ")
    assert hint in done.err
