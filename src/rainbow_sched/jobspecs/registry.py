"""The dialects that Rainbow reads: a visible table, and what installed packages add to it.

A package adds one with the entry point group `rainbow.dialects`; its object is a `Dialect`.
One that fails to load is kept with its error, so that `rainbow plugins` can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rainbow_sched.jobspecs import canonical
from rainbow_sched.jobspecs.dialects import script
from rainbow_sched.jobspecs.dialects.compatibility import Mapped
from rainbow_sched.jobspecs.dialects.flux import from_flux
from rainbow_sched.jobspecs.dialects.legacy import from_legacy
from rainbow_sched.jobspecs.dialects.nextgen import from_nextgen
from rainbow_sched.jobspecs.reading.documents import MAX_BYTES, Document, Limits, read
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rainbow.dialects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A way to write requests: from plain data, or with `from_text` from text that is no document."""

    name: str
    about: str
    from_data: Callable[[object], Request] | None = None
    from_text: Callable[[str], Request] | None = None
    origin: str = "built in"
    error: str = ""  # why it could not be loaded; then it cannot be used


DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(name="nextgen", about="resources as a map, tasks that name them", from_data=from_nextgen),
        Dialect(name="flux", about="Flux Jobspec V1 and canonical (RFC 25, 14)", from_data=from_flux),
        Dialect(name="legacy", about="the prototype's older form, requirements beside the task", from_data=from_legacy),
        Dialect(name="canonical", about="Rainbow's own JSON form of a request", from_data=canonical.from_data),
        Dialect(name="script", about="#SBATCH, # flux: and #RAINBOW lines", from_text=script.from_script),
    )
}


def dialects() -> Mapping[str, Dialect]:
    """The built-in dialects and those of installed packages, also the ones that failed to load."""
    from importlib import metadata  # slow to import, and only needed here

    found = dict(DIALECTS)
    for entry in metadata.entry_points(group=GROUP):
        if entry.name not in found:
            found[entry.name] = _loaded(entry)
    return found


def _loaded(entry: EntryPoint) -> Dialect:
    origin = entry.dist.name if entry.dist else "unknown package"
    try:
        made = entry.load()
    except Exception as error:  # foreign code at import: whatever it raises is shown, not fatal
        return Dialect(name=entry.name, about="", origin=origin, error=f"{type(error).__name__}: {error}")
    if not isinstance(made, Dialect):
        return Dialect(name=entry.name, about="", origin=origin, error=f"{entry.value} is not a Dialect")
    return replace(made, name=entry.name, origin=origin)


def parse(
    text: str,
    *,
    dialect: str | None = None,
    max_bytes: int = MAX_BYTES,
    compat: Mapping[str, Mapped] | None = None,
) -> Request:
    """Read a jobspec or a script in any dialect; recognise the dialect unless it is named.

    `compat` is a site's own table for the compatibility documents of images.
    Raises `Invalid` (or `TooLarge`) with the path and line of what is wrong, and nothing else.
    """
    if dialect is None and script.is_script(text):
        return script.from_script(text, max_bytes=max_bytes)
    chosen = None if dialect is None else _named(dialect)
    if chosen is not None and chosen.from_text is not None:
        return chosen.from_text(text)
    document = read(text, canonical.LIMITS if dialect == "canonical" else Limits(bytes=max_bytes))
    chosen = chosen or DIALECTS[recognise(document.data)]
    if compat is not None and chosen.name == "nextgen":
        chosen = replace(chosen, from_data=partial(from_nextgen, table=compat))
    return _read(chosen, document)


def recognise(data: object) -> str:
    """The name of the built-in dialect that this data is written in."""
    if not isinstance(data, dict):
        raise Invalid(
            "this is neither a jobspec, which is a map with the key 'resources', nor a script, which begins with #! "
            "as in #!/bin/sh, or has #SBATCH, # flux: or #RAINBOW lines"
        )
    if "rainbow" in data:
        return "canonical"
    if not isinstance(data.get("resources"), list):
        return "nextgen"
    tasks = data.get("tasks")
    listed = tasks if isinstance(tasks, list) else []
    older = "task" in data or any(isinstance(task, dict) and "resources" in task for task in listed)
    return "legacy" if older else "flux"


def _named(name: str) -> Dialect:
    known = dialects()
    if name not in known:
        raise Invalid(f"there is no dialect {name[:40]!r}{did_you_mean(name, known)}")
    if known[name].error:
        raise Invalid(f"the dialect {name!r} of {known[name].origin} could not be loaded: {known[name].error}")
    return known[name]


def _read(dialect: Dialect, document: Document) -> Request:
    if dialect.from_data is None:
        raise Invalid(f"the dialect {dialect.name!r} reads nothing")
    try:
        return dialect.from_data(document.data)
    except Invalid as error:
        raise document.placed(error) from None
