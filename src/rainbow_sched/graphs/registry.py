"""Registry of graph backends: built-in backends in a table, others by entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.installation import missing
from rainbow_sched.model.errors import Invalid, NotFound, Unsupported
from rainbow_sched.model.hints import did_you_mean

GROUP = "rainbow.graphs"

# Name -> "module:class". The module is imported when the backend is chosen, not before.
BACKENDS: Mapping[str, str] = {
    "memory": "rainbow_sched.graphs.memory:MemoryBackend",
    "cypher": "rainbow_sched.graphs.cypher.backend:CypherBackend",
}


def names() -> tuple[str, ...]:
    """Return the names of all built-in and installed backends."""
    return tuple(sorted({*BACKENDS, *(entry.name for entry in entry_points(group=GROUP))}))


def load(name: str) -> Callable[..., GraphBackend]:
    """Return the class of the backend `name`; raise `NotFound` or `Unsupported`."""
    target = BACKENDS.get(name)  # looking through all that is installed takes milliseconds
    if target is None:
        installed = {entry.name: entry.value for entry in entry_points(group=GROUP)}
        if name not in installed:
            raise NotFound(f"there is no graph backend {name!r}{did_you_mean(name, {**BACKENDS, **installed})}")
        target = installed[name]
    module, _, attribute = target.partition(":")
    try:
        return cast("Callable[..., GraphBackend]", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and name in BACKENDS:
            raise missing(error.name or "a package", "server", f"the graph backend {name!r}") from error
        raise Unsupported(f"the graph backend {name!r} does not load: {error}") from error


def open_backend(name: str, options: Mapping[str, str] | None = None) -> GraphBackend:
    """Create the backend `name` with its options."""
    made = load(name)
    try:
        return made(**(options or {}))
    except TypeError as error:
        raise Invalid(f"the graph backend {name!r} does not take these options: {error}") from None
