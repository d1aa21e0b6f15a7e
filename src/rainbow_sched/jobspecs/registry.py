"""The jobspec dialects: the built-in ones and those of installed packages.

A package adds a `Dialect` object with the entry point group `rainbow.dialects`. A dialect that
fails to load stays in the list with its error, for `rainbow plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rainbow_sched.documents.reader import DEFAULT_LIMITS, read
from rainbow_sched.jobspecs import canonical
from rainbow_sched.jobspecs.dialects import script
from rainbow_sched.jobspecs.dialects.compatibility import AttributeRule
from rainbow_sched.jobspecs.dialects.flux import from_flux
from rainbow_sched.jobspecs.dialects.nextgen import from_legacy, from_nextgen
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rainbow.dialects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A jobspec format, read from plain data (`from_data`) or from text that is not a document (`from_text`)."""

    name: str
    about: str
    from_data: Callable[[object], Request] | None = None
    from_text: Callable[[str], Request] | None = None
    origin: str = "built in"
    error: str = ""  # load error; such a dialect cannot be used


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
    """Return the built-in dialects and those of installed packages, including those that failed to load."""
    from importlib import metadata  # slow to import

    known = dict(DIALECTS)
    for entry in metadata.entry_points(group=GROUP):
        if entry.name not in known:
            known[entry.name] = _load(entry)
    return known


def _load(entry: EntryPoint) -> Dialect:
    origin = entry.dist.name if entry.dist else "unknown package"
    try:
        dialect = entry.load()
    except Exception as error:  # importing a plugin may raise anything
        return Dialect(name=entry.name, about="", origin=origin, error=f"{type(error).__name__}: {error}")
    if not isinstance(dialect, Dialect):
        return Dialect(name=entry.name, about="", origin=origin, error=f"{entry.value} is not a Dialect")
    return replace(dialect, name=entry.name, origin=origin)


def parse(text: str, *, dialect: str | None = None, compat: Mapping[str, AttributeRule] | None = None) -> Request:
    """Read a jobspec or a script; detect the dialect unless it is given.

    `compat` holds a site's rules for the compatibility documents of images.
    Raises only `Invalid` (or `TooLarge`), with the path and line of the problem.
    """
    if dialect is None and script.is_script(text):
        return script.from_script(text)
    chosen = None if dialect is None else _find(dialect)
    if chosen is not None and chosen.from_text is not None:
        return chosen.from_text(text)
    document = read(text, canonical.LIMITS if dialect == "canonical" else DEFAULT_LIMITS)
    chosen = chosen or DIALECTS[detect_dialect(document.data)]
    if compat is not None and chosen.name == "nextgen":
        chosen = replace(chosen, from_data=partial(from_nextgen, rules=compat))
    if chosen.from_data is None:
        raise Invalid(f"the dialect {chosen.name!r} has no reader")
    try:
        return chosen.from_data(document.data)
    except Invalid as error:
        raise document.with_line(error) from None


def detect_dialect(data: object) -> str:
    """Return the name of the built-in dialect of this data."""
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
    task_list = tasks if isinstance(tasks, list) else []
    legacy = "task" in data or any(isinstance(task, dict) and "resources" in task for task in task_list)
    return "legacy" if legacy else "flux"


def _find(name: str) -> Dialect:
    known = dialects()
    if name not in known:
        raise Invalid(f"there is no dialect {name[:40]!r}{did_you_mean(name, known)}")
    if known[name].error:
        raise Invalid(f"the dialect {name!r} of {known[name].origin} could not be loaded: {known[name].error}")
    return known[name]
