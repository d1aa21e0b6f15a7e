"""Asks this machine for its software: the module command, MODULEPATH, Spack and container runtimes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from rainbow_sched.discovery.command import Silent, output
from rainbow_sched.discovery.software import MAX_PACKAGES, Package, parse_modules, parse_spack, parse_version
from rainbow_sched.model.errors import RainbowError

RUNTIMES = ("apptainer", "singularity", "podman", "docker", "shifter", "sarus", "enroot", "ch-run")
_DEPTH = 4


def find_software(environment: Mapping[str, str], *, sure: bool = False) -> tuple[Package, ...]:
    """Whatever there is; a source that fails has nothing. With `sure`, one that is Silent raises: it may have much."""
    found = (*_modules(environment), *_spack(environment), *_containers(environment))
    if sure and (silent := next((one for one in found if isinstance(one, Silent)), None)) is not None:
        raise silent
    return tuple(one for one in found if isinstance(one, Package))


def _modules(environment: Mapping[str, str]) -> tuple[Package | RainbowError, ...]:
    """By Lmod's or Tcl's own program, which knows hidden ones and aliases; else by looking into MODULEPATH."""
    failed: list[RainbowError] = []
    lmod, tcl = environment.get("LMOD_CMD", ""), environment.get("MODULES_CMD", "")
    for words in ((lmod, "bash", "-t", "avail"), (tcl, "bash", "avail", "-t")):
        if words[0] and os.access(words[0], os.X_OK):
            try:
                return parse_modules(output(words, environment, both=True))
            except RainbowError as problem:
                failed.append(problem)
    lines = [line for part in environment.get("MODULEPATH", "").split(":") if part for line in _files(Path(part))]
    return (*failed, *parse_modules("\n".join(lines[:MAX_PACKAGES])))


def _files(top: Path) -> Iterator[str]:
    """Module files below a folder as `name/version`."""
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        if len(here.relative_to(top).parts) >= _DEPTH:
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
        return parse_spack(output((program, "find", "--json"), environment))
    except RainbowError as problem:
        return (problem,)


def _containers(environment: Mapping[str, str]) -> Iterator[Package | RainbowError]:
    for name in RUNTIMES:
        program = shutil.which(name, path=environment.get("PATH"))
        if program is not None:
            try:
                yield parse_version(name, output((program, "--version"), environment, both=True))
            except RainbowError as problem:
                yield problem
