"""The first Rainbow's unmodified Python client works against this server, on both databases."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.support.jgf import dict_jgf, subsystem_jgf
from tests.support.prototype import run_client, write_config
from tests.support.server_process import SECRET, ServerProcess


def test_its_whole_round_works(server_on_each: ServerProcess, tmp_path: Path) -> None:
    server = server_on_each
    nodes, io, state = tmp_path / "nodes.json", tmp_path / "io.json", tmp_path / "state.json"
    nodes.write_text(json.dumps(dict_jgf(nodes=3, cores=12)))
    io.write_text(json.dumps(subsystem_jgf("io", ["2"], {"type": "shm"})))
    state.write_text(json.dumps({"nodes_free": 3}))
    config = write_config(tmp_path, server, {"name": "keebler"}, [])
    made = run_client(
        """
        from rainbow.client import RainbowClient
        cli = RainbowClient(host=host, config_file=config)
        answer = cli.register("keebler", secret, nodes)
        out.update(token=answer.token, secret=answer.secret, status=answer.status)
        again = cli.register("keebler", secret, nodes)
        out.update(again=again.status, again_token=again.token)
        out["subsystem"] = cli.register_subsystem("keebler", "io", answer.secret, io).status
        out["state"] = cli.update_state("keebler", {"cost": 1}, answer.secret).status
        out["state_file"] = cli.update_state("keebler", state, answer.secret).status
        """,
        tmp_path,
        host=server.address,
        config=str(config),
        secret=SECRET,
        nodes=str(nodes),
        io=str(io),
        state=str(state),
    )
    assert (made["status"], made["again"], made["again_token"]) == (1, 4, "")
    assert (made["subsystem"], made["state"], made["state_file"]) == (1, 2, 2)

    credentials = {"name": "keebler", "secret": str(made["secret"])}
    config = write_config(tmp_path, server, credentials, [{"name": "keebler", "token": str(made["token"])}])
    done = run_client(
        """
        import jobspec.core as js
        from rainbow.client import RainbowClient
        cli = RainbowClient(host=host, config_file=config)
        simple = cli.submit_job("echo hello", nodes=2, tasks=24)
        out["simple"] = [simple.cluster, simple.status, simple.total_matches]
        spec = {
            "version": 1,
            "resources": {"ior": {"type": "node", "replicas": 1, "with": [{"type": "core", "count": 2}],
                                  "requires": [{"name": "io", "field": "type", "match": "shm"}]}},
            "tasks": [{"command": ["ior"], "resources": "ior"}],
        }
        second = cli.submit_jobspec(js.Jobspec(spec))
        out["jobspec"] = [second.cluster, second.status]
        only = cli.submit_jobspec(js.Jobspec(spec), satisfy_only=True)
        out["only"] = list(only.clusters)
        spec["resources"]["ior"]["requires"][0]["match"] = "nvme"
        none = cli.submit_jobspec(js.Jobspec(spec))
        out["none"] = [list(none.clusters), none.total_mismatches]
        out["received"] = cli.receive_jobs(max_jobs=1)
        out["rest"] = cli.receive_jobs()
        out["empty"] = cli.receive_jobs()
        """,
        tmp_path,
        host=server.address,
        config=str(config),
    )
    assert done["simple"] == ["keebler", 1, 1]
    assert done["jobspec"] == ["keebler", 1]
    assert done["only"] == ["keebler"]
    assert done["none"] == [[], 1]
    received, rest = done["received"], done["rest"]
    assert isinstance(received, list)
    assert isinstance(rest, list)
    assert len(received) == 1
    assert len(rest) == 1
    assert done["empty"] == []
    assert yaml.safe_load(received[0]["jobspec"])["version"] == 1
    assert "ior" in rest[0]["jobspec"]
    listed = json.loads(server.run("jobs", "-a", "-o", "json").stdout)["jobs"]
    assert {job["state"] for job in listed} == {"handed_off"}
