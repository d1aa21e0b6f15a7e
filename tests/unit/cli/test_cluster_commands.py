"""Cluster and config commands against a fake server, and messages for errors."""

import json
import stat

import grpc
import pytest
import yaml

from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2
from tests.support.fake_server import Refusal


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


def test_a_command_without_dashes_is_refused_with_the_right_syntax(rainbow):
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
    assert rainbow("jobs").err == "rainbow: the credential is unknown (save one with: rainbow login)\n"


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
    assert "already registered" in done.err
    assert path.read_text() == "cluster: {name: perl, secret: kept}\n"


def test_a_secret_on_the_command_line_works_with_a_warning(server, rainbow, tmp_path):
    (tmp_path / "g.json").write_text("{}")
    server.answers["Clusters/Register"] = clusters_pb2.RegisterResponse(cluster="perl", token="t", secret="s")
    done = rainbow("register", "cluster", "--cluster-name", "perl", "--nodes-json", "g.json", "-s", "door")
    assert server.only("Clusters/Register").bearer == "Bearer door"
    assert "other users can read a secret" in done.err
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
    assert "name one cluster" in rainbow("delete", "perl", "--cluster-name", "other").err
    assert rainbow("delete").out == "deleted perl; 2 jobs go to another cluster\n"
    assert {asked.bearer for asked in server.asked} == {"Bearer sec"}


def test_the_credentials_of_a_deleted_cluster_go_with_it(server, rainbow, tmp_path):
    file = tmp_path / "rainbow-config.yaml"
    perl, corona = {"name": "perl", "token": "t1"}, {"name": "corona", "token": "t2"}
    values = {"mine": 1, "cluster": {"name": "perl", "secret": "sec"}, "clusters": [perl, corona]}
    file.write_text(json.dumps(values))
    file.chmod(0o600)
    server.answers["Clusters/Delete"] = clusters_pb2.DeleteClusterResponse()
    assert rainbow("delete", "frontier").err == ""
    assert json.loads(file.read_text()) == values, "a file without them is left as it is"
    done = rainbow("delete", "perl")
    assert (done.out, done.err) == ("deleted perl\n", "rainbow: removed its credentials from rainbow-config.yaml\n")
    left = {"mine": 1, "cluster": {"name": "", "secret": ""}, "clusters": [corona]}
    assert yaml.safe_load(file.read_text()) == left


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


def test_clusters_that_were_named_and_are_not_there_are_not_found(server, rainbow):
    server.answers["Clusters/List"] = clusters_pb2.ListClustersResponse(clusters=[clusters_pb2.Cluster(name="perl")])
    assert rainbow("clusters", "-M", "perl", "-o", "name").out == "perl\n"
    done = rainbow("clusters", "-M", "perl,pearl")
    assert (done.code, done.err) == (4, "rainbow: there is no cluster 'pearl'; did you mean perl?\n")


def test_an_unreachable_server_exits_with_6(rainbow, monkeypatch):
    monkeypatch.setenv("RAINBOW_SERVER", "127.0.0.1:1")
    monkeypatch.setattr("rainbow_sched.client.connection.Timeouts.__init__", quick_timeouts)
    done = rainbow("jobs")
    assert done.code == 6
    assert "no Rainbow server answers at 127.0.0.1:1" in done.err


def quick_timeouts(self, **given):
    from rainbow_sched.client.connection import Backoff

    plain = {"call": 1.0, "upload": 1.0, "connect": 1.0, "unreachable": 0.0, "stream": 0.0}
    plain |= {"first_contact": 0.0, "backoff": Backoff()}
    for name, value in (plain | given).items():
        object.__setattr__(self, name, value)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["job"], "did you mean jobs?"),
        (["jobs", "-o", "jso"], "did you mean json?"),
        (["jobs", "-f", "sleeping"], "there is no filter"),
        (["clusters", "--tree"], "needs the NAME"),
        (["jobs", "-w", "--stats"], "give one of them"),
        (["server", "--lisen", "x"], "No such option '--lisen'"),
        (["submit", "-N", "0", "--", "x"], "-N"),
        (["logs"], "JOB"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_right(server, rainbow, args, hint):
    done = rainbow(*args)
    assert done.code == 2
    assert done.err.startswith("rainbow: ")
    assert hint in done.err
