"""Backends by name: the built-in ones, and others by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points

from rainbow_sched.agent.backends.base import BackendSettings, MakeBackend
from rainbow_sched.model.errors import Invalid, NotFound
from rainbow_sched.model.hints import did_you_mean

GROUP = "rainbow.backends"
BACKENDS: Mapping[str, str] = {  # name -> module:class, imported on use
    "local": "rainbow_sched.agent.backends.local.backend:LocalBackend",
    "slurm": "rainbow_sched.agent.backends.slurm.backend:SlurmBackend",
    "flux": "rainbow_sched.agent.backends.flux.backend:FluxBackend",
}


def backend_names() -> list[str]:
    return sorted({*BACKENDS, *(point.name for point in entry_points(group=GROUP))})


def load_backend(name: str) -> MakeBackend:
    """Return the constructor of backend `name`; raise NotFound with similar names."""
    if name in BACKENDS:
        module, _, attribute = BACKENDS[name].partition(":")
        made: MakeBackend = getattr(import_module(module), attribute)
        return made
    for point in entry_points(group=GROUP, name=name):
        loaded: MakeBackend = point.load()
        if not callable(loaded):
            raise Invalid(f"backend {point.name!r} of {point.value} is not a function that builds a backend")
        return loaded
    raise NotFound(f"no backend {name!r}{did_you_mean(name, backend_names())}")


__all__ = ["BACKENDS", "BackendSettings", "MakeBackend", "backend_names", "load_backend"]
