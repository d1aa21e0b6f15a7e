"""The subsystem `software`: environment modules, Spack packages and container runtimes of this machine.

Each vertex has `name`, `version` and `source`; Spack packages also have architecture, compiler and
variants, for `--software 'lammps@>=2024 +kokkos'`. All vertices are attached to the root: software
of a login node counts for the whole cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rainbow_sched.discovery.command import CommandTimeout, run_command
from rainbow_sched.model.errors import Invalid, RainbowError
from rainbow_sched.model.graph import Graph, Subsystem, Vertex

SUBSYSTEM = "software"
MAX_PACKAGES = 50_000  # bounds the size of the graph
MAX_MODULE_DEPTH = 4  # folders below MODULEPATH; bounds the time of the discovery
RUNTIMES = ("apptainer", "singularity", "podman", "docker", "shifter", "sarus", "enroot", "ch-run")
_MARKS = re.compile(r"\s*(?:\([^()]*\)|<[^<>]*>)+\s*$")  # (default), <L>
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:[-+.~_]?[0-9A-Za-z]+)*")


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    source: str  # module, spack, container
    fields: Mapping[str, object] = field(default_factory=dict)


def parse_modules(text: str) -> tuple[Package, ...]:
    """Parse the modules of `module -t avail` (Lmod or Tcl): `gcc/12.2.0(default)` is gcc 12.2.0."""
    found: dict[tuple[str, str], Package] = {}
    for line in text.splitlines():
        word = _MARKS.sub("", line.strip()).removesuffix(".lua")
        if not word or word.endswith((":", "/")) or " " in word or word.startswith(("-", "/")):
            continue
        name, _, version = word.rpartition("/")
        package = Package(name or version, version if name else "", "module")
        found[package.name, package.version] = package
        if len(found) >= MAX_PACKAGES:
            break
    return tuple(found.values())


def parse_spack(text: str) -> tuple[Package, ...]:
    """Parse the packages of `spack find --json`."""
    try:
        specs = json.loads(text)
    except ValueError as problem:
        raise Invalid(f"cannot read the output of spack find --json: {problem}") from None
    if not isinstance(specs, list):
        raise Invalid("the output of spack find --json must be a list of specs")
    return tuple(_spec(spec) for spec in specs[:MAX_PACKAGES] if isinstance(spec, dict) and spec.get("name"))


def _spec(spec: Mapping[str, object]) -> Package:
    fields: dict[str, object] = {}
    parameters = spec.get("parameters")
    for name, value in parameters.items() if isinstance(parameters, Mapping) else ():
        if isinstance(value, bool | str | int | float) and name not in ("name", "version", "source"):
            fields[str(name)] = value
    arch = spec.get("arch")
    target = arch.get("target") if isinstance(arch, Mapping) else None
    fields["arch"] = str(target.get("name", "")) if isinstance(target, Mapping) else str(target or "")
    compiler = spec.get("compiler")
    if isinstance(compiler, Mapping):
        fields["compiler"] = f"{compiler.get('name', '')}@{compiler.get('version', '')}"
    if spec.get("hash"):
        fields["hash"] = str(spec["hash"])
    return Package(str(spec["name"]), str(spec.get("version", "")), "spack", fields)


def parse_version(program: str, text: str) -> Package:
    """Parse the output of `PROGRAM --version` of a container runtime."""
    found = _VERSION.search(text)
    return Package(program, found[0] if found else "", "container")


def software_subsystem(graph: Graph, packages: Iterable[Package]) -> Subsystem | None:
    """Return the subsystem, attached to the root; None without packages."""
    vertices: dict[str, Vertex] = {}
    for package in packages:
        mark = package.fields.get("hash", "")
        id = f"software:{package.source}:{package.name}@{package.version}{f'/{mark}' if mark else ''}"
        about = {"name": package.name, "version": package.version, "source": package.source, **package.fields}
        vertices[id] = Vertex(id=id, type="software", name=package.name, metadata=about)
    if not vertices:
        return None
    root = graph.ids[0]
    return Subsystem.build(SUBSYSTEM, {root: 0}, vertices.values(), [(root, id) for id in vertices])


def find_software(environment: Mapping[str, str], *, strict: bool = False) -> tuple[Package, ...]:
    """Return all software; skip sources that fail, but if `strict`, raise CommandTimeout for one that times out."""
    found = (*_modules(environment), *_spack(environment), *_containers(environment))
    if strict and (timeout := next((one for one in found if isinstance(one, CommandTimeout)), None)) is not None:
        raise timeout
    return tuple(one for one in found if isinstance(one, Package))


def _modules(environment: Mapping[str, str]) -> tuple[Package | RainbowError, ...]:
    """List modules with Lmod or Tcl, or else by searching MODULEPATH."""
    failed: list[RainbowError] = []
    lmod, tcl = environment.get("LMOD_CMD", ""), environment.get("MODULES_CMD", "")
    for words in ((lmod, "bash", "-t", "avail"), (tcl, "bash", "avail", "-t")):
        if words[0] and os.access(words[0], os.X_OK):
            try:
                return parse_modules(run_command(words, environment, with_stderr=True))
            except RainbowError as problem:
                failed.append(problem)
    lines = [line for part in environment.get("MODULEPATH", "").split(":") if part for line in _files(Path(part))]
    return (*failed, *parse_modules("\n".join(lines[:MAX_PACKAGES])))


def _files(top: Path) -> Iterator[str]:
    """Yield the module files below a folder as `name/version`."""
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        if len(here.relative_to(top).parts) >= MAX_MODULE_DEPTH:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                yield str((here / name).relative_to(top))


def _spack(environment: Mapping[str, str]) -> tuple[Package | RainbowError, ...]:
    program = shutil.which("spack", path=environment.get("PATH"))
    if program is None:
        return ()
    try:
        return parse_spack(run_command((program, "find", "--json"), environment))
    except RainbowError as problem:
        return (problem,)


def _containers(environment: Mapping[str, str]) -> Iterator[Package | RainbowError]:
    for name in RUNTIMES:
        program = shutil.which(name, path=environment.get("PATH"))
        if program is not None:
            try:
                yield parse_version(name, run_command((program, "--version"), environment, with_stderr=True))
            except RainbowError as problem:
                yield problem
