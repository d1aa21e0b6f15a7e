"""Software of a cluster as the subsystem `software`: environment modules, Spack installs, container runtimes. Pure.

Each vertex has `name`, `version` and `source`; Spack's also have their architecture, compiler
and variants, so that `--software 'lammps@>=2024 +kokkos'` can be asked of them. All hang on
the root: what a login node offers, the whole cluster does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import Graph, Subsystem, Vertex

SUBSYSTEM = "software"
MAX_PACKAGES = 50_000
_MARKS = re.compile(r"\s*(?:\([^()]*\)|<[^<>]*>)+\s*$")  # (default), <L>
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:[-+.~_]?[0-9A-Za-z]+)*")


@dataclass(frozen=True, slots=True)
class Package:
    """One thing that is installed."""

    name: str
    version: str
    source: str  # module, spack, container
    fields: Mapping[str, object] = field(default_factory=dict)


def parse_modules(text: str) -> tuple[Package, ...]:
    """The modules of `module -t avail` (Lmod or Tcl): `gcc/12.2.0(default)` is gcc 12.2.0."""
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
    """The installs of `spack find --json`."""
    try:
        specs = json.loads(text)
    except ValueError as problem:
        raise Invalid(f"the answer of spack find --json cannot be read: {problem}") from None
    if not isinstance(specs, list):
        raise Invalid("the answer of spack find --json is a list of specs")
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
    """A container runtime by what `PROGRAM --version` prints."""
    found = _VERSION.search(text)
    return Package(program, found[0] if found else "", "container")


def software_subsystem(graph: Graph, packages: Iterable[Package]) -> Subsystem | None:
    """The subsystem, hung on the root; None if nothing was found."""
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
