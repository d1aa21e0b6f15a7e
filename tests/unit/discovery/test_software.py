"""Installed software becomes the subsystem `software`."""

import json
import os
from pathlib import Path

import pytest

from rainbow_sched.discovery import command, host
from rainbow_sched.discovery.finder import discover_cluster
from rainbow_sched.discovery.software import (
    Package,
    find_software,
    parse_modules,
    parse_spack,
    parse_version,
    software_subsystem,
)
from rainbow_sched.model.errors import Invalid, Unavailable
from rainbow_sched.model.graph import Graph, Vertex


def test_modules_are_read_from_lmod_and_tcl():
    lmod = "/apps/modulefiles:\ngcc/\ngcc/12.2.0\ngcc/13.1.0(default)\nopenmpi/4.1.5.lua <L>\ntool\n"
    assert [(p.name, p.version) for p in parse_modules(lmod)] == [
        ("gcc", "12.2.0"),
        ("gcc", "13.1.0"),
        ("openmpi", "4.1.5"),
        ("tool", ""),
    ]


def test_a_module_below_its_compiler_keeps_the_whole_name():
    assert parse_modules("gcc-12/openmpi/4.1.5") == (Package("gcc-12/openmpi", "4.1.5", "module"),)


def test_spack_installs_carry_version_variants_arch_and_compiler():
    spec = {
        "name": "lammps",
        "version": "20240829",
        "arch": {"platform": "linux", "target": {"name": "zen3"}},
        "compiler": {"name": "gcc", "version": "12.2.0"},
        "parameters": {"kokkos": True, "mpi": False, "cflags": []},
        "hash": "abc",
    }
    (package,) = parse_spack(json.dumps([spec]))
    expected = {"kokkos": True, "mpi": False, "arch": "zen3", "compiler": "gcc@12.2.0", "hash": "abc"}
    assert package == Package("lammps", "20240829", "spack", expected)


@pytest.mark.parametrize("text", ["", "{}", "not json"])
def test_an_answer_that_is_none_is_refused(text):
    with pytest.raises(Invalid):
        parse_spack(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [("apptainer version 1.3.4-1.el9", "1.3.4-1.el9"), ("podman version 5.0.2", "5.0.2"), ("?", "")],
)
def test_a_runtime_says_its_version(text, version):
    assert parse_version("x", text).version == version


def test_software_hangs_on_the_root_and_two_versions_are_two_vertices():
    graph = Graph.build([Vertex(id="c", type="cluster", name="c")], [])
    made = software_subsystem(graph, [Package("gcc", "12", "module"), Package("gcc", "13", "module")])
    assert [(v.metadata["version"], on) for v, _, on in made.items()] == [("12", ("c",)), ("13", ("c",))]
    assert software_subsystem(graph, ()) is None


def test_the_machine_is_asked_and_a_source_that_fails_has_nothing(tmp_path: Path):
    modules = tmp_path / "modules" / "gcc"
    modules.mkdir(parents=True)
    (modules / "12.2.0.lua").touch()
    (modules / ".version").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("spack", "exit 1"), ("apptainer", "echo apptainer version 1.3.4")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}{os.pathsep}/nowhere", "MODULEPATH": f"{tmp_path}/modules:/nowhere"}
    found = [(p.name, p.version, p.source) for p in find_software(environment)]
    assert found == [("gcc", "12.2.0", "module"), ("apptainer", "1.3.4", "container")]


def test_a_source_that_does_not_answer_is_left_out_or_an_error_as_the_caller_wishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "TIMEOUT_SECONDS", 0.05)
    (tmp_path / "spack").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "spack").chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    assert not [one for one in find_software(environment) if one.source == "spack"]
    with pytest.raises(Unavailable, match="spack did not answer within"):
        find_software(environment, strict=True)


def test_gpus_of_a_driver_that_hangs_are_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(host, "GPU_QUERY_SECONDS", 0.05)
    with pytest.raises(Unavailable, match="check the driver"):
        host.host_graph("here")


def test_the_racks_of_a_slurm_that_is_slow_to_tell_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    node = "NodeName=a1 CPUTot=4 CPUEfctv=4 RealMemory=1000 State=IDLE Sockets=1 CoresPerSocket=4 ThreadsPerCore=1"
    (tmp_path / "scontrol").write_text(
        f"#!/bin/sh\ncase $* in *topo*) exec sleep 60;; *node*) echo '{node}';; *) echo slurm 22.05.8;; esac\n"
    )
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(command, "TIMEOUT_SECONDS", 0.5)
    with pytest.raises(Unavailable, match="scontrol did not answer"):
        discover_cluster("alpha", "slurm")
